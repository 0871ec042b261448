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

// Sliding windows lie where the records lie, so they are not listed: only their length is known, and when a record is late.
func ExampleSliding() {
	w := window.Sliding(10 * time.Second).Grace(time.Minute)
	fmt.Println(w, "is kept for", time.Duration(w.RetentionMs())*time.Millisecond)
	// Output: sliding 10s, grace 1m0s is kept for 1m20s
}

// A session that ends at 5 ms is open while no record beyond 10 ms has come.
func ExampleSession() {
	w := window.Session(5 * time.Millisecond)
	for _, observedMs := range []int64{10, 11} {
		fmt.Println(observedMs, "closed:", 5 < w.CloseTimeMs(observedMs))
	}
	// Output:
	// 10 closed: false
	// 11 closed: true
}

// The weather of the hour before a departure, and no other.
func ExampleWithin() {
	w := window.Within(0).Before(time.Hour).Grace(24 * time.Hour)
	fmt.Println(w)
	fmt.Println(window.Within(time.Minute).Before(-time.Hour).Validate())
	// Output:
	// within 1h0m0s before and 0s after, grace 24h0m0s
	// window: before -1h0m0s and after 1m0s together are negative; no two records could be joined
}

// A month has the length that it has in its time zone.
func ExampleMonths() {
	w := window.Months(time.UTC).WindowAt(time.Date(2028, 2, 10, 12, 0, 0, 0, time.UTC).UnixMilli())
	fmt.Println(w.Start().Format(time.DateOnly), w.End().Format(time.DateOnly))
	// Output: 2028-02-01 2028-03-01
}

func ExampleUnlimited() {
	since := window.Unlimited().StartingAt(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	fmt.Println(since)
	// Output: unlimited from 2026-01-01T00:00:00Z
}
