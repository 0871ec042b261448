package codec

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// fromHex reads hex with spaces; "~" is null.
func fromHex(t *testing.T, s string) []byte {
	t.Helper()
	if s == "~" {
		return nil
	}
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	if b == nil {
		b = []byte{}
	}
	return b
}

// The context that the rows below have: timestamp 5, offset 7, topic "töpic", partition 2, headers hé=0102 and n=null.
const javaContext = "0000000000000005 0000000000000007 00000006 74c3b6706963 00000002 00000002 00000003 68c3a9 00000002 0102 00000001 6e ffffffff"

// Written by BufferValue of Kafka Streams 4.4.0, with its estimate of memory (without the key and the buffer time).
func TestBuffered_javaVectors(t *testing.T) {
	plain := "0000000000000001 0000000000000002 00000001 74 00000000 00000000"
	for _, c := range []struct {
		name, prior, old, new string
		hex                   string
		memory                int64
	}{
		{"new row", "~", "~", "41", plain + "ffffffff ffffffff 00000001 41 0000000000000004", 22},
		{"old is prior", "41", "41", "42", plain + "00000001 41 fffffffe 00000001 42 0000000000000004", 23},
		{"old deleted", "41", "~", "42", plain + "00000001 41 ffffffff 00000001 42 0000000000000004", 23},
		{"no prior", "~", "41", "42", plain + "ffffffff 00000001 41 00000001 42 0000000000000004", 23},
		{"empty values", "", "", "", plain + "00000000 fffffffe 00000000 0000000000000004", 21},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := Buffered{TimestampMs: 1, Offset: 2, Topic: []byte("t"), TimeMs: 4, Prior: fromHex(t, c.prior), Old: fromHex(t, c.old), New: fromHex(t, c.new)}
			got := AppendBuffered(nil, &b)
			if want := fromHex(t, c.hex); string(got) != string(want) {
				t.Errorf("got  %x\nwant %x", got, want)
			}
			if m := b.Memory([]byte("key")); m != c.memory+8+3 {
				t.Errorf("memory %d, want %d", m, c.memory+8+3)
			}
			back, err := ParseBuffered(got)
			if err != nil {
				t.Fatal(err)
			}
			b.Headers = []byte{}
			if d := cmp.Diff(b, back); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
	full := fromHex(t, javaContext+"00000002 7070 00000002 6f6f ffffffff 000000000000000c")
	b, err := ParseBuffered(full)
	if err != nil {
		t.Fatal(err)
	}
	if string(b.Topic) != "töpic" || b.Partition != 2 || b.HeaderCount != 2 || string(b.Prior) != "pp" || string(b.Old) != "oo" || b.New != nil || b.TimeMs != 12 {
		t.Errorf("%+v", b)
	}
	if b.Memory(nil) != 34+8 {
		t.Errorf("memory %d, want %d", b.Memory(nil), 34+8)
	}
	k, v, rest := NextBufferedHeader(b.Headers)
	k2, v2, rest := NextBufferedHeader(rest)
	if string(k) != "hé" || string(v) != "\x01\x02" || string(k2) != "n" || v2 != nil || len(rest) != 0 {
		t.Errorf("headers %q %q %q %q %q", k, v, k2, v2, rest)
	}
	if got := AppendBuffered(nil, &b); string(got) != string(full) {
		t.Errorf("written again: %x", got)
	}
	headers := AppendBufferedHeader(AppendBufferedHeader(nil, "hé", []byte{1, 2}), "n", nil)
	if string(headers) != string(b.Headers) {
		t.Errorf("headers %x, want %x", headers, b.Headers)
	}
}

// What the older layouts become, as TimeOrderedKeyValueBufferChangelogDeserializationHelper of Kafka Streams 4.4.0 reads
// them.
func TestUpgradeBuffered_javaVectors(t *testing.T) {
	change := "00000001 6f 00000002 6e6e"
	log := Buffered{TimestampMs: 77, Offset: 11, Topic: []byte("log"), Partition: 3}
	for _, c := range []struct{ name, version, value, want string }{
		{"0", "~", "0000000000000009" + change,
			"000000000000004d 000000000000000b 00000003 6c6f67 00000003 00000000 00000001 6f fffffffe 00000002 6e6e 0000000000000009"},
		{"1", "01", "0000000000000009" + javaContext + "0000000b" + change,
			javaContext + "00000001 6f fffffffe 00000002 6e6e 0000000000000009"},
		{"2", "02", javaContext + "0000000b" + change + "00000003 707269 0000000000000009",
			javaContext + "00000003 707269 00000001 6f 00000002 6e6e 0000000000000009"},
		{"3 under the number 2", "02", javaContext + "00000002 7070 00000002 6f6f ffffffff 000000000000000c",
			javaContext + "00000002 7070 00000002 6f6f ffffffff 000000000000000c"},
		{"3 under the number 2, of a count", "02", javaContext + "00000008 0000000000000000 fffffffe 00000008 0000000000000001 0000000000000064",
			javaContext + "00000008 0000000000000000 fffffffe 00000008 0000000000000001 0000000000000064"},
		{"3", "03", javaContext + "00000002 7070 00000002 6f6f ffffffff 000000000000000c",
			javaContext + "00000002 7070 00000002 6f6f ffffffff 000000000000000c"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := UpgradeBuffered(fromHex(t, c.version), fromHex(t, c.value), log)
			if err != nil {
				t.Fatal(err)
			}
			if want := fromHex(t, c.want); string(got) != string(want) {
				t.Errorf("got  %x\nwant %x", got, want)
			}
		})
	}
	for _, c := range []struct{ name, version, value, want string }{
		{"of the future", "04", "00", "version 4"},
		{"long version", "0001", "00", "version 0001"},
		{"cut", "03", javaContext, "ends too early"},
		{"with a tail", "03", javaContext + "ffffffff ffffffff ffffffff 0000000000000001 00", "behind its end"},
		{"neither 2 nor 3", "02", "00", "neither layout"},
		{"1 without a change", "01", "0000000000000009" + javaContext + "ffffffff", "null"},
		{"0 of nothing", "~", "00", "ends too early"},
		{"negative length", "03", javaContext + "fffffff0", "length is -16"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := UpgradeBuffered(fromHex(t, c.version), fromHex(t, c.value), log); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestBuffered_roundTrip(t *testing.T) {
	value := func(t *rapid.T, name string) []byte {
		if rapid.Bool().Draw(t, name+" is null") {
			return nil
		}
		return rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(t, name)
	}
	rapid.Check(t, func(t *rapid.T) {
		want := Buffered{
			TimestampMs: rapid.Int64().Draw(t, "timestamp"), Offset: rapid.Int64().Draw(t, "offset"),
			Topic: []byte(rapid.String().Draw(t, "topic")), Partition: rapid.Int32().Draw(t, "partition"), Headers: []byte{},
			Prior: value(t, "prior"), Old: value(t, "old"), New: value(t, "new"), TimeMs: rapid.Int64().Draw(t, "time"),
		}
		for range rapid.IntRange(0, 3).Draw(t, "headers") {
			want.Headers = AppendBufferedHeader(want.Headers, rapid.String().Draw(t, "key"), value(t, "value"))
			want.HeaderCount++
		}
		got, err := ParseBuffered(AppendBuffered(nil, &want))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("(-want +got):\n%s", d)
		}
	})
}

func FuzzUpgradeBuffered(f *testing.F) {
	row := AppendBuffered(nil, &Buffered{Topic: []byte("t"), Prior: []byte("a"), New: []byte("b")})
	f.Add([]byte{3}, row)
	f.Add([]byte{2}, row)
	f.Add([]byte{1}, row)
	f.Add([]byte(nil), row)
	f.Fuzz(func(t *testing.T, version, value []byte) {
		if len(version) == 0 {
			version = nil
		}
		out, err := UpgradeBuffered(version, value, Buffered{})
		if err != nil {
			return
		}
		if _, err := ParseBuffered(out); err != nil {
			t.Errorf("what was upgraded does not parse: %v", err)
		}
	})
}
