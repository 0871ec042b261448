package milltest_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// An aggregate that a function is given belongs to it. These tests aggregate by changing it in place and by copying it
// first: nothing that comes out may differ.

// flatBag is flat: a plain copy shares nothing.
type flatBag struct {
	Items [3]string
	N     int
}

// deepBag is not.
type deepBag struct {
	Items []string
	Seen  map[string]int
}

// clonedBag is deepBag with a serde that clones.
type clonedBag deepBag

type bagCloner struct{ serde.Serde[*clonedBag] }

func (bagCloner) Clone(b *clonedBag) *clonedBag {
	if b == nil {
		return nil
	}
	c := &clonedBag{Items: slices.Clone(b.Items), Seen: make(map[string]int)}
	for k, n := range b.Seen {
		c.Seen[k] = n
	}
	return c
}

// bag is how a kind of bag is kept, changed and printed.
type bag[T any] struct {
	name  string
	serde serde.Serde[T]
	empty func() T
	copy  func(T) T
	add   func(T, string) T // in place
	text  func(T) string
}

func addDeep(items *[]string, seen map[string]int, v string) {
	*items = append(*items, v)
	if len(*items) > 3 {
		*items = slices.Delete(*items, 0, 1) // moves them within the slice
	}
	for i := range *items {
		(*items)[i] += "'"
	}
	seen[v]++
}

var (
	flatBags = bag[flatBag]{"flat", serde.JSON[flatBag](), func() flatBag { return flatBag{} }, func(b flatBag) flatBag { return b },
		func(b flatBag, v string) flatBag {
			b.Items[b.N%3] = v
			b.N++
			return b
		},
		func(b flatBag) string { return fmt.Sprint(b.Items, b.N) }}

	deepBags = bag[*deepBag]{"bytes", serde.JSON[*deepBag](),
		func() *deepBag { return &deepBag{Seen: make(map[string]int)} },
		func(b *deepBag) *deepBag {
			c := deepBag(*bagCloner{}.Clone((*clonedBag)(b)))
			return &c
		},
		func(b *deepBag, v string) *deepBag {
			addDeep(&b.Items, b.Seen, v)
			return b
		},
		func(b *deepBag) string { return fmt.Sprint(b.Items, b.Seen) }}

	clonedBags = bag[*clonedBag]{"cloned", bagCloner{serde.JSON[*clonedBag]()},
		func() *clonedBag { return &clonedBag{Seen: make(map[string]int)} },
		bagCloner{}.Clone,
		func(b *clonedBag, v string) *clonedBag {
			addDeep(&b.Items, b.Seen, v)
			return b
		},
		func(b *clonedBag) string { return fmt.Sprint(b.Items, b.Seen) }}
)

var errHalfWay = errors.New("half way")

// aggregateBags runs random input through an aggregation, a windowed one, and a filter that needs old values, and returns
// all that comes out and the changelog. Now and then the function fails after it has changed the aggregate, and the policy is
// to go on.
func aggregateBags[T any](t *testing.T, k bag[T], inPlace bool, seed uint64, opts ...milltest.Option) (out []string) {
	t.Helper()
	add := func(_, v string, b T) (T, error) {
		if !inPlace {
			b = k.copy(b)
		}
		b = k.add(b, v)
		if hash(v)%7 == 0 {
			return b, errHalfWay
		}
		return b, nil
	}
	text := func(b T) string { return k.text(b) }
	b := millrace.NewBuilder()
	grouped := millrace.From(b, strTopic).GroupByKey()
	table := millrace.TryAggregate(grouped, k.empty, add, k.serde, millrace.As("bags"))
	millrace.MapValues(table.ToStream(), text).To(topicNamed("bags-out"))
	kept := table.Filter(func(_ string, b T) bool { return hash(k.text(b))%2 == 0 })
	millrace.MapValues(kept.ToStream(), text).To(topicNamed("kept-out"))
	reader := millrace.LeftJoinTable(millrace.From(b, strTopic), table, func(_ string, b T, ok bool) string { return fmt.Sprint(ok, orEmpty(ok, b, k.text)) })
	reader.To(topicNamed("joined-out"))
	windows, _ := millrace.TryAggregateWindows(grouped.WindowBy(window.Hopping(20*ms, 10*ms).Grace(20*ms)), k.empty, add, k.serde, millrace.As("windows"))
	millrace.MapValues(windows.ToStream(), text).To(millrace.NewTopic("windows-out", serde.Windowed(serde.String, 0), serde.String))
	d := milltest.New(t, build(t, b), append(opts, milltest.OnProcessingError(millrace.LogAndContinue()))...)
	r := rand.New(rand.NewPCG(seed, 2))
	for i := range 80 {
		pipe(t, d, "in", fmt.Sprintf("k%d=v%d@%d", r.IntN(3), r.IntN(30), max(0, i+r.IntN(20)-10)))
		if r.IntN(6) == 0 {
			d.Commit()
		}
		if r.IntN(30) == 0 {
			d.Commit()
			restart(t, d)
		}
	}
	d.Commit()
	for _, topic := range []string{"bags-out", "kept-out", "joined-out", "windows-out", "test-bags-changelog", "test-windows-changelog"} {
		for _, raw := range d.Written(topic) {
			out = append(out, fmt.Sprintf("%s: %x=%s@%d", topic, raw.Key, raw.Value, raw.TimestampMs))
		}
	}
	return out
}

