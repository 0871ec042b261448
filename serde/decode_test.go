package serde_test

import (
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/serde"
)

// refused checks that bytes are refused with an error that says what is wrong.
func refused[T any](t *testing.T, name string, s serde.Serde[T], src []byte, want string) {
	t.Helper()
	if v, err := s.Decode(src); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s of %x: %v, %v, want an error that says %q", name, src, v, err, want)
	}
}

func TestBuiltins_refuseOtherSizes(t *testing.T) {
	for n := range 40 {
		src := make([]byte, n)
		if n != 2 {
			refused(t, "int16", serde.Int16, src, "want 2")
		}
		if n != 4 {
			refused(t, "int32", serde.Int32, src, "want 4")
			refused(t, "float32", serde.Float32, src, "want 4")
		}
		if n != 8 {
			refused(t, "int64", serde.Int64, src, "want 8")
			refused(t, "float64", serde.Float64, src, "want 8")
			refused(t, "time", serde.Time, src, "want 8")
		}
		if n != 1 {
			refused(t, "bool", serde.Bool, src, "want 1")
		}
		if n != 36 {
			refused(t, "UUID", serde.UUID, src, "want 36")
		}
	}
	refused(t, "bool", serde.Bool, []byte{2}, "byte 2")
}

func TestUUID_refused(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"00112233445566778899aabbccddeeff", "32 bytes"},
		{"{0112233-4455-6677-8899-aabbccddeef}", "group 1"},
		{"00112233-4455-6677-8899-aabbccddeefg", "group 5"},
		{"00112233-4455-6677-889--aabbccddeeff", "group 4"},
		{"00112233x4455-6677-8899-aabbccddeeff", "byte 8"},
		{"00112233-4455-6677-8899xaabbccddeeff", "byte 23"},
	} {
		refused(t, "UUID", serde.UUID, []byte(c.src), c.want)
	}
}

// Java replaces such bytes; two keys that differ would become one.
func TestString_keepsBytesThatAreNotText(t *testing.T) {
	got, err := serde.String.Decode([]byte("a\xffb"))
	if err != nil || got != "a\xffb" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestBytes_emptyIsNotNil(t *testing.T) {
	for _, src := range [][]byte{nil, {}} {
		if got, err := serde.Bytes.Decode(src); err != nil || got == nil || len(got) != 0 {
			t.Errorf("%v: %v, %v", src, got, err)
		}
	}
}

func TestList_refused(t *testing.T) {
	for _, c := range []struct{ hex, want string }{
		{"", "no bytes"},
		{"00", "number of null entries"},
		{"0000000000", "number of entries"},
		{"000000000000000001", "ends before its last entry"},
		{"0000000000000000010000000102", "1 bytes behind"}, // Java leaves them
		{"02000000010000000400000007", "first byte is 2"},
		{"0000000001000000050000000100000007", "null one at 5"}, // Java leaves it
		{"00" + "00000002" + "00000001" + "00000000" + "00000002", "null one at 0, after 1"},
		{"00" + "00000001" + "ffffffff" + "00000001", "null one at -1"},
		{"00ffffffff00000000", "-1 null entries"},
		{"0000000000ffffffff", "-1 entries"},
		{"00000000017fffffff00000001", "null one at 2147483647"},
		{"007fffffff", "ends before its last entry"},
		{"00" + "00000002" + "0000000000000001" + "00000001", "ends before its last entry"},
		{"000000000000000001000000077fffffff", "4 bytes behind"},
		{"0000000001000000000000000200000007", "null, which int32 cannot be"},
		{"0100000001ffffffff", "null, which int32 cannot be"},
		{"01000000010000000300000007", "entry 0 of a list: serde: int32 of 3 bytes"},
	} {
		refused(t, "list of int32", serde.List(serde.Int32), unhex(t, c.hex), c.want)
	}
	for _, c := range []struct{ hex, want string }{
		{"", "no bytes"},
		{"01", "number of entries"},
		{"0100000001", "ends before its last entry"},
		{"010000000100000001", "ends before its last entry"},
		{"0100000001fffffffe", "length of -2"},
		{"010000000100000005616263", "ends before its last entry"},
		{"0100000001000000016162", "1 bytes behind"}, // Java leaves them
		{"00000000000000000100000001", "one size"},
		{"017fffffff", "ends before its last entry"},
		{"01ffffffff", "-1 entries"},
		{"0100000001ffffffff", "null, which string cannot be"},
	} {
		refused(t, "list of string", serde.List(serde.String), unhex(t, c.hex), c.want)
	}
}

// A list of numbers whose entries have their lengths is read, as Java does, and a null in either form.
func TestList_readsBothForms(t *testing.T) {
	got, err := serde.List(serde.Int32).Decode(unhex(t, "01000000010000000400000007"))
	if err != nil || len(got) != 1 || got[0] != 7 {
		t.Errorf("%v, %v", got, err)
	}
	s := serde.List(serde.Nullable(serde.Int32))
	for _, h := range []string{"0100000001ffffffff", "00000000010000000000000001"} {
		if got, err := s.Decode(unhex(t, h)); err != nil || len(got) != 1 || got[0] != nil {
			t.Errorf("%s: %v, %v", h, got, err)
		}
	}
}

// A nil list is written as an empty one where a serde sees it; the engine keeps it apart before.
func TestList_emptyIsNotNil(t *testing.T) {
	s := serde.List(serde.String)
	b, err := s.Append(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Decode(b); err != nil || got == nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
}

func TestList_appendTellsTheEntry(t *testing.T) {
	s := serde.List(serde.Windowed(serde.String, -time.Second))
	if _, err := s.Append(nil, make([]windowedString, 1)); err == nil || !strings.Contains(err.Error(), "entry 0") {
		t.Errorf("%v", err)
	}
}

func TestList_manyEntries(t *testing.T) {
	s := serde.List(serde.Int32)
	in := make([]int32, 5000)
	for i := range in {
		in[i] = int32(i)
	}
	b, err := s.Append(nil, in)
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.Decode(b)
	if err != nil || len(out) != len(in) || out[4999] != 4999 {
		t.Errorf("%d entries, %v", len(out), err)
	}
}
