package cache

import (
	"testing"

	"github.com/millrace-io/millrace/serde"
)

// While writes are held, a full cache writes nothing out; Release makes room, in the order of the writes.
func TestHold(t *testing.T) {
	b := newBacking()
	s := New(Config[string, string, int]{Backing: b, Value: serde.String, Dedupe: true, MaxBytes: 1})
	put := func(key, value string, has bool) {
		t.Helper()
		if err := s.Put([]byte(key), key, value, has, 7, 0); err != nil {
			t.Fatal(err)
		}
	}
	put("a", "1", true)
	if got, want := b.wrote(), "a=1@7"; got != want {
		t.Errorf("a full cache has written %q, want %q", got, want)
	}
	s.Hold()
	put("a", "", false)
	put("b", "2", true)
	if got := b.wrote(); got != "" {
		t.Errorf("written while held: %q", got)
	}
	if err := s.Release(); err != nil {
		t.Fatal(err)
	}
	if got, want := b.wrote(), "a=~@7 b=2@7"; got != want {
		t.Errorf("written when released: %q, want %q", got, want)
	}
}
