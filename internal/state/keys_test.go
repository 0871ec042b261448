package state

import (
	"bytes"
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// randomKey has many zero, one and 255 bytes, which mean something in escaped keys.
func randomKey(rng *rand.Rand) []byte {
	b := make([]byte, rng.IntN(24))
	for i := range b {
		b[i] = []byte{0, 0, 1, 0xff, 'a', byte(rng.Uint32())}[rng.IntN(6)]
	}
	return b
}

type keyParts struct {
	inc   incarnation
	kind  Kind
	seg   int64
	key   []byte
	time  int64
	extra uint64
}

func (p *keyParts) encode() []byte {
	dst := p.inc.appendTable(nil, tableOf(p.kind))
	if p.kind == KeyValue {
		return append(dst, p.key...)
	}
	return appendLocalRow(dst, p.kind, p.seg, p.key, p.time, p.extra)
}

func (p *keyParts) compare(q *keyParts) int {
	return cmp.Or(cmp.Compare(p.inc, q.inc), cmp.Compare(p.kind, q.kind), cmp.Compare(p.seg, q.seg),
		bytes.Compare(p.key, q.key), cmp.Compare(p.time, q.time), cmp.Compare(p.extra, q.extra))
}

func randomParts(rng *rand.Rand) *keyParts {
	p := &keyParts{inc: incarnation(rng.IntN(3)), kind: Kind(1 + rng.IntN(3)), key: randomKey(rng)}
	if p.kind != KeyValue {
		p.seg, p.time = rng.Int64N(5)-2, rng.Int64N(600)-300
		p.extra = uint64(rng.IntN(300))
		if p.kind == Session {
			p.extra = sortable(rng.Int64N(600) - 300)
		}
	}
	return p
}

// TestKeysKeepTheirOrder: the order of Pebble keys is that of segment, key, time and extra number, and what was put in
// comes out again.
func TestKeysKeepTheirOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	var all []*keyParts
	for range 3000 {
		all = append(all, randomParts(rng))
	}
	for range 30_000 {
		p, q := all[rng.IntN(len(all))], all[rng.IntN(len(all))]
		if got, want := comparer.Compare(p.encode(), q.encode()), p.compare(q); got != want {
			t.Fatalf("%+v and %+v compare as %d, want %d", p, q, got, want)
		}
	}
	for _, p := range all {
		if p.kind == KeyValue {
			continue
		}
		key, seg, time, extra, err := parseRowKey(nil, p.encode(), p.kind)
		must(t, err)
		if !bytes.Equal(key, p.key) || seg != p.seg || time != p.time || extra != p.extra {
			t.Fatalf("%+v comes out as %x, %d, %d, %d", p, key, seg, time, extra)
		}
	}
}

// TestSplit checks what Pebble asks of a Comparer, over real keys and the bounds that the package uses.
func TestSplit(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	var keys [][]byte
	for range 400 {
		p := randomParts(rng)
		k := p.encode()
		keys = append(keys, k)
		want := len(k)
		if p.kind != KeyValue {
			want -= suffixLen(p.kind)
		}
		if got := splitKey(k); got != want {
			t.Fatalf("split of %+v is %d, want %d", p, got, want)
		}
		// A prefix by itself, a store's bounds and a segment's are all prefix.
		start, end := p.inc.span()
		for _, b := range [][]byte{
			k[:want], start, end, p.inc.headerKey(), p.inc.appendMetaKey(nil, string(p.key)),
			p.inc.appendTable(nil, tableOf(p.kind)), p.inc.appendTable(nil, tableOf(p.kind)+1),
			appendSegment(p.inc.appendTable(nil, tableOf(p.kind)), p.seg),
		} {
			if got := splitKey(b); got != len(b) {
				t.Fatalf("split of the bound %x is %d, want %d", b, got, len(b))
			}
			keys = append(keys, b)
		}
		if p.kind != KeyValue {
			end := appendRowsEnd(slices.Clone(k[:want]), p.kind, math.MaxInt64)
			if got := splitKey(end); got != len(end) {
				t.Fatalf("split of the end of rows %x is %d, want %d", end, got, len(end))
			}
			keys = append(keys, end, appendRowsEnd(slices.Clone(k[:want]), p.kind, p.time))
		}
	}
	slices.SortFunc(keys, comparer.Compare)
	prefix := func(k []byte) []byte { return k[:splitKey(k)] }
	for i, a := range keys {
		if p := prefix(a); len(p) < len(a) && comparer.Compare(p, a) >= 0 {
			t.Fatalf("the prefix %x does not sort before its key %x", p, a)
		}
		for _, b := range keys[i+1 : min(len(keys), i+50)] {
			c := comparer.Compare(prefix(a), prefix(b))
			if c > 0 {
				t.Fatalf("%x sorts before %x, its prefix after", a, b)
			}
			if c == 0 && bytes.Compare(a[splitKey(a):], b[splitKey(b):]) != comparer.Compare(a, b) {
				t.Fatalf("%x and %x have one prefix, and are not ordered by their suffixes", a, b)
			}
		}
	}
	if comparer.Name != "millrace.state.v1" || keySchema.Name != "DefaultKeySchema(millrace.state.v1,16)" {
		t.Fatalf("names that are written into databases have changed: %q, %q", comparer.Name, keySchema.Name)
	}
}

