package serde_test

import (
	"bytes"
	"encoding/hex"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// The tables of this file were written by the Java serializers of Kafka 4.4.0.

type vector[T any] struct {
	v   T
	hex string
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// checkVectors checks that values encode to the bytes and decode from them, behind what stands in dst already, and that what
// was decoded does not change with the bytes.
func checkVectors[T any](t *testing.T, name string, s serde.Serde[T], equal func(a, b T) bool, vs []vector[T]) {
	t.Helper()
	for _, c := range vs {
		got, err := s.Append([]byte("dst"), c.v)
		if err != nil {
			t.Errorf("%s %v: %v", name, c.v, err)
			continue
		}
		if string(got[:3]) != "dst" || hex.EncodeToString(got[3:]) != c.hex {
			t.Errorf("%s %v: %x, want %s", name, c.v, got[3:], c.hex)
			continue
		}
		src := unhex(t, c.hex)
		v, err := s.Decode(src)
		if err != nil {
			t.Errorf("%s %s: %v", name, c.hex, err)
			continue
		}
		for i := range src {
			src[i] ^= 0xff
		}
		if !equal(v, c.v) {
			t.Errorf("%s %s: decoded %v, want %v", name, c.hex, v, c.v)
		}
	}
}

func same[T comparable](a, b T) bool { return a == b }

func ptr[T any](v T) *T { return &v }

// sameEntries compares lists of pointers by what they point to.
func sameEntries[T comparable](a, b []*T) bool {
	return slices.EqualFunc(a, b, func(x, y *T) bool { return x == y || x != nil && y != nil && *x == *y })
}

func TestBuiltins_javaVectors(t *testing.T) {
	checkVectors(t, "string", serde.String, same, []vector[string]{
		{"", ""}, {"abc", "616263"}, {"Zürich", "5ac3bc72696368"}, {"日本", "e697a5e69cac"}, {"😀", "f09f9880"}, {"a\x00b", "610062"},
	})
	checkVectors(t, "bytes", serde.Bytes, bytes.Equal, []vector[[]byte]{{[]byte{}, ""}, {[]byte{0, 0xff, 0x7f}, "00ff7f"}})
	checkVectors(t, "int16", serde.Int16, same, []vector[int16]{
		{0, "0000"}, {1, "0001"}, {-1, "ffff"}, {math.MaxInt16, "7fff"}, {math.MinInt16, "8000"}, {258, "0102"},
	})
	checkVectors(t, "int32", serde.Int32, same, []vector[int32]{
		{0, "00000000"}, {1, "00000001"}, {-1, "ffffffff"}, {math.MaxInt32, "7fffffff"}, {math.MinInt32, "80000000"},
		{16909060, "01020304"},
	})
	checkVectors(t, "int64", serde.Int64, same, []vector[int64]{
		{0, "0000000000000000"}, {1, "0000000000000001"}, {-1, "ffffffffffffffff"}, {math.MaxInt64, "7fffffffffffffff"},
		{math.MinInt64, "8000000000000000"}, {72623859790382856, "0102030405060708"},
	})
	checkVectors(t, "bool", serde.Bool, same, []vector[bool]{{true, "01"}, {false, "00"}})
}

func TestFloat32_javaVectors(t *testing.T) {
	equal := func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }
	checkVectors(t, "float32", serde.Float32, equal, []vector[float32]{
		{0, "00000000"}, {float32(math.Copysign(0, -1)), "80000000"}, {1, "3f800000"}, {-1, "bf800000"}, {1.5, "3fc00000"},
		{math.SmallestNonzeroFloat32, "00000001"}, {math.MaxFloat32, "7f7fffff"}, {float32(math.Inf(1)), "7f800000"},
		{float32(math.Inf(-1)), "ff800000"}, {3.1415927, "40490fdb"},
		{float32(math.NaN()), "7fc00000"}, {math.Float32frombits(0x7fc12345), "7fc12345"}, // the bits of a NaN stay
		{math.Float32frombits(0xffc00001), "ffc00001"},
	})
}

func TestFloat64_javaVectors(t *testing.T) {
	equal := func(a, b float64) bool {
		return math.Float64bits(a) == math.Float64bits(b) || math.IsNaN(a) && math.IsNaN(b)
	}
	checkVectors(t, "float64", serde.Float64, equal, []vector[float64]{
		{0, "0000000000000000"}, {math.Copysign(0, -1), "8000000000000000"}, {1, "3ff0000000000000"}, {-1, "bff0000000000000"},
		{1.5, "3ff8000000000000"}, {math.SmallestNonzeroFloat64, "0000000000000001"}, {math.MaxFloat64, "7fefffffffffffff"},
		{math.Inf(1), "7ff0000000000000"}, {math.Inf(-1), "fff0000000000000"}, {math.Pi, "400921fb54442d18"},
		// Every NaN becomes one, Go's own (…01) and a negative one too.
		{math.NaN(), "7ff8000000000000"}, {math.Float64frombits(0xfff8000000000000), "7ff8000000000000"},
		{math.Float64frombits(0x7ff0000000000001), "7ff8000000000000"},
	})
}

func TestTime_javaVectors(t *testing.T) {
	// Of the Long serializer.
	checkVectors(t, "time", serde.Time, func(a, b time.Time) bool { return a.Equal(b) && a.Location() == time.UTC }, []vector[time.Time]{
		{time.UnixMilli(0), "0000000000000000"}, {time.UnixMilli(-1), "ffffffffffffffff"},
		{time.Date(2026, 7, 15, 2, 10, 0, 0, time.FixedZone("", 7200)), "0000019f631be3c0"},
	})
	// What is below a millisecond is cut off towards the past, before 1970 too.
	for _, c := range []struct {
		nanos int64
		want  int64
	}{{1_999_999, 1}, {-1, -1}, {-1_000_001, -2}} {
		b, err := serde.Time.Append(nil, time.Unix(0, c.nanos))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := serde.Int64.Decode(b); err != nil || got != c.want {
			t.Errorf("%d ns: %d ms, %v, want %d", c.nanos, got, err, c.want)
		}
	}
	b, err := serde.Time.Append(nil, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := serde.Time.Decode(b); err != nil || !got.IsZero() {
		t.Errorf("the zero time came back as %v, %v", got, err)
	}
}

var (
	uuid1   = uuid.MustParse("00112233-4455-6677-8899-aabbccddeeff")
	uuidHex = "30303131323233332d343435352d363637372d383839392d616162626363646465656666"
	zeroHex = "30303030303030302d303030302d303030302d303030302d303030303030303030303030"
	ffHex   = "66666666666666662d666666662d666666662d666666662d666666666666666666666666"
)

func TestUUID_javaVectors(t *testing.T) {
	checkVectors(t, "UUID", serde.UUID, same, []vector[uuid.UUID]{{uuid1, uuidHex}, {uuid.Nil, zeroHex}, {uuid.MustParse("ffffffff-ffff-ffff-ffff-ffffffffffff"), ffHex}})
	type id [16]byte
	checkVectors(t, "UUID of another type", serde.UUIDOf[id](), same, []vector[id]{{id(uuid1), uuidHex}})
	// Java reads upper case too.
	if got, err := serde.UUID.Decode([]byte("00112233-4455-6677-8899-AABBCCDDEEFF")); err != nil || got != uuid1 {
		t.Errorf("upper case: %v, %v", got, err)
	}
}

func TestList_javaVectors(t *testing.T) {
	checkVectors(t, "int16", serde.List(serde.Int16), slices.Equal, []vector[[]int16]{{[]int16{1, -2}, "000000000000000002" + "0001fffe"}})
	checkVectors(t, "int16, null", serde.List(serde.Nullable(serde.Int16)), sameEntries, []vector[[]*int16]{
		{[]*int16{ptr[int16](1), nil}, "00" + "00000001" + "00000001" + "00000002" + "0001"},
	})
	checkVectors(t, "int32", serde.List(serde.Int32), slices.Equal, []vector[[]int32]{
		{[]int32{1, -2, 3}, "00" + "00000000" + "00000003" + "00000001fffffffe00000003"}, {[]int32{}, "000000000000000000"},
	})
	checkVectors(t, "int32, null", serde.List(serde.Nullable(serde.Int32)), sameEntries, []vector[[]*int32]{
		{[]*int32{nil, ptr[int32](7), nil, ptr[int32](8), nil},
			"00" + "00000003" + "000000000000000200000004" + "00000005" + "0000000700000008"},
	})
	checkVectors(t, "int64", serde.List(serde.Int64), slices.Equal, []vector[[]int64]{
		{[]int64{1, -2}, "000000000000000002" + "0000000000000001fffffffffffffffe"},
	})
	checkVectors(t, "int64, null", serde.List(serde.Nullable(serde.Int64)), sameEntries, []vector[[]*int64]{
		{[]*int64{ptr[int64](1), nil}, "000000000100000001000000020000000000000001"},
		{[]*int64{nil, nil}, "0000000002000000000000000100000002"},
	})
	checkVectors(t, "time", serde.List(serde.Time), slices.Equal, []vector[[]time.Time]{
		{[]time.Time{time.UnixMilli(1).UTC(), time.UnixMilli(-2).UTC()}, "000000000000000002" + "0000000000000001fffffffffffffffe"},
	})
	checkVectors(t, "float32", serde.List(serde.Float32), slices.Equal, []vector[[]float32]{
		{[]float32{1.5, float32(math.Copysign(0, -1))}, "0000000000000000023fc0000080000000"},
	})
	checkVectors(t, "float64", serde.List(serde.Float64), func(a, b []float64) bool {
		return len(a) == 2 && a[0] == b[0] && math.IsNaN(a[1]) && math.IsNaN(b[1])
	}, []vector[[]float64]{{[]float64{1.5, math.NaN()}, "0000000000000000023ff80000000000007ff8000000000000"}})
	checkVectors(t, "float64, null", serde.List(serde.Nullable(serde.Float64)), sameEntries, []vector[[]*float64]{
		{[]*float64{nil, ptr(2.0)}, "000000000100000000000000024000000000000000"},
	})
	checkVectors(t, "UUID", serde.List(serde.UUID), slices.Equal, []vector[[]uuid.UUID]{
		{[]uuid.UUID{uuid1, uuid.Nil}, "000000000000000002" + uuidHex + zeroHex},
	})
	checkVectors(t, "UUID, null", serde.List(serde.Nullable(serde.UUID)), sameEntries, []vector[[]*uuid.UUID]{
		{[]*uuid.UUID{nil, &uuid1}, "00" + "00000001" + "00000000" + "00000002" + uuidHex},
	})
	// One byte each, and yet with lengths: Java does not count it among the types of one size.
	checkVectors(t, "bool", serde.List(serde.Bool), slices.Equal, []vector[[]bool]{{[]bool{true, false}, "010000000200000001010000000100"}})
	checkVectors(t, "bool, null", serde.List(serde.Nullable(serde.Bool)), sameEntries, []vector[[]*bool]{
		{[]*bool{ptr(true), nil, ptr(false)}, "01000000030000000101ffffffff0000000100"},
	})
	checkVectors(t, "string", serde.List(serde.String), slices.Equal, []vector[[]string]{
		{[]string{"a", "", "bcd"}, "010000000300000001610000000000000003626364"}, {[]string{}, "0100000000"},
	})
	checkVectors(t, "string, null", serde.List(serde.Nullable(serde.String)), sameEntries, []vector[[]*string]{
		{[]*string{nil, ptr("a"), nil, ptr("")}, "0100000004ffffffff0000000161ffffffff00000000"},
	})
	checkVectors(t, "bytes", serde.List(serde.Bytes), func(a, b [][]byte) bool {
		return slices.EqualFunc(a, b, func(x, y []byte) bool { return bytes.Equal(x, y) && (x == nil) == (y == nil) })
	}, []vector[[][]byte]{{[][]byte{{0, 0xff}, {}, nil}, "01000000030000000200ff00000000ffffffff"}})
	checkVectors(t, "list of int32", serde.List(serde.List(serde.Int32)), func(a, b [][]int32) bool {
		return slices.EqualFunc(a, b, func(x, y []int32) bool { return slices.Equal(x, y) && (x == nil) == (y == nil) })
	}, []vector[[][]int32]{
		{[][]int32{{1}, {}, nil}, "01000000030000000d0000000000000000010000000100000009000000000000000000ffffffff"},
	})
}

func TestC127_windowedKeys(t *testing.T) {
	// Java 4.4.0; the same key in a changelog is a test of internal/codec.
	in := func(startMs, sizeMs int64) window.Window {
		return window.Window{StartMs: startMs, EndMs: startMs + sizeMs}
	}
	checkVectors(t, "string", serde.Windowed(serde.String, 100*time.Millisecond), same, []vector[window.Key[string]]{
		{window.Key[string]{Key: "ab", Window: in(1000, 100)}, "616200000000000003e8"},
		{window.Key[string]{Key: "ab", Window: in(900, 100)}, "61620000000000000384"},
		{window.Key[string]{Key: "", Window: in(0, 100)}, "0000000000000000"},
	})
	checkVectors(t, "string", serde.Windowed(serde.String, time.Minute), same, []vector[window.Key[string]]{
		{window.Key[string]{Key: "k", Window: in(1784074200000, 60000)}, "6b0000019f631be3c0"},
	})
	checkVectors(t, "int64", serde.Windowed(serde.Int64, time.Minute), same, []vector[window.Key[int64]]{
		{window.Key[int64]{Key: -5, Window: in(60000, 60000)}, "fffffffffffffffb000000000000ea60"},
	})
}
