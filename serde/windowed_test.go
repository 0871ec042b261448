package serde_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

type windowedString = window.Key[string]

func keyIn(key string, startMs, endMs int64) windowedString {
	return windowedString{Key: key, Window: window.Window{StartMs: startMs, EndMs: endMs}}
}

func TestWindowed_withoutSizeWritesAndDoesNotRead(t *testing.T) {
	s := serde.Windowed(serde.String, 0)
	got, err := s.Append(nil, keyIn("ab", 900, 1000))
	if err != nil || string(got) != "ab\x00\x00\x00\x00\x00\x00\x03\x84" {
		t.Errorf("%x, %v", got, err)
	}
	refused(t, "windowed key", s, got, "without the size")
	if err := s.(serde.Checker).Check(); err != nil {
		t.Errorf("a serde for writing only is not wrong: %v", err)
	}
}

func TestWindowed_sizeFromTheStep(t *testing.T) {
	sizer := serde.Windowed(serde.String, 0).(serde.WindowSizer[windowedString])
	if sizer.WindowSizeMs() != 0 {
		t.Errorf("size %d", sizer.WindowSizeMs())
	}
	sized := sizer.WithWindowSizeMs(100)
	if got := sized.(serde.WindowSizer[windowedString]).WindowSizeMs(); got != 100 {
		t.Errorf("size %d", got)
	}
	got, err := sized.Decode([]byte("ab\x00\x00\x00\x00\x00\x00\x03\x84"))
	if err != nil || got != keyIn("ab", 900, 1000) {
		t.Errorf("%v, %v", got, err)
	}
	if err := sizer.WithWindowSizeMs(-1).(serde.Checker).Check(); err == nil {
		t.Error("a negative size was accepted")
	}
}

func TestWindowed_refusesOtherWindows(t *testing.T) {
	s := serde.Windowed(serde.String, time.Second)
	for _, c := range []struct {
		k    windowedString
		want string
	}{
		{keyIn("k", 0, 60000), "window [0, 60000) for a serde of windows of 1000 ms"},
		{keyIn("k", 0, 0), "windows of 1000 ms"},
		{keyIn("k", -1000, 0), "negative start -1000"},
	} {
		if out, err := s.Append([]byte("dst"), c.k); err == nil || !strings.Contains(err.Error(), c.want) || string(out) != "dst" {
			t.Errorf("%+v: %q, %v, want an error that says %q", c.k, out, err, c.want)
		}
	}
}

func TestWindowed_wrongSize(t *testing.T) {
	for _, size := range []time.Duration{-time.Second, -1, 1, 1500 * time.Microsecond} {
		s := serde.Windowed(serde.String, size)
		err := s.(serde.Checker).Check()
		if err == nil || !strings.Contains(err.Error(), size.String()) {
			t.Errorf("%v: %v", size, err)
		}
		if _, err := s.Append(nil, keyIn("k", 0, 1)); err == nil {
			t.Errorf("%v: writes", size)
		}
		refused(t, "windowed key", s, make([]byte, 9), size.String())
	}
}

func TestWindowed_refusedBytes(t *testing.T) {
	s := serde.Windowed(serde.Int32, 100*time.Millisecond)
	for _, c := range []struct{ hex, want string }{
		{"00000000000001", "7 bytes"},
		{"61ffffffffffffffff", "negative start"},
		{"000000017fffffffffffffff", "no time is left"},
		{"610000000000000384", "inner key of a windowed key: serde: int32 of 1 bytes"},
	} {
		refused(t, "windowed key", s, unhex(t, c.hex), c.want)
	}
}

// The end stops at the largest time, as in Java, in both directions.
func TestWindowed_endOfTime(t *testing.T) {
	s := serde.Windowed(serde.String, 100*time.Millisecond)
	k := keyIn("k", math.MaxInt64-50, math.MaxInt64)
	b, err := s.Append(nil, k)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Decode(b); err != nil || got != k {
		t.Errorf("%v, %v", got, err)
	}
	unlimited := s.(serde.WindowSizer[windowedString]).WithWindowSizeMs(math.MaxInt64)
	if got, err := unlimited.Decode([]byte("ab\x00\x00\x00\x00\x00\x00\x03\x84")); err != nil || got != keyIn("ab", 900, math.MaxInt64) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestWindowed_partitionOfTheInnerKey(t *testing.T) {
	s := serde.Windowed(serde.String, 100*time.Millisecond)
	b, err := s.Append(nil, keyIn("ab", 900, 1000))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.(serde.PartitionKeyer).PartitionKey(b); string(got) != "ab" {
		t.Errorf("%q", got)
	}
	// A windowed key inside another: Java hashes the whole inner key.
	nested := serde.Windowed(s, time.Second)
	b, err = nested.Append(nil, window.Key[windowedString]{Key: keyIn("ab", 900, 1000), Window: window.Window{StartMs: 0, EndMs: 1000}})
	if err != nil {
		t.Fatal(err)
	}
	if got := nested.(serde.PartitionKeyer).PartitionKey(b); string(got) != "ab\x00\x00\x00\x00\x00\x00\x03\x84" {
		t.Errorf("%q", got)
	}
}