// What Pebble makes of keys for its indexes lies between them in both orders, that of the bytes and that of prefixes and
// suffixes: beside every other row of these keys too.
func TestSeparatorsKeepTheOrderOfPrefixes(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 2))
		rows := make([][]byte, 0, 32)
		for base := randomParts(rng); len(rows) < cap(rows); {
			p := *base
			switch rng.IntN(3) {
			case 0:
				p.time = int64(rng.Uint64() >> rng.IntN(64))
			case 1:
				p.key, p.time = randomKey(rng), int64(rng.Uint64()>>rng.IntN(64))
			case 2:
				p = *randomParts(rng)
			}
			rows = append(rows, p.encode())
		}
		slices.SortFunc(rows, comparer.Compare)
		rows = slices.CompactFunc(rows, bytes.Equal)
		for i, a := range rows {
			made := [][]byte{comparer.ImmediateSuccessor(nil, a[:splitKey(a)]), comparer.Successor(nil, a)}
			if i+1 < len(rows) {
				b := rows[i+1]
				s := comparer.Separator([]byte("kept"), a, b)[len("kept"):]
				if comparer.Compare(s, a) < 0 || comparer.Compare(s, b) >= 0 {
					t.Fatalf("seed %d: %x does not separate %x from %x", seed, s, a, b)
				}
				made = append(made, s)
			}
			if next := made[0]; comparer.Compare(next, a) <= 0 {
				t.Fatalf("seed %d: %x does not follow the rows of %x", seed, next, a)
			}
			for _, m := range made {
				for _, row := range rows {
					if got, want := byPrefix(m, row), comparer.Compare(m, row); got != want {
						t.Fatalf("seed %d: %x, made of %x, is %d to the row %x by prefix and suffix, %d by its bytes", seed, m, a, got, row, want)
					}
				}
			}
		}
	}
}

// byPrefix is the order that Pebble takes for given: by prefixes first, then by suffixes.
func byPrefix(a, b []byte) int {
	n, m := splitKey(a), splitKey(b)
	if c := bytes.Compare(a[:n], b[:m]); c != 0 {
		return c
	}
	return bytes.Compare(a[n:], b[m:])
}

// FuzzRowKey: damaged keys are told, not taken for others and not a panic.
func FuzzRowKey(f *testing.F) {
	for _, kind := range []Kind{Window, Session} {
		f.Add((&keyParts{inc: 1, kind: kind, seg: 2, key: []byte("a\x00b"), time: 5, extra: 1}).encode())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if n := splitKey(b); n > len(b) || n < 0 {
			t.Fatalf("split is %d of %d", n, len(b))
		}
		for _, kind := range []Kind{Window, Session} {
			key, seg, time, extra, err := parseRowKey(nil, b, kind)
			if err != nil {
				continue
			}
			again := appendLocalRow(bytes.Clone(b[:incarnationLen+1]), kind, seg, key, time, extra)
			if !bytes.Equal(again, b) {
				t.Fatalf("%x is read as the key of %x", b, again)
			}
		}
		if h, err := parseHeader(b); err == nil && len(h.append(nil)) != len(b) {
			t.Fatalf("%x is read as a header", b)
		}
	})
}

func TestHeader(t *testing.T) {
	for _, h := range []Header{
		noHeader(),
		{TopicID: [16]byte{1, 2}, Position: Position{Offset: 1 << 40, Epoch: -1}, HasPosition: true, LevelMs: 5, ObservedMs: 0, SegmentMs: 60_000, observed: 0},
	} {
		got, err := parseHeader(h.append(nil))
		must(t, err)
		if got != h {
			t.Fatalf("%+v comes out as %+v", h, got)
		}
	}
	b := (&Header{}).append(nil)
	for _, bad := range [][]byte{nil, {2}, b[:len(b)-1], append(b, 0)} {
		if _, err := parseHeader(bad); err == nil {
			t.Errorf("%x was taken for a header", bad)
		}
	}
}
