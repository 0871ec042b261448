package window_test

import (
	"fmt"
	"time"

	"github.com/millrace-io/millrace/window"
)

func ExampleTumbling() {
	perMinute := window.Tumbling(time.Minute).Grace(10 * time.Second)
	at := time.Date(2026, 7, 14, 22, 30, 42, 0, time.UTC)
	for _, w := range perMinute.AppendWindows(nil, at.UnixMilli()) {
		fmt.Println(w.Start().Format(time.TimeOnly), w.End().Format(time.TimeOnly))
	}
	// Output: 22:30:00 22:31:00
}

func ExampleHopping() {
	w := window.Hopping(10*time.Millisecond, 4*time.Millisecond)
	for _, w := range w.AppendWindows(nil, 9) {
		fmt.Println(w.StartMs, w.EndMs)
	}
	// Output:
	// 0 10
	// 4 14
	// 8 18
}

func ExampleTime_Validate() {
	fmt.Println(window.Hopping(5*time.Second, 6*time.Second).Validate())
	// Output: window: advance 6s is above the size 5s; records between two windows would belong to none
}
