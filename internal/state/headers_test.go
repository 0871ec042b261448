package state

import (
	"bytes"
	"testing"

	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/serde"
)

// A restore puts the headers of a changelog record in front of the value of a store that keeps them, and of no other.
func TestRestore_headers(t *testing.T) {
	headers := serde.Headers{{Key: "a", Value: []byte("1")}, {Key: "n"}}
	prefix := codec.AppendHeaders(nil, len(headers), func(i int) (string, []byte) { return headers[i].Key, headers[i].Value })
	for _, persistent := range []bool{true, false} {
		for _, keep := range []bool{true, false} {
			kv := Spec{Name: "kv", Kind: KeyValue, Persistent: persistent, Logged: true, KeepHeaders: keep}
			w := Spec{Name: "w", Kind: Window, Persistent: persistent, Logged: true, KeepHeaders: keep, RetentionMs: 100}
			ss := Spec{Name: "ss", Kind: Session, Persistent: persistent, Logged: true, KeepHeaders: keep, RetentionMs: 100}
			set := openSet(t, openDB(t, memOptions()), "0_0", kv, w, ss)
			want := codec.AppendStamped(nil, 5, []byte("v"))
			bare := codec.AppendStamped(nil, 6, []byte("w"))
			if keep {
				want, bare = append(append([]byte(nil), prefix...), want...), append([]byte{0}, bare...)
			}
			restore(t, set, "kv", 2, []RestoreRecord{
				{Key: []byte("k"), Value: []byte("v"), TimestampMs: 5, Headers: headers}, {Key: []byte("l"), Value: []byte("w"), TimestampMs: 6},
			})
			restore(t, set, "w", 1, []RestoreRecord{{Key: windowKey("k", 0, 0), Value: []byte("v"), TimestampMs: 5, Headers: headers}})
			restore(t, set, "ss", 1, []RestoreRecord{{Key: append([]byte("k"), make([]byte, 16)...), Value: []byte("v"), TimestampMs: 5, Headers: headers}})
			check := func(what string, got []byte, ok bool, err error, want []byte) {
				t.Helper()
				if err != nil || !ok || !bytes.Equal(got, want) {
					t.Errorf("persistent %v, keep %v: %s is %x, %v, %v, want %x", persistent, keep, what, got, ok, err, want)
				}
			}
			v, ok, err := kvOf(t, set, "kv").Get([]byte("k"))
			check("kv", v, ok, err, want)
			v, ok, err = kvOf(t, set, "kv").Get([]byte("l"))
			check("kv without headers", v, ok, err, bare)
			ws, err := set.Window("w")
			must(t, err)
			v, ok, err = ws.Get([]byte("k"), 0, 0)
			check("window", v, ok, err, want)
			sessions, err := set.Session("ss")
			must(t, err)
			v, ok, err = sessions.Get([]byte("k"), 0, 0)
			check("session", v, ok, err, want)
		}
	}
}

// The layout of a store's rows depends on whether it keeps headers, so one that changes in this is rebuilt; others stay.
func TestOpenSet_headersComeAndGo(t *testing.T) {
	opts := memOptions()
	keeping := kvSpec("s")
	keeping.KeepHeaders = true
	other := kvSpec("other")
	for i, c := range []struct {
		spec    Spec
		emptied bool
	}{{kvSpec("s"), false}, {kvSpec("s"), false}, {keeping, true}, {keeping, false}, {kvSpec("s"), true}} {
		db, err := OpenDB(opts)
		must(t, err)
		set := openSet(t, db, "0_0", c.spec, other)
		r, _ := set.Opened("s")
		if (r.Emptied != "") != c.emptied {
			t.Errorf("%d. the store was emptied because %q, want emptied %v", i, r.Emptied, c.emptied)
		}
		if r, _ := set.Opened("other"); r.Emptied != "" || r.Existed != (i > 0) {
			t.Errorf("%d. the other store: %+v", i, r)
		}
		if !c.emptied && i > 0 {
			if v, ok, err := kvOf(t, set, "s").Get([]byte("k")); err != nil || !ok || len(v) == 0 {
				t.Errorf("%d. the row is %x, %v, %v", i, v, ok, err)
			}
		}
		for _, name := range []string{"s", "other"} {
			if _, ok := set.Position(name); !ok {
				restore(t, set, name, 1, []RestoreRecord{{Key: []byte("k"), Value: []byte("v")}})
			}
		}
		must(t, db.Close())
	}
}
