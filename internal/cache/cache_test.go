package cache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/millrace-io/millrace/serde"
)

// backing is a byte store in memory that notes what is written.
type backing struct {
	rows    map[string][]byte
	writes  []string
	scratch []byte
	err     error // of the next write
}

func newBacking() *backing { return &backing{rows: make(map[string][]byte)} }

func (b *backing) Load(key []byte) ([]byte, bool, error) {
	v, ok := b.rows[string(key)]
	// What a byte store returns is valid until the next call only.
	clear(b.scratch)
	b.scratch = append([]byte(nil), v...)
	return b.scratch, ok, nil
}

func (b *backing) Write(key, local, _ []byte, _ serde.Headers, tsMs int64) error {
	if err := b.err; err != nil {
		b.err = nil
		return err
	}
	if local == nil {
		delete(b.rows, string(key))
		b.writes = append(b.writes, fmt.Sprintf("%s=~@%d", key, tsMs))
		return nil
	}
	b.rows[string(key)] = append([]byte(nil), local...)
	b.writes = append(b.writes, fmt.Sprintf("%s=%s@%d", key, local[stampBytes:], binary.BigEndian.Uint64(local)))
	return nil
}

func (b *backing) Alloc(n int) []byte   { return make([]byte, 0, n) }
func (b *backing) Keep(x []byte) []byte { return x }

func (b *backing) wrote() string {
	w := strings.Join(b.writes, " ")
	b.writes = nil
	return w
}

// The three kinds of values: a flat type, one that the serde clones, and one that is kept as bytes.
type (
	flat   struct{ text string }
	cloned struct{ parts []string }
	other  struct{ parts []string }
)

var errBad = errors.New("it does not encode")

func appendText(dst []byte, text string) ([]byte, error) {
	if text == "bad" {
		return append(dst, "half of it"...), errBad
	}
	return append(dst, text...), nil
}

var flatSerde = serde.Func(
	func(dst []byte, v flat) ([]byte, error) { return appendText(dst, v.text) },
	func(src []byte) (flat, error) { return flat{string(src)}, nil },
)

var otherSerde = serde.Func(
	func(dst []byte, v other) ([]byte, error) { return appendText(dst, strings.Join(v.parts, ",")) },
	func(src []byte) (other, error) { return other{strings.Split(string(src), ",")}, nil },
)

type clonedSerde struct{}

func (clonedSerde) Append(dst []byte, v cloned) ([]byte, error) {
	return appendText(dst, strings.Join(v.parts, ","))
}
func (clonedSerde) Decode(src []byte) (cloned, error) {
	return cloned{strings.Split(string(src), ",")}, nil
}
func (clonedSerde) Clone(v cloned) cloned { return cloned{slices.Clone(v.parts)} }

// kind makes and reads values of one of the kinds.
type kind[V any] struct {
	name  string
	serde serde.Serde[V]
	of    func(string) V
	text  func(V) string
	spoil func(V) // changes a value in place
}

var (
	flatKind = kind[flat]{"flat", flatSerde, func(s string) flat { return flat{s} }, func(v flat) string { return v.text }, func(flat) {}}

	clonedKind = kind[cloned]{"cloned", clonedSerde{}, func(s string) cloned { return cloned{strings.Split(s, ",")} },
		func(v cloned) string { return strings.Join(v.parts, ",") }, func(v cloned) { v.parts[0] = "spoilt" }}

	otherKind = kind[other]{"bytes", otherSerde, func(s string) other { return other{strings.Split(s, ",")} },
		func(v other) string { return strings.Join(v.parts, ",") }, func(v other) { v.parts[0] = "spoilt" }}
)

// eachKind runs a test for each kind of values.
func eachKind(t *testing.T, test func(t *testing.T, h *harness)) {
	t.Run(flatKind.name, func(t *testing.T) { runKind(t, flatKind, test) })
	t.Run(clonedKind.name, func(t *testing.T) { runKind(t, clonedKind, test) })
	t.Run(otherKind.name, func(t *testing.T) { runKind(t, otherKind, test) })
}

