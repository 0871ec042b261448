package config

import (
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// The golden file was written by java.util.Properties of Java 17, keys and values in hexadecimal.
func TestParseProperties_asJava(t *testing.T) {
	in, err := os.Open("testdata/java.properties")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	got, err := ParseProperties(in)
	if err != nil {
		t.Fatal(err)
	}
	golden, err := os.ReadFile("testdata/java.properties.golden")
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string]string)
	for line := range strings.Lines(string(golden)) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), " ")
		want[unhex(t, k)] = unhex(t, v)
	}
	if len(want) < 20 {
		t.Fatalf("the golden file has %d entries only", len(want))
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("not as Java reads it (-Java +got):\n%s", d)
	}
}

func unhex(t *testing.T, s string) string {
	t.Helper()
	b, err := hex.DecodeString(strings.TrimPrefix(s, "x"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestParseProperties_errors(t *testing.T) {
	_, err := ParseProperties(strings.NewReader("a=1\n\nb=\\\n x\\u12g4\n"))
	if err == nil || !strings.Contains(err.Error(), "line 3") || !strings.Contains(err.Error(), "four hexadecimal digits") {
		t.Errorf("error of a bad escape: %v", err)
	}
	broken := errors.New("disk gone")
	if _, err := ParseProperties(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("error of the reader: %v", err)
	}
}

func FuzzParseProperties(f *testing.F) {
	data, err := os.ReadFile("testdata/java.properties")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(data))
	f.Add("a\\")
	f.Add("\\u12")
	f.Add("\\ud83d\\u0041=\r\n\\")
	f.Fuzz(func(t *testing.T, s string) {
		props, err := ParseProperties(strings.NewReader(s))
		if (props == nil) == (err == nil) {
			t.Fatalf("properties %v, error %v", props, err)
		}
	})
}
