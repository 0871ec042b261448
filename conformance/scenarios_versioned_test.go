package conformance

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/store"
)

// historian puts and deletes, tells what the store said, and looks around in the past.
type historian struct {
	definition *millrace.VersionedStore[string, string]
	ctx        textContext
	store      store.Versioned[string, string]
}

func (p *historian) Init(ctx textContext) (err error) {
	p.ctx = ctx
	p.store, err = p.definition.From(ctx)
	return err
}

func (p *historian) Close() error { return nil }

func (p *historian) Process(r textRecord) error {
	if r.Key == nil {
		return nil
	}
	var said []string
	tell := func(v store.Version[string], ok bool, err error) error {
		switch {
		case !ok:
			said = append(said, "-")
		default:
			said = append(said, fmt.Sprintf("%s@%d", v.Value, v.FromMs))
		}
		return err
	}
	switch {
	case r.Value == nil:
		said = append(said, "deleted")
		// In Java a deletion returns what held at its time.
		old, ok, err := p.store.GetAsOf(*r.Key, r.TimestampMs)
		if err != nil {
			return err
		}
		placed, err := p.store.Delete(*r.Key, r.TimestampMs)
		if err := tell(old, ok && placed != store.TooOld, err); err != nil {
			return err
		}
	case strings.HasSuffix(*r.Value, "3"):
		said = append(said, "looked")
	default:
		placed, err := p.store.Put(*r.Key, *r.Value, r.TimestampMs)
		if err != nil {
			return err
		}
		said = append(said, map[store.Placed]string{store.Newest: "newest", store.Behind: "behind", store.TooOld: "too old"}[placed])
	}
	if err := tell(p.store.Get(*r.Key)); err != nil {
		return err
	}
	for _, back := range []int64{0, 1, 7, 20, 29, 30, 31, 50} {
		if err := tell(p.store.GetAsOf(*r.Key, max(0, r.TimestampMs-back))); err != nil {
			return err
		}
	}
	r.Value, r.NullValue = some(strings.Join(said, " ")), false
	return p.ctx.Forward(r)
}

// finder looks up in a store that it does not write what the record names.
type finder struct {
	from    func(processor.StoreContext) (store.ReadOnlyKeyValue[string, string], error)
	stamped bool // tells timestamps too
	ctx     textContext
	store   store.ReadOnlyKeyValue[string, string]
}

func (p *finder) Init(ctx textContext) (err error) {
	p.ctx = ctx
	p.store, err = p.from(ctx)
	return err
}

func (p *finder) Close() error { return nil }

func (p *finder) text(value string, tsMs int64) string {
	if !p.stamped {
		return value
	}
	return fmt.Sprintf("%s@%d", value, tsMs)
}

func (p *finder) Process(r textRecord) error {
	said := "?"
	if r.Key != nil {
		v, ok, err := p.store.GetStamped(*r.Key)
		if err != nil {
			return err
		}
		said = orNull(p.text(v.Value, v.TimestampMs), ok)
	}
	list := func(it store.Iterator[string, string], err error) error {
		if err != nil {
			return err
		}
		defer it.Close()
		for it.Next() {
			said += " " + it.Key() + "=" + p.text(it.Value(), it.TimestampMs())
		}
		return it.Err()
	}
	if strings.Contains(or(r.Value), "7") {
		if err := list(p.store.All()); err != nil {
			return err
		}
	}
	if strings.Contains(or(r.Value), "5") {
		if err := list(p.store.Range("b", "d")); err != nil {
			return err
		}
	}
	r.Value, r.NullValue = &said, false
	return p.ctx.Forward(r)
}

// turner fills a store by the first letter of the value, with the keys that have it; a value with a 5 deletes.
type turner struct {
	definition *millrace.KeyValueStore[string, string]
	store      store.KeyValue[string, string]
}

func (p *turner) Init(ctx processor.Context[struct{}, struct{}]) (err error) {
	p.store, err = p.definition.From(ctx)
	return err
}

func (p *turner) Close() error { return nil }

