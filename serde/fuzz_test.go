package serde_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/serde"
)

// fuzzDecode checks that whatever decodes encodes again, to bytes that decode to the same; where a value has one encoding
// only, to the same bytes.
func fuzzDecode[T any](t *testing.T, name string, s serde.Serde[T], src []byte, oneEncoding bool) {
	given := bytes.Clone(src)
	v, err := s.Decode(src)
	if !bytes.Equal(src, given) {
		t.Fatalf("%s: decoding changed %x to %x", name, given, src)
	}
	if err != nil {
		return
	}
	enc, err := s.Append(nil, v)
	if err != nil {
		t.Fatalf("%s: %x decodes to %v, which does not encode: %v", name, src, v, err)
	}
	if oneEncoding && !bytes.Equal(enc, src) {
		t.Fatalf("%s: %x came back as %x", name, src, enc)
	}
	again, err := s.Decode(enc)
	if err != nil || !cmp.Equal(again, v) {
		t.Fatalf("%s: %x decodes to %v, encodes to %x, decodes to %v, %v", name, src, v, enc, again, err)
	}
}

func FuzzBuiltins(f *testing.F) {
	for _, s := range []string{"", "00", "01", "02", "0102", "01020304", "7fc12345", "0102030405060708", "8000000000000000", uuidHex, ffHex} {
		f.Add(unhex(f, s))
	}
	f.Add([]byte("00112233-4455-6677-8899-AABBCCDDEEFF"))
	f.Fuzz(func(t *testing.T, src []byte) {
		fuzzDecode(t, "string", serde.String, src, true)
		fuzzDecode(t, "bytes", serde.Bytes, src, true)
		fuzzDecode(t, "int16", serde.Int16, src, true)
		fuzzDecode(t, "int32", serde.Int32, src, true)
		fuzzDecode(t, "int64", serde.Int64, src, true)
		fuzzDecode(t, "bool", serde.Bool, src, true)
		fuzzDecode(t, "time", serde.Time, src, true)
		fuzzDecode(t, "UUID", serde.UUID, src, false) // upper case comes back in lower case
	})
}

func FuzzList(f *testing.F) {
	for _, s := range []string{"", "00", "000000000000000000", "0000000000000000010000000102", "01000000010000000400000007", "0100000001ffffffff",
		"0000000003000000000000000200000004000000050000000700000008", "0100000004ffffffff0000000161ffffffff00000000", "007fffffff",
		"01000000030000000d0000000000000000010000000100000009000000000000000000ffffffff"} {
		f.Add(unhex(f, s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		fuzzDecode(t, "int32", serde.List(serde.Int32), src, false)
		fuzzDecode(t, "int32, null", serde.List(serde.Nullable(serde.Int32)), src, false)
		fuzzDecode(t, "string", serde.List(serde.String), src, true)
		fuzzDecode(t, "bytes", serde.List(serde.Bytes), src, true)
		fuzzDecode(t, "list of int32", serde.List(serde.List(serde.Int32)), src, false)
	})
}

func FuzzWindowed(f *testing.F) {
	for _, s := range []string{"", "00000000000001", "61620000000000000384", "0000000000000000", "61ffffffffffffffff", "7fffffffffffffff"} {
		f.Add(unhex(f, s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		fuzzDecode(t, "string", serde.Windowed(serde.String, time.Second), src, true)
		fuzzDecode(t, "int32", serde.Windowed(serde.Int32, time.Millisecond), src, true)
	})
}

func FuzzJSON(f *testing.F) {
	for _, s := range []string{"", "null", `{"id":"a","cents":5,"tags":["x"]}`, `{"id":"a"} x`, `[{"a":[]}]`, "\x00\x00\x00\x00\x01{}", `"\u2028"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		fuzzDecode(t, "any", serde.JSON[any](), src, false)
		fuzzDecode(t, "map", serde.JSON[map[string]int64](), src, false)
	})
}