func runKind[V any](t *testing.T, k kind[V], test func(t *testing.T, h *harness)) {
	h := &harness{t: t, backing: newBacking()}
	h.open = func(cfg Config[string, struct{}, string], needOld bool) {
		s := New(Config[string, V, string]{Backing: h.backing, Value: k.serde, Dedupe: cfg.Dedupe, Check: cfg.Check, MaxBytes: cfg.MaxBytes, Blame: cfg.Blame})
		h.bytes, h.drop, h.flush, h.max = s.Bytes, s.Drop, s.Flush, cfg.MaxBytes
		h.entries = func() int { return len(s.entries) }
		h.size = func() (n int64) {
			for _, e := range s.entries {
				n += e.size
			}
			return n
		}
		h.put = func(key, value string, tsMs int64, ctx string) error {
			return s.Put([]byte(key), key, k.of(value), true, tsMs, ctx)
		}
		h.remove = func(key string, tsMs int64, ctx string) error {
			var zero V
			return s.Put([]byte(key), key, zero, false, tsMs, ctx)
		}
		h.get = func(key string) (string, error) {
			v, tsMs, ok, err := s.Get([]byte(key))
			if err != nil || !ok {
				return "-", err
			}
			text := fmt.Sprintf("%s@%d", k.text(v), tsMs)
			k.spoil(v) // it belongs to the caller
			return text, nil
		}
		h.waiting = func() string {
			var out []string
			err := s.Waiting(func(key, _ string, v V, has bool, tsMs int64) error {
				text := "~"
				if has {
					text = k.text(v)
					k.spoil(v)
				}
				out = append(out, fmt.Sprintf("%s=%s@%d", key, text, tsMs))
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(out)
			return strings.Join(out, " ")
		}
		if cfg.Dedupe {
			s.OnFlush(func(u *Update[string, V, string]) error {
				sides := [2]string{"~", "~"}
				if u.HasNew {
					sides[0] = k.text(u.New)
					k.spoil(u.New)
				}
				if u.HasOld {
					sides[1] = k.text(u.Old)
					k.spoil(u.Old)
				}
				h.updates = append(h.updates, fmt.Sprintf("%s:%s<-%s@%d %s", u.Key, sides[0], sides[1], u.TimestampMs, u.Context))
				if h.onUpdate != nil {
					return h.onUpdate(u.Key)
				}
				return nil
			}, needOld)
		}
	}
	test(t, h)
}

// harness is a store without the type of its values.
type harness struct {
	t        *testing.T
	backing  *backing
	open     func(cfg Config[string, struct{}, string], needOld bool)
	put      func(key, value string, tsMs int64, ctx string) error
	remove   func(key string, tsMs int64, ctx string) error
	get      func(key string) (string, error)
	waiting  func() string
	bytes    func() int64
	size     func() int64
	entries  func() int
	drop     func()
	flush    func() error
	max      int64
	updates  []string
	onUpdate func(key string) error
}

func (h *harness) dedupe(maxBytes int64, needOld bool) {
	h.open(Config[string, struct{}, string]{Dedupe: true, MaxBytes: maxBytes}, needOld)
}

func (h *harness) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) reported() string {
	u := strings.Join(h.updates, ", ")
	h.updates = nil
	return u
}

func (h *harness) want(what, got, want string) {
	h.t.Helper()
	if got != want {
		h.t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

func (h *harness) wantGet(key, want string) {
	h.t.Helper()
	got, err := h.get(key)
	h.must(err)
	h.want("value of "+key, got, want)
}

func TestDedupe_lastWriteOfEachKeyInTheOrderOfWriting(t *testing.T) {
	eachKind(t, func(t *testing.T, h *harness) {
		h.dedupe(1<<20, false)
		h.must(h.put("a", "1", 1, "first"))
		h.must(h.put("b", "2", 2, "second"))
		h.must(h.put("a", "3,x", 0, "third"))
		h.must(h.put("c", "4", 4, "fourth"))
		h.wantGet("a", "3,x@0")
		h.wantGet("a", "3,x@0") // a copy was spoilt
		h.want("waiting", h.waiting(), "a=3,x@0 b=2@2 c=4@4")
		h.want("waiting", h.waiting(), "a=3,x@0 b=2@2 c=4@4")
		h.want("written before the flush", h.backing.wrote(), "")
		h.must(h.flush())
		h.want("reported", h.reported(), "b:2<-~@2 second, a:3,x<-~@0 third, c:4<-~@4 fourth")
		h.want("written", h.backing.wrote(), "b=2@2 a=3,x@0 c=4@4")
		h.wantGet("a", "3,x@0")
		h.must(h.flush())
		h.want("reported twice", h.reported(), "")
	})
}

func TestDedupe_oldValues(t *testing.T) {
	eachKind(t, func(t *testing.T, h *harness) {
		h.dedupe(1<<20, true)
		h.must(h.put("a", "1", 1, ""))
		h.must(h.flush())
		h.must(h.put("a", "2", 2, ""))
		h.must(h.put("a", "3", 3, ""))
		h.must(h.put("b", "4", 4, ""))
		h.must(h.flush())
		// The value that stood before is the one that was reported before, not one that nobody has seen.
		h.want("reported", h.reported(), "a:1<-~@1 , a:3<-1@3 , b:4<-~@4 ")
		h.must(h.remove("a", 5, "gone"))
		h.must(h.flush())
		h.want("reported", h.reported(), "a:~<-3@5 gone")
		h.wantGet("a", "-")
	})
}

func TestDedupe_insertedAndDeletedUnseen(t *testing.T) {
	eachKind(t, func(t *testing.T, h *harness) {
		h.dedupe(1<<20, false)
		h.must(h.put("a", "1", 1, ""))
		h.must(h.remove("a", 2, ""))
		h.wantGet("a", "-")
		h.must(h.flush())
		h.want("reported", h.reported(), "")
		h.want("written", h.backing.wrote(), "")
		// Once it was seen its deletion is reported, even if it came and went again meanwhile.
		h.must(h.put("a", "1", 3, ""))
		h.must(h.flush())
		h.must(h.remove("a", 4, ""))
		h.must(h.put("a", "2", 5, ""))
		h.must(h.remove("a", 6, ""))
		h.must(h.flush())
		h.want("reported", h.reported(), "a:1<-~@3 , a:~<-~@6 ")
		h.want("written", h.backing.wrote(), "a=1@3 a=~@6")
		// Deleting what is not there is nothing.
		h.must(h.remove("q", 7, ""))
		h.must(h.flush())
		h.want("reported", h.reported(), "")
	})
}

func TestDedupe_fullWritesEverythingOut(t *testing.T) {
	eachKind(t, func(t *testing.T, h *harness) {
		h.dedupe(3*200, false)
		for i, k := range []string{"a", "b", "c"} {
			h.must(h.put(k, fmt.Sprint(i), int64(i), ""))
		}
		h.must(h.put("a", "9", 9, ""))
		h.want("reported within the bound", h.reported(), "")
		h.must(h.put("d", "3", 10, ""))
		h.want("reported", h.reported(), "b:1<-~@1 , c:2<-~@2 , a:9<-~@9 , d:3<-~@10 ")
		if h.bytes() > h.max {
			t.Errorf("%d bytes after the flush, the bound is %d", h.bytes(), h.max)
		}
		h.must(h.flush())
		h.want("reported again", h.reported(), "")
		for k, want := range map[string]string{"a": "9@9", "b": "1@1", "c": "2@2", "d": "3@10"} {
			h.wantGet(k, want)
		}
	})
}

// Who hears of a flush may read the store, keys that have left the cache too: making room for them must not start another
// flush inside the first.
func TestDedupe_readingInsideAFlush(t *testing.T) {
	eachKind(t, func(t *testing.T, h *harness) {
		h.dedupe(4*200, false)
		for i := range 8 {
			h.must(h.put(fmt.Sprint("old", i), "x", 1, ""))
		}
		h.must(h.flush())
		h.reported()
		depth := 0
		h.onUpdate = func(string) error {
			if depth++; depth > 1 {
				t.Error("a flush started inside a flush")
			}
			defer func() { depth-- }()
			for i := range 8 {
				got, err := h.get(fmt.Sprint("old", i))
				if err != nil {
					return err
				}
				if got != "x@1" {
					t.Errorf("old%d is %s inside the flush", i, got)
				}
			}
			return h.flush() // does nothing
		}
		for i, k := range []string{"a", "b", "c"} {
			h.must(h.put(k, fmt.Sprint(i), int64(i), ""))
		}
		h.must(h.flush())
		h.want("reported", h.reported(), "a:0<-~@0 , b:1<-~@1 , c:2<-~@2 ")
		h.onUpdate = nil
		h.wantGet("old3", "x@1")
		if h.bytes() > h.max {
			t.Errorf("%d bytes afterwards, the bound is %d", h.bytes(), h.max)
		}
	})
}

// A value that does not encode leaves the one that was there. Values that wait decoded show it at the flush, which blames
// the write and not whoever happened to cause the flush, unless they are checked.
func TestPut_valueThatDoesNotEncode(t *testing.T) {
	eachKind(t, func(t *testing.T, h *harness) {
		for _, c := range []struct{ dedupe, check bool }{{false, false}, {true, false}, {true, true}} {
			var blamed string
			h.backing.rows = make(map[string][]byte)
			h.open(Config[string, struct{}, string]{Dedupe: c.dedupe, Check: c.check, MaxBytes: 1 << 20, Blame: func(ctx string, err error) error {
				blamed = ctx
				return fmt.Errorf("blamed on %s: %w", ctx, err)
			}}, false)
			h.must(h.put("a", "good", 1, "good"))
			h.must(h.flush())
			err := h.put("a", "bad", 2, "bad")
			if waits := c.dedupe && !c.check && h.t.Name() != "TestPut_valueThatDoesNotEncode/bytes"; waits {
				h.must(err)
				if err := h.flush(); !errors.Is(err, errBad) || blamed != "bad" {
					t.Errorf("flush returned %v, blamed on %q", err, blamed)
				}
				continue
			}
			if !errors.Is(err, errBad) {
				t.Errorf("Put returned %v", err)
			}
			h.wantGet("a", "good@1")
			if err := h.put("new", "bad", 3, ""); !errors.Is(err, errBad) {
				t.Errorf("Put returned %v", err)
			}
			h.wantGet("new", "-")
			h.must(h.put("new", "fine", 4, ""))
			h.wantGet("new", "fine@4")
			h.must(h.flush())
			h.want("stored", string(h.backing.rows["a"][stampBytes:]), "good")
		}
	})
}

func TestFlush_errorOfAWriteIsBlamedOnIt(t *testing.T) {
	eachKind(t, func(t *testing.T, h *harness) {
		h.open(Config[string, struct{}, string]{Dedupe: true, MaxBytes: 1 << 20, Blame: func(ctx string, err error) error {
			return fmt.Errorf("write of %s: %w", ctx, err)
		}}, false)
		h.must(h.put("a", "1", 1, "record 7"))
		h.backing.err = errors.New("disk full")
		if err := h.flush(); err == nil || err.Error() != "write of record 7: disk full" {
			t.Errorf("flush returned %v", err)
		}
	})
}

func TestDrop(t *testing.T) {
	eachKind(t, func(t *testing.T, h *harness) {
		h.dedupe(1<<20, false)
		h.must(h.put("a", "1", 1, ""))
		h.must(h.flush())
		h.reported()
		h.must(h.put("a", "2", 2, ""))
		h.must(h.put("b", "3", 3, ""))
		h.drop()
		h.wantGet("a", "1@1")
		h.wantGet("b", "-")
		h.must(h.flush())
		h.want("reported", h.reported(), "")
	})
}

// model is a store without any cache.
type model struct {
	rows map[string]string // "value@ts", as readers see it
	seen map[string]string // as reported last
}

// Whatever the settings, reads equal those of a plain map, and what is reported is the last write of each key in the order
// of writing, or more if the cache was full: always so that the last report of a key is its value.
func TestStore_againstAPlainMap(t *testing.T) {
	eachKind(t, func(t *testing.T, h *harness) {
		rapid.Check(t, func(rt *rapid.T) {
			h.backing = newBacking()
			h.updates = nil
			dedupe := rapid.Bool().Draw(rt, "dedupe")
			maxBytes := rapid.SampledFrom([]int64{0, 1, 400, 900, 1 << 20}).Draw(rt, "max")
			bound := maxBytes
			h.open(Config[string, struct{}, string]{Dedupe: dedupe, MaxBytes: maxBytes}, rapid.Bool().Draw(rt, "old"))
			dedupe = dedupe && maxBytes > 0 // without room nothing waits
			m := model{rows: make(map[string]string), seen: make(map[string]string)}
			keys := []string{"", "a", "b", "c", "d", "e", "f", "g"}
			ts := int64(0)
			check := func(err error) {
				if err != nil {
					rt.Fatal(err)
				}
			}
			learn := func() {
				for _, u := range h.updates {
					key, rest, _ := strings.Cut(u, ":")
					value, rest, _ := strings.Cut(rest, "<-")
					_, at, _ := strings.Cut(rest, "@")
					if value == "~" {
						delete(m.seen, key)
					} else {
						m.seen[key] = value + "@" + strings.TrimSpace(at)
					}
				}
				h.updates = nil
			}
			for range rapid.IntRange(1, 60).Draw(rt, "steps") {
				key := rapid.SampledFrom(keys).Draw(rt, "key")
				ts++
				switch rapid.IntRange(0, 9).Draw(rt, "what") {
				case 0, 1, 2, 3:
					value := rapid.SampledFrom([]string{"x", "y,z", "longer than that"}).Draw(rt, "value")
					check(h.put(key, value, ts, ""))
					m.rows[key] = fmt.Sprintf("%s@%d", value, ts)
				case 4:
					check(h.remove(key, ts, ""))
					delete(m.rows, key)
				case 5, 6, 7:
					got, err := h.get(key)
					check(err)
					want, ok := m.rows[key]
					if !ok {
						want = "-"
					}
					if got != want {
						rt.Fatalf("value of %q is %s, want %s", key, got, want)
					}
				case 8:
					check(h.flush())
					if h.waiting() != "" {
						rt.Fatalf("after a flush there waits %s", h.waiting())
					}
				case 9:
					if got, want := h.bytes(), h.size(); got != want {
						rt.Fatalf("%d bytes counted, the entries take %d", got, want)
					}
					if h.bytes() > bound {
						rt.Fatalf("%d bytes, the bound is %d", h.bytes(), bound)
					}
				}
			}
			if !dedupe {
				if len(h.updates) > 0 {
					rt.Fatalf("reported without a flush: %v", h.updates)
				}
			} else {
				check(h.flush())
				learn()
				if !maps.Equal(m.seen, m.rows) {
					rt.Fatalf("reported %v, want %v", m.seen, m.rows)
				}
			}
			stored := make(map[string]string)
			for k, v := range h.backing.rows {
				stored[k] = fmt.Sprintf("%s@%d", v[stampBytes:], binary.BigEndian.Uint64(v))
			}
			if !maps.Equal(stored, m.rows) {
				rt.Fatalf("stored %v, want %v", stored, m.rows)
			}
		})
	})
}

// A value counts with what it holds, decoded or not.
func TestBytes_contentOfValuesCounts(t *testing.T) {
	eachKind(t, func(t *testing.T, h *harness) {
		large := strings.Repeat("x", 1000)
		for _, dedupe := range []bool{false, true} {
			h.open(Config[string, struct{}, string]{Dedupe: dedupe, MaxBytes: 20_000}, false)
			for i := range 100 {
				h.must(h.put(fmt.Sprint("key", i), large, int64(i), ""))
				if h.bytes() > h.max {
					t.Fatalf("%d bytes, the bound is %d", h.bytes(), h.max)
				}
			}
			if h.entries() > 20 {
				t.Errorf("%d values of 1000 bytes within 20000", h.entries())
			}
			for i := range 100 {
				h.wantGet(fmt.Sprint("key", i), fmt.Sprintf("%s@%d", large, i))
			}
			if h.entries() > 20 || h.entries() < 5 {
				t.Errorf("%d values of 1000 bytes within 20000", h.entries())
			}
		}
	})
}

func TestContentSizer(t *testing.T) {
	type inner struct {
		Text string
		N    int
	}
	type outer struct {
		At    time.Time
		X     inner
		Texts [2]inner
		Sums  [1000]int64
	}
	size, exact := contentSizer[outer]()
	v := outer{X: inner{Text: "123"}, Texts: [2]inner{{Text: "4"}, {Text: "56789"}}}
	if !exact || size(&v) != 9 {
		t.Errorf("content %d, exact %v, want 9", size(&v), exact)
	}
	if size, exact := contentSizer[int64](); size != nil || !exact {
		t.Error("a number holds nothing")
	}
	if size, exact := contentSizer[[]byte](); !exact || size(&[]byte{1, 2}) != 2 {
		t.Error("bytes hold their length")
	}
	for name, exact := range map[string]bool{"pointer": isExact[*int](), "map": isExact[struct{ M map[int]int }](), "many": isExact[[100]string]()} {
		if exact {
			t.Errorf("%s: what it holds cannot be told", name)
		}
	}
}

func isExact[V any]() bool {
	_, exact := contentSizer[V]()
	return exact
}
