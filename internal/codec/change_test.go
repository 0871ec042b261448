package codec

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
)

// val makes the value of a test table: "~" is one that is not there.
func val(s string) []byte {
	if s == "~" {
		return nil
	}
	return []byte(s)
}

func show(b []byte) string {
	if b == nil {
		return "~"
	}
	return string(b)
}

// Written by ChangedSerializer of Kafka Streams 4.4.0. It writes the same bytes whether the value is the latest or not.
var changes = []struct{ oldValue, newValue, hex string }{
	{"a", "~", "6100"},
	{"~", "b", "6201"},
	{"a", "b", "02626102"},
	{"Aa", "Ab", "044162416102"},
	{"", "~", "00"},
	{"~", "", "01"},
	{"", "", "0002"},
	{"o", strings.Repeat("x", 64), "8001" + strings.Repeat("78", 64) + "6f02"},
	{"o", strings.Repeat("y", 8192), "808001" + strings.Repeat("79", 8192) + "6f02"},
}

func TestChange_javaVectors(t *testing.T) {
	for _, c := range changes {
		got, err := AppendChange([]byte("dst"), val(c.oldValue), val(c.newValue))
		if err != nil {
			t.Errorf("AppendChange(%.8q, %.8q): %v", c.oldValue, c.newValue, err)
			continue
		}
		if hex.EncodeToString(got[3:]) != c.hex || string(got[:3]) != "dst" {
			t.Errorf("AppendChange(%.8q, %.8q) = %.40x, want %.40s", c.oldValue, c.newValue, got[3:], c.hex)
		}
	}
}

// Read by ChangedDeserializer of Kafka Streams 4.4.0, with the same results.
func TestParseChange_javaVectors(t *testing.T) {
	type parse struct {
		hex, oldValue, newValue string
		latest                  bool
	}
	cases := []parse{
		{"0462620402", "\x04", "bb", true},
		{"610103", "a", "~", true},
		{"610003", "a", "~", false},
		{"620104", "~", "b", true},
		{"620004", "~", "b", false},
		{"0262610105", "a", "b", true},
		{"0262610005", "a", "b", false},
		{"0103", "", "~", true},
		{"0104", "~", "", true},
		{"000105", "", "", true},
		{"026202", "", "b", true},
	}
	for _, c := range changes {
		cases = append(cases, parse{c.hex, c.oldValue, c.newValue, true})
	}
	for _, c := range cases {
		got, err := ParseChange(unhex(t, c.hex))
		if err != nil {
			t.Errorf("ParseChange(%.40s): %v", c.hex, err)
			continue
		}
		if show(got.Old) != c.oldValue || show(got.New) != c.newValue || got.Latest != c.latest {
			t.Errorf("ParseChange(%.40s): old %.8q new %.8q latest %v, want %.8q %.8q %v",
				c.hex, show(got.Old), show(got.New), got.Latest, c.oldValue, c.newValue, c.latest)
		}
	}
}

func TestChange_refused(t *testing.T) {
	if out, err := AppendChange([]byte("dst"), nil, nil); err == nil || string(out) != "dst" {
		t.Errorf("AppendChange without values: %q, %v", out, err)
	}
	for _, c := range []struct{ hex, want string }{
		{"", "no bytes"},
		{"06", "unknown flag 6"},
		{"610206", "unknown flag 6"},
		{"616263ff", "unknown flag 255"},
		{"02", "length"},
		{"0a6202", "length"},
		{"016202", "length"},
		{"8002", "length"},
		{"ffffffffffffffffffffff02", "length"},
		{"03", "ends before"},
		{"05", "ends before"},
		{"6103", "97 where 0 or 1"},
		{"610204", "2 where 0 or 1"},
		{"0a620105", "length"},
	} {
		if got, err := ParseChange(unhex(t, c.hex)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("ParseChange(%s) = %+v, %v, want an error that says %q", c.hex, got, err, c.want)
		}
	}
}

func TestParseChange_valuesHaveNoRoom(t *testing.T) {
	src := unhex(t, "044162416102")
	want := bytes.Clone(src)
	c, err := ParseChange(src)
	if err != nil {
		t.Fatal(err)
	}
	_ = append(c.New, 0xee)
	_ = append(c.Old, 0xee)
	if !bytes.Equal(src, want) {
		t.Errorf("the source became %x", src)
	}
}

func TestChange_doesNotAllocate(t *testing.T) {
	oldValue, newValue, dst := []byte("Aa"), []byte("Ab"), make([]byte, 0, 64)
	n := testing.AllocsPerRun(100, func() {
		dst, _ = AppendChange(dst[:0], oldValue, newValue)
		_, _ = ParseChange(dst)
	})
	if n != 0 {
		t.Errorf("%v allocations for each round", n)
	}
}

func FuzzParseChange(f *testing.F) {
	for _, s := range []string{"", "00", "01", "6100", "6201", "044162416102", "610003", "620104", "0262610005", "06", "8002", "0a6202"} {
		f.Add(unhex(f, s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		c, err := ParseChange(src)
		if err != nil {
			return
		}
		if c.Old == nil && c.New == nil {
			t.Fatalf("%x: neither value", src)
		}
		enc, err := AppendChange(nil, c.Old, c.New)
		if err != nil {
			t.Fatalf("%x: %v", src, err)
		}
		again, err := ParseChange(enc)
		if err != nil || show(again.Old) != show(c.Old) || show(again.New) != show(c.New) {
			t.Fatalf("%x: read as %+v, written as %x, read as %+v, %v", src, c, enc, again, err)
		}
	})
}
