package serde_test

import (
	"fmt"
	"strconv"
	"time"

	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

type Click struct {
	User string `json:"user"`
	URL  string `json:"url"`
}

func ExampleJSON() {
	clicks := serde.JSON[Click]()
	b, _ := clicks.Append(nil, Click{User: "alice", URL: "/a?b&c"})
	fmt.Println(string(b))
	_, err := clicks.Decode([]byte(`{"user":7}`))
	fmt.Println(err)
	// Output:
	// {"user":"alice","url":"/a?b&c"}
	// serde: JSON into serde_test.Click: json: cannot unmarshal number into Go struct field Click.user of type string (at byte 9 of 10)
}

func ExampleWindowed() {
	perMinute := serde.Windowed(serde.String, time.Minute)
	b, _ := perMinute.Append(nil, window.Key[string]{Key: "k", Window: window.Tumbling(time.Minute).WindowAt(60_000)})
	fmt.Printf("%x\n", b)
	k, _ := perMinute.Decode(b)
	fmt.Println(k.Key, k.Window.StartMs, k.Window.EndMs)
	// Output:
	// 6b000000000000ea60
	// k 60000 120000
}

func ExampleList() {
	b, _ := serde.List(serde.Int32).Append(nil, []int32{1, 2})
	fmt.Printf("%x\n", b)
	b, _ = serde.List(serde.String).Append(nil, []string{"a", "bc"})
	fmt.Printf("%x\n", b)
	// Output:
	// 0000000000000000020000000100000002
	// 01000000020000000161000000026263
}

func ExampleNullable() {
	temperatures := serde.List(serde.Nullable(serde.Int32))
	t := int32(21)
	b, _ := temperatures.Append(nil, []*int32{nil, &t})
	fmt.Printf("%x\n", b)
	// Output: 0000000001000000000000000200000015
}

func ExampleFunc() {
	type Celsius float64
	s := serde.Func(
		func(dst []byte, v Celsius) ([]byte, error) {
			return strconv.AppendFloat(dst, float64(v), 'f', 1, 64), nil
		},
		func(src []byte) (Celsius, error) {
			f, err := strconv.ParseFloat(string(src), 64)
			return Celsius(f), err
		})
	b, _ := s.Append(nil, 21.5)
	fmt.Println(string(b))
	// Output: 21.5
}

func ExampleUUIDOf() {
	type ID [16]byte // of whatever UUID library
	b, _ := serde.UUIDOf[ID]().Append(nil, ID{0: 0xab, 15: 0x01})
	fmt.Println(string(b))
	// Output: ab000000-0000-0000-0000-000000000001
}