func (p *turner) Process(r textRecord) error {
	letter := map[byte]string{'p': "a", 'q': "b", 'r': "c", 's': "d"}
	if r.Value == nil {
		return p.store.Delete("a")
	}
	to := letter[(*r.Value)[0]]
	if strings.Contains(*r.Value, "5") {
		return p.store.Delete(to)
	}
	before, _, err := p.store.Get(to)
	if err != nil {
		return err
	}
	if len(before) > 8 {
		before = ""
	}
	return p.store.Put(to, before+or(r.Key))
}

// Versioned is versioned tables and stores, stores that a topic fills, global stores.
func (features) Versioned(r *registry) {
	notP := func(_, v string) bool { return !strings.HasPrefix(v, "p") }
	notQ := func(_, v string) bool { return !strings.HasPrefix(v, "q") }
	versioned := func(name string, history time.Duration) []millrace.StepOption {
		return []millrace.StepOption{millrace.StoreName(name), millrace.Versioned(history)}
	}
	kept := func(name string, history time.Duration, versions bool) []millrace.StepOption {
		if versions {
			return versioned(name, history)
		}
		return []millrace.StepOption{millrace.StoreName(name)}
	}
	text := millrace.WithValue(serde.String)
	leftJoin := func(s millrace.Stream[string, string], t millrace.Table[string, string], name, to string) {
		millrace.LeftJoinTable(s, t, leftSlash, millrace.As(name)).To(texts(to))
	}

	r.stores("versioned-join", func(b *millrace.Builder, on storage) {
		t := millrace.TableFrom(b, texts("t"), on(versioned("rows", 30*ms)...)...)
		s := millrace.From(b, texts("s"))
		millrace.JoinTable(s, t, slash).To(texts("joined"))
		leftJoin(s, t, "left", "left-joined")
		t.ToStream().To(texts("rows-out"))
	})

	for name, history := range map[string]time.Duration{"versioned-join-no-history": 0, "versioned-join-long-history": 130 * time.Second} {
		r.stores(name, func(b *millrace.Builder, on storage) {
			t := millrace.TableFrom(b, texts("t"), on(versioned("rows", history)...)...)
			leftJoin(millrace.From(b, texts("s")), t, "left", "left-joined")
		})
	}

	r.stores("versioned-join-through-filter", func(b *millrace.Builder, on storage) {
		t := millrace.TableFrom(b, texts("t"), on(versioned("rows", 30*ms)...)...)
		view := millrace.MapTableValues(t.Filter(notP), func(v string) string { return v + "!" })
		leftJoin(millrace.From(b, texts("s")), view, "j", "out")
		view.ToStream().To(texts("view-out"))
	})

	r.stores("versioned-joined-kept", func(b *millrace.Builder, on storage) {
		left := millrace.TableFrom(b, texts("l"), on(versioned("left", 40*ms)...)...)
		right := millrace.TableFrom(b, texts("r"), on(millrace.StoreName("right"))...)
		kept := millrace.OuterJoinTables(left, right, func(x string, okX bool, y string, okY bool) string { return orNull(x, okX) + "/" + orNull(y, okY) },
			on(append(versioned("kept", 30*ms), millrace.NodeName("j"), text)...)...)
		kept.ToStream().To(texts("out"))
		loud := millrace.MapTableValues(kept, func(v string) string { return v + "!" })
		millrace.JoinTables(loud, right, slash, millrace.NodeName("again")).ToStream().To(texts("again-out"))
	})

	for name, on := range map[string]storage{"versioned-deleted-in-place": onDisk, "versioned-deleted-in-place-memory": inMemory} {
		r.differs(name, "A deletion in a versioned table", func(b *millrace.Builder) {
			t := millrace.TableFrom(b, texts("t"), on(versioned("rows", 30*ms)...)...)
			leftJoin(millrace.From(b, texts("s")), t, "left", "left-joined")
		}, func(input []step) map[string][]record { return versionedJoin(input, 30) })
	}

	r.stores("versioned-table-steps", func(b *millrace.Builder, on storage) {
		t := millrace.TableFrom(b, texts("t"), on(versioned("rows", 30*ms)...)...)
		t.Filter(func(_, v string) bool { return strings.HasPrefix(v, "p") }).ToStream().To(texts("filtered"))
		t.FilterNot(func(_, v string) bool { return strings.HasPrefix(v, "p") }, on(millrace.StoreName("plain"))...).ToStream().To(texts("plain-out"))
		kept := t.Filter(notQ, on(versioned("kept", 20*ms)...)...)
		kept.ToStream().To(texts("kept-out"))
		mapped := millrace.MapTableValues(t, func(v string) string { return v[:1] + "!" }, on(append(versioned("mapped", 50*ms), text)...)...)
		mapped.ToStream().To(texts("mapped-out"))
		s := millrace.From(b, texts("s"))
		leftJoin(s, kept, "one", "one-out")
		leftJoin(s, mapped, "two", "two-out")
	})

	r.stores("versioned-derived-of-plain", func(b *millrace.Builder, on storage) {
		t := millrace.TableFrom(b, texts("t"), on(millrace.StoreName("rows"))...)
		kept := t.Filter(notQ, on(versioned("kept", 20*ms)...)...)
		kept.ToStream().To(texts("kept-out"))
		leftJoin(millrace.From(b, texts("s")), kept, "one", "one-out")
	})

	r.stores("versioned-to-table", func(b *millrace.Builder, on storage) {
		s := millrace.From(b, nullable("in"))
		t := s.ToTable(on(append(versioned("rows", 30*ms), millrace.NodeName("tabled"))...)...)
		t.ToStream().To(nullable("rows-out"))
		loud := millrace.MapValues(s, func(v *string) string { return or(v) + "!" })
		millrace.LeftJoinTable(loud, t, func(x string, y *string, ok bool) string { return x + "/" + orNull(or(y), ok) }, millrace.As("own")).To(texts("out"))
	})

	reduce := func(deletes bool) func(*millrace.Builder, storage) {
		return func(b *millrace.Builder, on storage) {
			sums := millrace.From(b, nullable("t")).GroupByKey().Reduce(func(x, y *string) *string {
				switch {
				case deletes && begins(y, "s"):
					return nil
				case len(*x) > 12:
					return y
				}
				return some(*x + *y)
			}, on(versioned("sums", 30*ms)...)...)
			sums.ToStream().To(nullable("sums-out"))
			join := func(x string, y *string, ok bool) string { return x + "/" + orNull(or(y), ok) }
			millrace.LeftJoinTable(millrace.From(b, texts("s")), sums, join, millrace.As("j")).To(texts("out"))
		}
	}
	r.stores("versioned-reduce", reduce(false))
	r.stores("versioned-reduce-that-deletes", reduce(true))

	r.stores("versioned-aggregate", func(b *millrace.Builder, on storage) {
		t := millrace.Aggregate(millrace.From(b, texts("t")).GroupByKey(), func() *string { return some("<") }, func(_, v string, agg *string) *string {
			switch {
			case strings.HasPrefix(v, "q"):
				return nil
			case len(*agg) > 12:
				return some(v)
			}
			return some(*agg + v)
		}, serde.Nullable(serde.String), on(versioned("texts", 30*ms)...)...)
		t.ToStream().To(nullable("texts-out"))
		n := millrace.Count(millrace.From(b, texts("s")).GroupByKey(), on(versioned("counts", 30*ms)...)...)
		millrace.MapValues(n.ToStream(), func(n int64) string { return strconv.FormatInt(n, 10) }, millrace.As("text")).To(texts("counts-out"))
		millrace.JoinTables(t, n, func(x *string, y int64) string { return fmt.Sprintf("%s/%d", *x, y) }, millrace.NodeName("both")).ToStream().To(texts("both-out"))
	})

	for name, versions := range map[string][2]bool{"both": {true, true}, "left": {true, false}, "right": {false, true}} {
		tables := func(b *millrace.Builder, on storage) (l, r millrace.Table[string, string]) {
			return millrace.TableFrom(b, texts("l"), on(kept("left", 40*ms, versions[0])...)...),
				millrace.TableFrom(b, texts("r"), on(kept("right", 25*ms, versions[1])...)...)
		}
		r.stores("versioned-tables-"+name, func(b *millrace.Builder, on storage) {
			l, r := tables(b, on)
			millrace.JoinTables(l, r, slash, millrace.NodeName("inner")).ToStream().To(texts("inner-out"))
			millrace.LeftJoinTables(l, r, leftSlash, on(millrace.StoreName("kept"), millrace.NodeName("left-join"), text)...).
				ToStream().To(texts("left-out"))
			millrace.OuterJoinTables(l, r, func(x string, okX bool, y string, okY bool) string { return orNull(x, okX) + "/" + orNull(y, okY) },
				on(millrace.StoreName("outer"), millrace.NodeName("outer"), text)...).ToStream().To(texts("outer-out"))
		})
		r.stores("versioned-foreign-"+name, func(b *millrace.Builder, on storage) {
			l, r := tables(b, on)
			millrace.JoinForeignKey(l, r, foreign, slash, on(millrace.NodeName("fj"))...).ToStream().To(texts("out"))
			millrace.LeftJoinForeignKey(l, r, foreign, leftSlash, on(millrace.StoreName("kept"), millrace.NodeName("flj"), text)...).
				ToStream().To(texts("left-out"))
		})
	}

	tail := func(s string) string { return s[max(0, len(s)-24):] }
	grown := func(g millrace.GroupedTable[string, string], on storage) {
		millrace.AggregateTable(g, func() string { return "" }, func(_, v, agg string) string { return tail(agg + "+" + v) },
			func(_, v, agg string) string { return tail(agg + "-" + v) }, serde.String, on(millrace.StoreName("texts"))...).ToStream().To(texts("texts-out"))
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	key := millrace.WithKey(serde.String)
	r.stores("versioned-grouped", func(b *millrace.Builder, on storage) {
		t := millrace.TableFrom(b, texts("t"), on(versioned("rows", 30*ms)...)...)
		kept := t.Filter(func(_, v string) bool { return !strings.HasPrefix(v, "s") })
		g := millrace.GroupTableBy(kept, func(_, v string) (string, string) { return v[:1], v }, millrace.RepartitionName("g"), key, text)
		counts := millrace.CountTable(g, on(millrace.StoreName("counts"))...)
		millrace.MapValues(counts.ToStream(), number, millrace.As("text")).To(texts("counts-out"))
		grown(g, on)
		leftJoin(millrace.From(b, texts("s")), t, "j", "out")
	})

	r.stores("versioned-grouped-to-versions", func(b *millrace.Builder, on storage) {
		t := millrace.TableFrom(b, texts("t"), on(millrace.StoreName("rows"))...)
		g := millrace.GroupTableBy(t, func(_, v string) (string, string) { return v[:1], v }, millrace.RepartitionName("g"), key, text)
		n := millrace.CountTable(g, on(versioned("counts", 30*ms)...)...)
		millrace.MapValues(n.ToStream(), number, millrace.As("text")).To(texts("counts-out"))
		grown(millrace.GroupTableBy(n, func(k string, n int64) (string, string) { return "all", k + number(n) },
			millrace.RepartitionName("again"), key, text), on)
	})

	r.stores("versioned-join-grace", func(b *millrace.Builder, on storage) {
		t := millrace.TableFrom(b, texts("t"), on(versioned("rows", 30*ms)...)...)
		millrace.LeftJoinTable(millrace.From(b, texts("s")), t, leftSlash, millrace.As("waits"), millrace.JoinGrace(12*ms)).To(texts("out"))
	})

	r.stores("versioned-store", func(b *millrace.Builder, on storage) {
		st := millrace.NewVersionedStore("st", 30*ms, serde.String, serde.String, on()...)
		millrace.Process(millrace.From(b, free("in")), func() *historian { return &historian{definition: st} }, millrace.As("p"), millrace.WithStores(st)).
			To(free("out"))
	})

	r.add("read-only-store", func(b *millrace.Builder) {
		st := millrace.NewKeyValueStore("st", serde.String, serde.String)
		millrace.AddReadOnlyStore(b, texts("t"), st)
		millrace.Process(millrace.From(b, free("in")), func() *finder {
			return &finder{from: func(ctx processor.StoreContext) (store.ReadOnlyKeyValue[string, string], error) { return st.From(ctx) }}
		}, millrace.As("p"), millrace.WithStores(st)).To(free("out"))
	})

	lookUp := func(b *millrace.Builder, from func(processor.StoreContext) (store.ReadOnlyKeyValue[string, string], error)) {
		millrace.Process(millrace.From(b, free("in")), func() *finder { return &finder{from: from, stamped: true} }, millrace.As("p")).To(free("out"))
	}
	r.add("global-table-lookups", func(b *millrace.Builder) {
		lookUp(b, millrace.GlobalTableFrom(b, texts("t"), millrace.StoreName("rows")).From)
	})

	r.add("global-store", func(b *millrace.Builder) {
		st := millrace.NewKeyValueStore("st", serde.String, serde.String)
		millrace.AddGlobalStore(b, free("t"), st, func() *turner { return &turner{definition: st} }, millrace.As("fill"))
		lookUp(b, func(ctx processor.StoreContext) (store.ReadOnlyKeyValue[string, string], error) { return st.From(ctx) })
	})

	r.add("global-store-numbered", func(b *millrace.Builder) {
		st := millrace.NewKeyValueStore("st", serde.String, serde.String)
		lookUp(b, func(ctx processor.StoreContext) (store.ReadOnlyKeyValue[string, string], error) { return st.From(ctx) })
		millrace.AddGlobalStore(b, free("t"), st, func() *turner { return &turner{definition: st} })
	})

	r.stores("reuse-source-topics", func(b *millrace.Builder, on storage) {
		t := millrace.TableFrom(b, texts("t"), on(millrace.StoreName("rows"))...)
		v := millrace.TableFrom(b, texts("v"), on(versioned("versions", 30*ms)...)...)
		one := millrace.LeftJoinTable(millrace.From(b, texts("s")), t, leftSlash, millrace.As("one"))
		leftJoin(one, v, "two", "out")
		t.Filter(notQ, on(millrace.StoreName("kept"))...).ToStream().To(texts("kept-out"))
	}, builtWith(millrace.OptimizeProperty("reuse.ktable.source.topics")))
}

// versionedJoin is the left join of a stream s with a versioned table t, from what the rule says: a version holds from its
// own time to that of the next one, a deletion is one too.
func versionedJoin(input []step, historyMs int64) map[string][]record {
	versions := make(map[string]map[int64][]byte)
	observed := int64(-1)
	var out []record
	for i, in := range input {
		key := string(in.key)
		switch {
		case in.topic == "t" && in.key != nil && in.tsMs >= observed-historyMs:
			observed = max(observed, in.tsMs)
			if versions[key] == nil {
				versions[key] = make(map[int64][]byte)
			}
			versions[key][in.tsMs] = in.value
		case in.topic == "s" && in.value != nil:
			rec := in.record
			rec.topic, rec.step, rec.value = "left-joined", i, []byte(string(in.value)+"/"+heldAt(versions[key], in.tsMs, observed-historyMs))
			if in.key == nil {
				rec.value = []byte(string(in.value) + "/null")
			}
			out = append(out, rec)
		}
	}
	return map[string][]record{"left-joined": out}
}

// heldAt is the version of a key at a time. Before the history only the latest one is known.
func heldAt(versions map[int64][]byte, tsMs, historyStartMs int64) string {
	best, latest := int64(-1), int64(-1)
	for at := range versions {
		latest = max(latest, at)
		if at <= tsMs {
			best = max(best, at)
		}
	}
	if best < 0 || versions[best] == nil || tsMs < historyStartMs && best != latest {
		return "null"
	}
	return string(versions[best])
}