func orEmpty[T any](ok bool, v T, text func(T) string) string {
	if !ok {
		return ""
	}
	return text(v)
}

func TestAggregate_inPlaceAndCopied(t *testing.T) {
	for seed := range uint64(5) {
		for name, opts := range map[string][]milltest.Option{
			"no caches":             {milltest.CacheBytes(0), milltest.ReadCacheBytes(0)},
			"read cache":            {milltest.CacheBytes(0), milltest.ReadCacheBytes(1 << 20)},
			"small read cache":      {milltest.CacheBytes(0), milltest.ReadCacheBytes(500)},
			"cache":                 {milltest.CacheBytes(1 << 20)},
			"cache, manual commits": {milltest.CacheBytes(1 << 20), milltest.ManualCommit()},
			"full, manual commits":  {milltest.CacheBytes(700), milltest.ManualCommit()},
			"none, manual commits":  {milltest.CacheBytes(0), milltest.ManualCommit()},
			"on disk":               {milltest.CacheBytes(0), milltest.OnDisk()},
			"full, on disk":         {milltest.CacheBytes(700), milltest.ManualCommit(), milltest.OnDisk()},
		} {
			compareBags(t, flatBags, name, seed, opts)
			compareBags(t, deepBags, name, seed, opts)
			compareBags(t, clonedBags, name, seed, opts)
			if strings.Contains(name, "full") {
				continue // how much fits depends on how values are kept
			}
			// The two kinds of deep bags are the same but for how their values are kept.
			deep := aggregateBags(t, deepBags, true, seed, opts...)
			if diff := cmp.Diff(deep, aggregateBags(t, clonedBags, true, seed, opts...)); diff != "" {
				t.Errorf("%s: values kept as bytes and cloned differ:\n%s", name, diff)
			}
			if len(deep) < 100 {
				t.Fatalf("%s: only %d records came out", name, len(deep))
			}
		}
		// The read cache and the engine do not show.
		plain := aggregateBags(t, deepBags, true, seed, milltest.CacheBytes(0), milltest.ReadCacheBytes(0))
		for name, opts := range map[string][]milltest.Option{
			"read cache": {milltest.CacheBytes(0), milltest.ReadCacheBytes(500)},
			"disk":       {milltest.CacheBytes(0), milltest.OnDisk()},
		} {
			if diff := cmp.Diff(plain, aggregateBags(t, deepBags, true, seed, opts...)); diff != "" {
				t.Errorf("%s shows:\n%s", name, diff)
			}
		}
	}
}

func compareBags[T any](t *testing.T, k bag[T], name string, seed uint64, opts []milltest.Option) {
	t.Helper()
	copied := aggregateBags(t, k, false, seed, opts...)
	if diff := cmp.Diff(copied, aggregateBags(t, k, true, seed, opts...)); diff != "" {
		t.Errorf("%s, %s: -copied +in place:\n%s", k.name, name, diff)
	}
	if !slices.ContainsFunc(copied, func(s string) bool { return strings.HasPrefix(s, "windows-out") }) {
		t.Errorf("%s, %s: no windows came out", k.name, name)
	}
}
