package codec

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

type testHeader struct {
	key   string
	value []byte
}

func appendTestHeaders(dst []byte, list []testHeader) []byte {
	return AppendHeaders(dst, len(list), func(i int) (string, []byte) { return list[i].key, list[i].value })
}

func testHeadersOf(b []byte) ([]testHeader, error) {
	var list []testHeader
	err := EachHeader(b, func(key, value []byte) { list = append(list, testHeader{string(key), value}) })
	return list, err
}

// Written by ValueTimestampHeadersSerializer of Kafka Streams 4.4.0, with the timestamp 5.
func TestHeaders_javaVectors(t *testing.T) {
	for _, c := range []struct {
		headers []testHeader
		value   string
		hex     string
	}{
		{nil, "A", "00 0000000000000005 41"},
		{[]testHeader{{"a", []byte("1")}}, "A", "0a 02 02 61 02 31 0000000000000005 41"},
		{[]testHeader{{"a", []byte("1")}, {"b", nil}, {"c", []byte{}}}, "A", "16 06 02 61 02 31 02 62 01 02 63 00 0000000000000005 41"},
		{[]testHeader{{"a", bytes.Repeat([]byte("x"), 100)}}, "", "d201 02 02 61 c801" + strings.Repeat("78", 100) + "0000000000000005"},
	} {
		want := fromHex(t, c.hex)
		if got := append(AppendStamp(appendTestHeaders(nil, c.headers), 5), c.value...); !bytes.Equal(got, want) {
			t.Errorf("%v: wrote %x, want %x", c.headers, got, want)
		}
		headers, rest, err := SplitHeaders(want)
		if err != nil {
			t.Fatal(err)
		}
		if _, value, err := ParseStamped(rest); err != nil || string(value) != c.value {
			t.Errorf("%v: the value behind the headers is %q, %v", c.headers, value, err)
		}
		wantHeaders(t, headers, c.headers)
	}
}

type failer interface {
	Helper()
	Errorf(format string, args ...any)
}

func wantHeaders(t failer, b []byte, want []testHeader) {
	t.Helper()
	got, err := testHeadersOf(b)
	if err != nil || len(got) != len(want) {
		t.Errorf("read %v, %v, want %v", got, err, want)
		return
	}
	for i := range got {
		if got[i].key != want[i].key || !bytes.Equal(got[i].value, want[i].value) || (got[i].value == nil) != (want[i].value == nil) {
			t.Errorf("header %d is %q=%q (null %v), want %q=%q (null %v)", i, got[i].key, got[i].value, got[i].value == nil,
				want[i].key, want[i].value, want[i].value == nil)
		}
	}
}

func TestHeaders_random(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list []testHeader
		for range rapid.IntRange(0, 4).Draw(t, "count") {
			h := testHeader{key: rapid.String().Draw(t, "key")}
			if !rapid.Bool().Draw(t, "null") {
				h.value = append([]byte{}, rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "value")...)
			}
			list = append(list, h)
		}
		tail := rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "tail")
		b := append(appendTestHeaders(nil, list), tail...)
		headers, rest, err := SplitHeaders(b)
		if err != nil || !bytes.Equal(rest, tail) {
			t.Fatalf("SplitHeaders left %x, %v, want %x", rest, err, tail)
		}
		wantHeaders(t, headers, list)
		// Whatever is cut off, or changed, is an error or other headers, and never read beyond.
		for n := range headers {
			_, _ = testHeadersOf(headers[:n])
		}
		if len(headers) > 0 {
			bad := append([]byte(nil), headers...)
			bad[rapid.IntRange(0, len(bad)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
			_, _ = testHeadersOf(bad)
		}
	})
}

func TestHeaders_damaged(t *testing.T) {
	for _, hex := range []string{"", "0a", "01", "0a020261"} {
		if _, _, err := SplitHeaders(fromHex(t, hex)); err == nil {
			t.Errorf("SplitHeaders takes %s", hex)
		}
	}
	for _, hex := range []string{"01", "04 02 61 02 31", "02 01 00", "02 02 61 04 31", "02 02 61 02 31 00"} {
		if got, err := testHeadersOf(fromHex(t, hex)); err == nil {
			t.Errorf("EachHeader reads %v from %s", got, hex)
		}
	}
}
