//go:build !race

package serde_test

import (
	"testing"
	"time"

	"github.com/millrace-io/millrace/serde"
)

// Not under the race detector, where sync.Pool forgets on purpose.
func TestAppend_doesNotAllocate(t *testing.T) {
	dst := make([]byte, 0, 1024)
	windowed, list, jsonSerde := serde.Windowed(serde.String, time.Second), serde.List(serde.String), serde.JSON[Click]()
	texts, click := []string{"a", "bcd"}, Click{User: "alice", URL: "/"}
	for name, f := range map[string]func() error{
		"String":   func() (err error) { dst, err = serde.String.Append(dst[:0], "abc"); return err },
		"Int64":    func() (err error) { dst, err = serde.Int64.Append(dst[:0], 5); return err },
		"Float64":  func() (err error) { dst, err = serde.Float64.Append(dst[:0], 5); return err },
		"UUID":     func() (err error) { dst, err = serde.UUID.Append(dst[:0], uuid1); return err },
		"Time":     func() (err error) { dst, err = serde.Time.Append(dst[:0], time.Time{}); return err },
		"Windowed": func() (err error) { dst, err = windowed.Append(dst[:0], keyIn("k", 0, 1000)); return err },
		"List":     func() (err error) { dst, err = list.Append(dst[:0], texts); return err },
		"JSON":     func() (err error) { dst, err = jsonSerde.Append(dst[:0], click); return err },
	} {
		var err error
		n := testing.AllocsPerRun(100, func() {
			if e := f(); e != nil {
				err = e
			}
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if n != 0 {
			t.Errorf("%s: %v allocations for each call", name, n)
		}
	}
}
