package codec

import (
	"bytes"
	"encoding/hex"
	"math"
	"strings"
	"testing"
)

// The bytes were written by Kafka Streams 4.4.0, to a changelog and to a sink topic alike.
var sessionKeys = []struct {
	key            string
	startMs, endMs int64
	hex            string
}{
	{"ab", 1000, 1050, "6162000000000000041a00000000000003e8"},
	{"k", 5, 14, "6b000000000000000e0000000000000005"},
	{"k", 300, 300, "6b000000000000012c000000000000012c"},
	{"", 0, math.MaxInt64, "7fffffffffffffff0000000000000000"},
}

func TestSessionKey_javaVectors(t *testing.T) {
	for _, c := range sessionKeys {
		got := AppendSessionKey([]byte("dst"), []byte(c.key), c.startMs, c.endMs)
		if hex.EncodeToString(got) != hex.EncodeToString([]byte("dst"))+c.hex {
			t.Errorf("AppendSessionKey(%q, %d, %d) = %x, want %s", c.key, c.startMs, c.endMs, got[3:], c.hex)
		}
		key, startMs, endMs, err := ParseSessionKey(got[3:])
		if err != nil || string(key) != c.key || startMs != c.startMs || endMs != c.endMs {
			t.Errorf("ParseSessionKey(%s) = %q, %d, %d, %v", c.hex, key, startMs, endMs, err)
		}
		if part := SessionKeyPart(got[3:]); string(part) != c.key {
			t.Errorf("SessionKeyPart(%s) = %x, want %x", c.hex, part, c.key)
		}
	}
}

func TestSessionKey_refused(t *testing.T) {
	for _, c := range []struct{ hex, want string }{
		{"", "0 bytes"},
		{"00000000000000000000000000000f", "15 bytes"},
		{"61000000000000000affffffffffffffff", "start -1"},
		{"6100000000000000010000000000000002", "start 2 and end 1"},
	} {
		if _, _, _, err := ParseSessionKey(unhex(t, c.hex)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("ParseSessionKey(%s): %v, want one that says %q", c.hex, err, c.want)
		}
	}
	if got := SessionKeyPart([]byte("short")); string(got) != "short" {
		t.Errorf("SessionKeyPart(short) = %q", got)
	}
}

func TestSessionKey_parsedKeyHasNoRoom(t *testing.T) {
	src := unhex(t, sessionKeys[0].hex)
	want := bytes.Clone(src)
	key, _, _, err := ParseSessionKey(src)
	if err != nil {
		t.Fatal(err)
	}
	_ = append(key, 0xee)
	_ = append(SessionKeyPart(src), 0xee)
	if !bytes.Equal(src, want) {
		t.Errorf("the source became %x", src)
	}
}

func FuzzParseSessionKey(f *testing.F) {
	for _, c := range sessionKeys {
		f.Add(unhex(f, c.hex))
	}
	f.Add([]byte("fifteen bytes .."))
	f.Fuzz(func(t *testing.T, src []byte) {
		key, startMs, endMs, err := ParseSessionKey(src)
		if err != nil {
			return
		}
		if back := AppendSessionKey(nil, key, startMs, endMs); !bytes.Equal(back, src) {
			t.Errorf("%x came back as %x", src, back)
		}
	})
}
