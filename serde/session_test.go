package serde_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

func ExampleSessionWindowed() {
	visits := serde.SessionWindowed(serde.String)
	at := time.Date(2026, 7, 14, 22, 30, 0, 0, time.UTC)
	visit := window.Window{StartMs: at.UnixMilli(), EndMs: at.Add(3 * time.Minute).UnixMilli()}
	b, err := visits.Append(nil, window.Key[string]{Key: "ada", Window: visit})
	if err != nil {
		fmt.Println(err)
		return
	}
	k, err := visits.Decode(b)
	fmt.Println(len(b), k.Key, k.Window.Start().Format(time.TimeOnly), k.Window.End().Format(time.TimeOnly), err)
	// Output: 19 ada 22:30:00 22:33:00 <nil>
}

// The bytes were written by Kafka Streams 4.4.0: SessionWindowedSerializer of String.
func TestSessionWindowed_javaBytes(t *testing.T) {
	s := serde.SessionWindowed(serde.String)
	for _, c := range []struct {
		k   window.Key[string]
		hex string
	}{
		{keyIn("ab", 1000, 1050), "6162000000000000041a00000000000003e8"},
		{keyIn("k", 5, 14), "6b000000000000000e0000000000000005"},
		{keyIn("k", 300, 300), "6b000000000000012c000000000000012c"},
	} {
		b, err := s.Append(nil, c.k)
		if err != nil || string(b) != string(unhex(t, c.hex)) {
			t.Errorf("%v: %x, %v, want %s", c.k, b, err, c.hex)
		}
		if got, err := s.Decode(b); err != nil || got != c.k {
			t.Errorf("%s: %v, %v, want %v", c.hex, got, err, c.k)
		}
		if got := s.(serde.PartitionKeyer).PartitionKey(b); string(got) != c.k.Key {
			t.Errorf("partition of %q, want %q", got, c.k.Key)
		}
	}
}

func TestSessionWindowed_refused(t *testing.T) {
	s := serde.SessionWindowed(serde.Int32)
	for _, c := range []struct{ hex, want string }{
		{"000000000000000000000000000000", "15 bytes"},
		{"00000001000000000000000affffffffffffffff", "start -1"},
		{"00000001000000000000000a000000000000000b", "start 11 and end 10"},
		{"610000000000000384000000000000000a", "inner key of a session: serde: int32 of 1 bytes"},
	} {
		refused(t, "session key", s, unhex(t, c.hex), c.want)
	}
	text := serde.SessionWindowed(serde.String)
	for _, k := range []window.Key[string]{keyIn("k", -1, 5), keyIn("k", 6, 5)} {
		if out, err := text.Append([]byte("dst"), k); err == nil || !strings.Contains(err.Error(), "a session from") || string(out) != "dst" {
			t.Errorf("%v: %q, %v", k, out, err)
		}
	}
}

func TestSessionWindowed_wraps(t *testing.T) {
	in := window.Window{StartMs: 1, EndMs: 2}
	bound(t, "SessionWindowed", serde.SessionWindowed[string](tagged{}), window.Key[string]{Key: "v", Window: in},
		window.Key[string]{Key: "v+h", Window: in}, "T:v\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x01", 1)
	if _, ok := serde.SessionWindowed(serde.String).(serde.HeaderDecoder[window.Key[string]]); ok {
		t.Error("it decodes with headers")
	}
	k := window.Key[[]byte]{Key: []byte("k"), Window: in}
	c := serde.SessionWindowed(serde.Bytes).(serde.Cloner[window.Key[[]byte]]).Clone(k)
	k.Key[0] = 'X'
	if string(c.Key) != "k" || c.Window != in {
		t.Errorf("clone %v", c)
	}
	if _, ok := serde.SessionWindowed(serde.JSON[*int]()).(serde.Cloner[window.Key[*int]]); ok {
		t.Error("a key that cannot be copied says that it clones")
	}
	var none serde.Serde[string]
	if err := serde.SessionWindowed(none).(serde.Checker).Check(); err == nil {
		t.Error("nothing is wrong with a serde of none")
	}
	if err := serde.SessionWindowed(serde.String).(serde.Checker).Check(); err != nil {
		t.Error(err)
	}
}
