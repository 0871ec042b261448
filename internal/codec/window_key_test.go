package codec

import (
	"bytes"
	"encoding/hex"
	"math"
	"strings"
	"testing"
)

// The bytes of the tables below were written by Kafka Streams 4.4.0: WindowKeySchema and TimeWindowedSerializer.
var storeKeys = []struct {
	key     string
	startMs int64
	seq     int32
	hex     string
}{
	{"ab", 900, 0, "6162000000000000038400000000"},
	{"k", 256, 0, "6b000000000000010000000000"},
	{"k", 1, 1, "6b000000000000000100000001"},
	{"", math.MaxInt64, math.MaxInt32, "7fffffffffffffff7fffffff"},
}

var windowedKeys = []struct {
	key     string // hex
	startMs int64
	hex     string
}{
	{"6162", 900, "61620000000000000384"},
	{"", 0, "0000000000000000"},
	{"6b", 1784074200000, "6b0000019f631be3c0"},
	{"fffffffffffffffb", 60000, "fffffffffffffffb000000000000ea60"},
}

func TestWindowKey_javaVectors(t *testing.T) {
	for _, c := range storeKeys {
		got := AppendWindowKey([]byte("dst"), []byte(c.key), c.startMs, c.seq)
		if hex.EncodeToString(got) != hex.EncodeToString([]byte("dst"))+c.hex {
			t.Errorf("AppendWindowKey(%q, %d, %d) = %x, want %s", c.key, c.startMs, c.seq, got[3:], c.hex)
		}
		key, startMs, seq, err := ParseWindowKey(got[3:])
		if err != nil || string(key) != c.key || startMs != c.startMs || seq != c.seq {
			t.Errorf("ParseWindowKey(%s) = %q, %d, %d, %v", c.hex, key, startMs, seq, err)
		}
	}
}

func TestWindowedKey_javaVectors(t *testing.T) {
	for _, c := range windowedKeys {
		inner := unhex(t, c.key)
		got := AppendWindowedKey(nil, inner, c.startMs)
		if hex.EncodeToString(got) != c.hex {
			t.Errorf("AppendWindowedKey(%s, %d) = %x, want %s", c.key, c.startMs, got, c.hex)
		}
		key, startMs, err := ParseWindowedKey(got)
		if err != nil || !bytes.Equal(key, inner) || startMs != c.startMs {
			t.Errorf("ParseWindowedKey(%s) = %x, %d, %v", c.hex, key, startMs, err)
		}
		if part := WindowedKeyPart(got); !bytes.Equal(part, inner) {
			t.Errorf("WindowedKeyPart(%s) = %x, want %s", c.hex, part, c.key)
		}
	}
}

func TestWindowKey_refused(t *testing.T) {
	for _, c := range []struct{ hex, want string }{
		{"", "0 bytes"},
		{"0000000000000000000000", "11 bytes"},
		{"61ffffffffffffffff00000000", "negative start -1"},
	} {
		if _, _, _, err := ParseWindowKey(unhex(t, c.hex)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("ParseWindowKey(%s): %v, want one that says %q", c.hex, err, c.want)
		}
	}
	for _, c := range []struct{ hex, want string }{
		{"", "0 bytes"},
		{"00000000000001", "7 bytes"},
		{"61ffffffffffffffff", "negative start -1"},
	} {
		if _, _, err := ParseWindowedKey(unhex(t, c.hex)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("ParseWindowedKey(%s): %v, want one that says %q", c.hex, err, c.want)
		}
	}
	if got := WindowedKeyPart([]byte("short")); string(got) != "short" {
		t.Errorf("WindowedKeyPart(short) = %q", got)
	}
}

// A caller may append to a parsed key without writing over the bytes behind it.
func TestParsedKeys_haveNoRoom(t *testing.T) {
	src := unhex(t, storeKeys[0].hex)
	want := bytes.Clone(src)
	key, _, _, err := ParseWindowKey(src)
	if err != nil {
		t.Fatal(err)
	}
	_ = append(key, 0xee)
	key, _, err = ParseWindowedKey(src)
	if err != nil {
		t.Fatal(err)
	}
	_ = append(key, 0xee)
	_ = append(WindowedKeyPart(src), 0xee)
	if !bytes.Equal(src, want) {
		t.Errorf("the source became %x", src)
	}
}

func TestWindowKeys_doNotAllocate(t *testing.T) {
	key, dst := []byte("customer-0042"), make([]byte, 0, 64)
	n := testing.AllocsPerRun(100, func() {
		dst = AppendWindowKey(dst[:0], key, 900, 0)
		_, _, _, _ = ParseWindowKey(dst)
		dst = AppendWindowedKey(dst[:0], key, 900)
		_, _, _ = ParseWindowedKey(dst)
		dst = AppendStamped(dst[:0], 900, key)
		_, _, _ = ParseStamped(dst)
	})
	if n != 0 {
		t.Errorf("%v allocations for each round", n)
	}
}

func TestStamped(t *testing.T) {
	for _, c := range []struct {
		tsMs  int64
		value string
		hex   string
	}{
		{5, "A", "000000000000000541"},
		{0, "", "0000000000000000"},
		{-1, "x", "ffffffffffffffff78"},
		{1784074200000, "ab", "0000019f631be3c06162"},
	} {
		got := AppendStamped(nil, c.tsMs, []byte(c.value))
		if hex.EncodeToString(got) != c.hex {
			t.Errorf("AppendStamped(%d, %q) = %x, want %s", c.tsMs, c.value, got, c.hex)
		}
		tsMs, value, err := ParseStamped(got)
		if err != nil || tsMs != c.tsMs || string(value) != c.value || value == nil {
			t.Errorf("ParseStamped(%s) = %d, %q, %v", c.hex, tsMs, value, err)
		}
	}
	if _, _, err := ParseStamped(make([]byte, 7)); err == nil || !strings.Contains(err.Error(), "7 bytes") {
		t.Errorf("ParseStamped of 7 bytes: %v", err)
	}
}

func FuzzParseWindowKey(f *testing.F) {
	for _, c := range storeKeys {
		f.Add(unhex(f, c.hex))
	}
	f.Add([]byte{})
	f.Add([]byte("elevenbytes"))
	f.Fuzz(func(t *testing.T, src []byte) {
		key, startMs, seq, err := ParseWindowKey(src)
		if err != nil {
			return
		}
		if back := AppendWindowKey(nil, key, startMs, seq); !bytes.Equal(back, src) {
			t.Errorf("%x came back as %x", src, back)
		}
	})
}

func FuzzParseWindowedKey(f *testing.F) {
	for _, c := range windowedKeys {
		f.Add(unhex(f, c.hex))
	}
	f.Add([]byte("7 bytes"))
	f.Fuzz(func(t *testing.T, src []byte) {
		part := WindowedKeyPart(src)
		key, startMs, err := ParseWindowedKey(src)
		if err != nil {
			return
		}
		if back := AppendWindowedKey(nil, key, startMs); !bytes.Equal(back, src) {
			t.Errorf("%x came back as %x", src, back)
		}
		if !bytes.Equal(part, key) {
			t.Errorf("%x: part %x, key %x", src, part, key)
		}
	})
}

func FuzzParseStamped(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("7 bytes"))
	f.Add(AppendStamped(nil, 5, []byte("A")))
	f.Fuzz(func(t *testing.T, src []byte) {
		tsMs, value, err := ParseStamped(src)
		if err != nil {
			return
		}
		if back := AppendStamped(nil, tsMs, value); !bytes.Equal(back, src) {
			t.Errorf("%x came back as %x", src, back)
		}
	})
}
