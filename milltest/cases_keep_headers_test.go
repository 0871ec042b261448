package milltest_test

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/store"
	"github.com/millrace-io/millrace/window"
)

// storesAndCaches runs a test with stores on disk and in memory, with a cache and without.
func storesAndCaches(t *testing.T, f func(t *testing.T, step []millrace.StepOption, driver ...milltest.Option)) {
	t.Helper()
	everywhere(t, func(t *testing.T, step []millrace.StepOption, driver ...milltest.Option) {
		for _, cache := range []int64{0, 1 << 20} {
			t.Run(fmt.Sprintf("cache %d", cache), func(t *testing.T) {
				f(t, step, append(slices.Clone(driver), milltest.CacheBytes(cache))...)
			})
		}
	})
}

func stampedText[V any](t *testing.T, what string, get func() (store.Stamped[V], bool, error)) string {
	t.Helper()
	v, ok, err := get()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if !ok {
		return "none"
	}
	return fmt.Sprintf("%v@%d[%s]", v.Value, v.TimestampMs, keptText(v.Headers))
}

// keptText is headersText that tells a null from an empty value.
func keptText(h serde.Headers) string {
	var out []string
	for _, x := range h {
		value := string(x.Value)
		if x.Value == nil {
			value = "~"
		}
		out = append(out, x.Key+"="+value)
	}
	return strings.Join(out, ",")
}

func logText(d *milltest.Driver, topic string) string {
	var out []string
	for _, r := range d.Written(topic) {
		value := "~"
		if r.Value != nil {
			value = hex.EncodeToString(r.Value)
		}
		out = append(out, fmt.Sprintf("%x=%s@%d[%s]", r.Key, value, r.TimestampMs, keptText(r.Headers)))
	}
	return strings.Join(out, " ")
}

// keeper does what the value of a record says: it puts it, puts it under a timestamp and headers of its own, or deletes it.
type keeper struct {
	kv  *millrace.KeyValueStore[string, string]
	w   *millrace.WindowStore[string, string]
	s   *millrace.SessionStore[string, string]
	kvs store.KeyValue[string, string]
	ws  store.Window[string, string]
	ss  store.Session[string, string]
}

func (k *keeper) Init(ctx processor.Context[string, string]) (err error) {
	if k.kvs, err = k.kv.From(ctx); err != nil {
		return err
	}
	if k.ws, err = k.w.From(ctx); err != nil {
		return err
	}
	k.ss, err = k.s.From(ctx)
	return err
}

func (k *keeper) Close() error { return nil }

func (k *keeper) Process(r processor.Record[string, string]) error {
	start := r.TimestampMs / 10 * 10
	switch {
	case r.NullValue:
		if err := k.kvs.Delete(r.Key); err != nil {
			return err
		}
		if err := k.ss.Delete(r.Key, r.TimestampMs, r.TimestampMs); err != nil {
			return err
		}
		return k.ws.Delete(r.Key, start)
	case r.Value == "own":
		own := serde.Headers{{Key: "own", Value: []byte("1")}, {Key: "own"}}
		if err := k.kvs.PutStamped(r.Key, r.Value, 7, own...); err != nil {
			return err
		}
		own[0].Key = "changed" // the store has its own
		return k.ws.PutStamped(r.Key, r.Value, 0, 7, serde.Header{Key: "own", Value: []byte("1")}, serde.Header{Key: "own"})
	case r.Value == "bare":
		return k.kvs.PutStamped(r.Key, r.Value, 7)
	}
	if err := k.kvs.Put(r.Key, r.Value); err != nil {
		return err
	}
	if err := k.ss.Put(r.Key, r.Value, r.TimestampMs, r.TimestampMs); err != nil {
		return err
	}
	return k.ws.Put(r.Key, r.Value, start)
}

func keeping(t *testing.T, step []millrace.StepOption, driver ...milltest.Option) *milltest.Driver {
	t.Helper()
	b := millrace.NewBuilder()
	kv := millrace.NewKeyValueStore("kv", serde.String, serde.String, append(slices.Clone(step), millrace.KeepHeaders())...)
	w := millrace.NewWindowStore("w", 10*ms, 100*ms, serde.String, serde.String, append(slices.Clone(step), millrace.KeepHeaders())...)
	s := millrace.NewSessionStore("s", 100*ms, serde.String, serde.String, append(slices.Clone(step), millrace.KeepHeaders())...)
	millrace.Process(millrace.From(b, strTopic), func() *keeper { return &keeper{kv: kv, w: w, s: s} }, millrace.As("p"), millrace.WithStores(kv, w, s))
	return milltest.New(t, build(t, b), driver...)
}

// The changelog records are those of timestampedKeyValueStoreWithHeadersBuilder and its kin, for windows and sessions, of Kafka
// Streams 4.4.0 for the same puts, on disk and in memory.
func TestKeepHeaders_storesOfProcessors(t *testing.T) {
	storesAndCaches(t, func(t *testing.T, step []millrace.StepOption, driver ...milltest.Option) {
		d := keeping(t, step, driver...)
		kv, w := milltest.KeyValue[string, string](d, "kv", 0), milltest.Window[string, string](d, "w", 0)
		get := func() string {
			return stampedText(t, "kv", func() (store.Stamped[string], bool, error) { return kv.GetStamped("k") })
		}
		getW := func(start int64) string {
			return stampedText(t, "w", func() (store.Stamped[string], bool, error) { return w.GetStamped("k", start) })
		}
		pipeWith(t, d, "in", "k", "v1", 5*ms, "a=1")
		wantText(t, "kv", get(), "v1@5[a=1]")
		pipeWith(t, d, "in", "k", "v2", 15*ms, "")
		wantText(t, "kv", get(), "v2@15[]")
		pipeWith(t, d, "in", "k", "v3", 25*ms, "a=1,b=,a=2")
		wantText(t, "kv", get(), "v3@25[a=1,b=,a=2]")
		wantText(t, "w", getW(0)+" "+getW(10)+" "+getW(20), "v1@5[a=1] v2@15[] v3@25[a=1,b=,a=2]")
		if err := d.PipeRaw("in", 0, []byte("k"), nil, serde.Headers{{Key: "x", Value: []byte("9")}}, 26*ms); err != nil {
			t.Fatal(err)
		}
		wantText(t, "deleted", get()+" "+getW(20), "none none")
		pipeWith(t, d, "in", "k", "own", 30*ms, "x=9")
		wantText(t, "own", get()+" "+getW(0), "own@7[own=1,own=~] own@7[own=1,own=~]")
		wantText(t, "kv changelog", logText(d, "test-kv-changelog"),
			"6b=7631@5[a=1] 6b=7632@15[] 6b=7633@25[a=1,b=,a=2] 6b=~@26[x=9] 6b=6f776e@7[own=1,own=~]")
		wantText(t, "w changelog", logText(d, "test-w-changelog"),
			"6b000000000000000000000000=7631@5[a=1] 6b000000000000000a00000000=7632@15[] 6b000000000000001400000000=7633@25[a=1,b=,a=2] "+
				"6b000000000000001400000000=~@26[x=9] 6b000000000000000000000000=6f776e@7[own=1,own=~]")
		wantText(t, "s changelog", logText(d, "test-s-changelog"),
			"6b00000000000000050000000000000005=7631@5[a=1] 6b000000000000000f000000000000000f=7632@15[] "+
				"6b00000000000000190000000000000019=7633@25[a=1,b=,a=2] 6b000000000000001a000000000000001a=~@26[x=9]")

		restart(t, d)
		kv, w = milltest.KeyValue[string, string](d, "kv", 0), milltest.Window[string, string](d, "w", 0)
		wantText(t, "restarted", get()+" "+getW(0)+" "+getW(10), "own@7[own=1,own=~] own@7[own=1,own=~] v2@15[]")
		it, err := w.FetchAll(0, 100)
		if err != nil {
			t.Fatal(err)
		}
		defer it.Close()
		var all []string
		for it.Next() {
			all = append(all, fmt.Sprintf("%s@%d[%s]", it.Value(), it.Key().Window.StartMs, keptText(it.Headers())))
		}
		slices.Sort(all)
		wantText(t, "iterator", strings.Join(all, " "), "own@0[own=1,own=~] v2@10[]")
		sessions, err := milltest.Session[string, string](d, "s", 0).Fetch("k")
		if err != nil {
			t.Fatal(err)
		}
		defer sessions.Close()
		var found []string
		for sessions.Next() {
			found = append(found, fmt.Sprintf("%s@%d[%s]", sessions.Value(), sessions.TimestampMs(), keptText(sessions.Headers())))
		}
		wantText(t, "sessions", strings.Join(found, " "), "v1@5[a=1] v2@15[] v3@25[a=1,b=,a=2]")
		pipeWith(t, d, "in", "k", "bare", 30*ms, "x=9")
		wantText(t, "bare", get(), "bare@7[]")
	})
}

// A store without the option has no headers, and refuses to be given some.
func TestKeepHeaders_storesWithout(t *testing.T) {
	b := millrace.NewBuilder()
	kv := millrace.NewKeyValueStore("kv", serde.String, serde.String)
	w := millrace.NewWindowStore("w", 10*ms, 100*ms, serde.String, serde.String)
	s := millrace.NewSessionStore("s", 100*ms, serde.String, serde.String)
	millrace.Process(millrace.From(b, strTopic), func() *keeper { return &keeper{kv: kv, w: w, s: s} }, millrace.As("p"), millrace.WithStores(kv, w, s))
	d := milltest.New(t, build(t, b))
	pipeWith(t, d, "in", "k", "v1", 5*ms, "a=1")
	wantText(t, "kv", stampedText(t, "kv", func() (store.Stamped[string], bool, error) {
		return milltest.KeyValue[string, string](d, "kv", 0).GetStamped("k")
	}), "v1@5[]")
	wantText(t, "changelog", logText(d, "test-kv-changelog"), "6b=7631@5[]")
	err := tryPipe(d, "in", "k=own@6")
	if want := "store kv keeps no headers: define it with millrace.KeepHeaders()"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the error is %v, want %q", err, want)
	}
}

// headerTables declares a table of each kind that keeps the headers of what set its rows.
var headerTables = []struct {
	name    string
	declare func(b *millrace.Builder, opts ...millrace.StepOption) millrace.Stream[string, string]
	get     func(d *milltest.Driver) func() (store.Stamped[string], bool, error)
}{
	{"table source", func(b *millrace.Builder, opts ...millrace.StepOption) millrace.Stream[string, string] {
		return millrace.TableFrom(b, strTopic, opts...).ToStream()
	}, rowOf},
	{"stream to table", func(b *millrace.Builder, opts ...millrace.StepOption) millrace.Stream[string, string] {
		return millrace.From(b, strTopic).ToTable(opts...).ToStream()
	}, rowOf},
	{"reduce", func(b *millrace.Builder, opts ...millrace.StepOption) millrace.Stream[string, string] {
		return millrace.From(b, strTopic).GroupByKey().Reduce(func(_, v string) string { return v }, opts...).ToStream()
	}, rowOf},
	{"aggregate", func(b *millrace.Builder, opts ...millrace.StepOption) millrace.Stream[string, string] {
		return millrace.Aggregate(millrace.From(b, strTopic).GroupByKey(), func() string { return "" }, func(_, v, _ string) string { return v },
			serde.String, opts...).ToStream()
	}, rowOf},
	{"mapped table", func(b *millrace.Builder, opts ...millrace.StepOption) millrace.Stream[string, string] {
		opts = append(opts, millrace.WithValue(serde.String))
		return millrace.MapTableValues(millrace.TableFrom(b, strTopic), func(v string) string { return v }, opts...).ToStream()
	}, rowOf},
	{"joined tables", func(b *millrace.Builder, opts ...millrace.StepOption) millrace.Stream[string, string] {
		l := millrace.TableFrom(b, strTopic, millrace.As("left"), millrace.WithoutCache())
		r := millrace.TableFrom(b, millrace.NewTopic("right", serde.String, serde.String), millrace.As("right"))
		return millrace.LeftJoinTables(l, r, func(l, _ string, _ bool) string { return l }, append(opts, millrace.WithValue(serde.String))...).ToStream()
	}, rowOf},
	{"grouped table", func(b *millrace.Builder, opts ...millrace.StepOption) millrace.Stream[string, string] {
		g := millrace.GroupTableBy(millrace.TableFrom(b, strTopic, millrace.As("rows"), millrace.WithoutCache()), func(k, v string) (string, string) { return k, v },
			millrace.WithKey(serde.String), millrace.WithValue(serde.String))
		return g.Reduce(func(_, v string) string { return v }, func(a, _ string) string { return a }, opts...).ToStream()
	}, rowOf},
	{"windows", func(b *millrace.Builder, opts ...millrace.StepOption) millrace.Stream[string, string] {
		return windowed(b, window.Tumbling(time.Hour), opts)
	}, windowRowOf},
	{"sliding windows", func(b *millrace.Builder, opts ...millrace.StepOption) millrace.Stream[string, string] {
		return windowed(b, window.Sliding(time.Hour), opts)
	}, windowRowOf},
	{"sessions", func(b *millrace.Builder, opts ...millrace.StepOption) millrace.Stream[string, string] {
		sessions := millrace.From(b, strTopic).GroupByKey().SessionBy(window.Session(time.Hour))
		t, _ := millrace.ReduceSessions(sessions, func(_, v string) string { return v }, opts...)
		return millrace.SelectKey(t.ToStream(), func(k window.Key[string], _ string) string { return k.Key })
	}, sessionOf},
	{"cogroup", func(b *millrace.Builder, opts ...millrace.StepOption) millrace.Stream[string, string] {
		return lastOfTwo(b).Aggregate(noText, serde.String, opts...).ToStream()
	}, rowOf},
	{"windows of a cogroup", func(b *millrace.Builder, opts ...millrace.StepOption) millrace.Stream[string, string] {
		t, _ := lastOfTwo(b).WindowBy(window.Tumbling(time.Hour)).Aggregate(noText, serde.String, opts...)
		return millrace.SelectKey(t.ToStream(), func(k window.Key[string], _ string) string { return k.Key })
	}, windowRowOf},
	{"sliding windows of a cogroup", func(b *millrace.Builder, opts ...millrace.StepOption) millrace.Stream[string, string] {
		t, _ := lastOfTwo(b).WindowBy(window.Sliding(time.Hour)).Aggregate(noText, serde.String, opts...)
		return millrace.SelectKey(t.ToStream(), func(k window.Key[string], _ string) string { return k.Key })
	}, windowRowOf},
	{"sessions of a cogroup", func(b *millrace.Builder, opts ...millrace.StepOption) millrace.Stream[string, string] {
		t, _ := lastOfTwo(b).SessionBy(window.Session(time.Hour)).Aggregate(noText, func(_, _, v string) string { return v }, serde.String, opts...)
		return millrace.SelectKey(t.ToStream(), func(k window.Key[string], _ string) string { return k.Key })
	}, sessionOf},
}

func noText() string { return "" }

// lastOfTwo is a cogroup of the topic in and another one, of which the last record counts.
func lastOfTwo(b *millrace.Builder) millrace.Cogrouped[string, string] {
	last := func(_, v, _ string) string { return v }
	other := millrace.From(b, millrace.NewTopic("other", serde.String, serde.String)).GroupByKey()
	return millrace.AndCogroup(millrace.Cogroup(other, last), millrace.From(b, strTopic).GroupByKey(), last)
}

// sessionOf returns the one session of the key k.
func sessionOf(d *milltest.Driver) func() (store.Stamped[string], bool, error) {
	return func() (s store.Stamped[string], ok bool, err error) {
		it, err := milltest.Session[string, string](d, "kept", 0).Fetch("k")
		if err != nil {
			return s, false, err
		}
		defer it.Close()
		for it.Next() {
			if ok {
				return s, false, fmt.Errorf("there are two sessions, with %s@%d and %s from %d to %d", s.Value, s.TimestampMs, it.Value(), it.Key().Window.StartMs, it.Key().Window.EndMs)
			}
			s, ok = store.Stamped[string]{Value: it.Value(), TimestampMs: it.TimestampMs(), Headers: it.Headers()}, true
		}
		return s, ok, it.Err()
	}
}

func rowOf(d *milltest.Driver) func() (store.Stamped[string], bool, error) {
	return func() (store.Stamped[string], bool, error) {
		return milltest.KeyValue[string, string](d, "kept", 0).GetStamped("k")
	}
}

func windowRowOf(d *milltest.Driver) func() (store.Stamped[string], bool, error) {
	return func() (store.Stamped[string], bool, error) {
		return milltest.Window[string, string](d, "kept", 0).GetStamped("k", 0)
	}
}

func windowed(b *millrace.Builder, w window.Windows, opts []millrace.StepOption) millrace.Stream[string, string] {
	t, _ := millrace.ReduceWindows(millrace.From(b, strTopic).GroupByKey().WindowBy(w), func(_, v string) string { return v }, opts...)
	return millrace.SelectKey(t.ToStream(), func(k window.Key[string], _ string) string { return k.Key })
}

// The row has the headers of the record that set it last, through flush, commit, restart and crash, and so have its changelog
// records.
func TestKeepHeaders_tables(t *testing.T) {
	for _, table := range headerTables {
		t.Run(table.name, func(t *testing.T) {
			storesAndCaches(t, func(t *testing.T, step []millrace.StepOption, driver ...milltest.Option) {
				b := millrace.NewBuilder()
				table.declare(b, append(slices.Clone(step), millrace.As("kept"), millrace.KeepHeaders())...).To(outTopic)
				d := milltest.New(t, build(t, b), append(slices.Clone(driver), milltest.ManualCommit())...)
				get := func() string { return stampedText(t, "row", table.get(d)) }
				pipeWith(t, d, "in", "k", "v1", 5*ms, "a=1")
				wantText(t, "first", get(), "v1@5[a=1]")
				pipeWith(t, d, "in", "k", "v2", 6*ms, "a=2,b=x")
				wantText(t, "second", get(), "v2@6[a=2,b=x]")
				pipeWith(t, d, "in", "l", "z", 6*ms, "other=1")
				d.Commit()
				wantText(t, "committed", get(), "v2@6[a=2,b=x]")
				last := func() string {
					log := d.Written("test-kept-changelog")
					for i := len(log) - 1; i >= 0; i-- {
						if log[i].Key[0] == 'k' {
							return keptText(log[i].Headers)
						}
					}
					return "none"
				}
				wantText(t, "changelog", last(), "a=2,b=x")
				restart(t, d)
				wantText(t, "restarted", get(), "v2@6[a=2,b=x]")
				pipeWith(t, d, "in", "k", "v3", 7*ms, "a=3")
				restart(t, d) // a crash: what was not committed comes in again
				d.Commit()
				wantText(t, "after the crash", get(), "v3@7[a=3]")
				wantText(t, "changelog", last(), "a=3")
			})
		})
	}
}

// An update that was held back carries the headers of the last write downstream, and the store has the same ones.
func TestKeepHeaders_cacheKeepsTheLastWrite(t *testing.T) {
	everywhere(t, func(t *testing.T, step []millrace.StepOption, driver ...milltest.Option) {
		b := millrace.NewBuilder()
		millrace.TableFrom(b, strTopic, append(slices.Clone(step), millrace.As("kept"), millrace.KeepHeaders())...).ToStream().To(outTopic)
		d := milltest.New(t, build(t, b), append(slices.Clone(driver), milltest.ManualCommit(), milltest.CacheBytes(1<<20))...)
		pipeWith(t, d, "in", "k", "v1", 9*ms, "a=1")
		pipeWith(t, d, "in", "k", "v2", 5*ms, "a=2")
		pipeWith(t, d, "in", "l", "z", 6*ms, "a=3")
		it, err := milltest.KeyValue[string, string](d, "kept", 0).All()
		if err != nil {
			t.Fatal(err)
		}
		defer it.Close()
		var waiting []string
		for it.Next() {
			waiting = append(waiting, fmt.Sprintf("%s=%s@%d[%s]", it.Key(), it.Value(), it.TimestampMs(), keptText(it.Headers())))
		}
		wantText(t, "waiting", strings.Join(waiting, " "), "k=v2@5[a=2] l=z@6[a=3]")
		wantText(t, "nothing has come out", headersOf(d, "out"), "")
		d.Commit()
		wantText(t, "out", headersOf(d, "out"), "[a=2] [a=3]")
		wantText(t, "changelog", logText(d, "test-kept-changelog"), "6b=7632@5[a=2] 6c=7a@6[a=3]")
	})
}

// A read-only store, and a table whose source topic is its changelog, get the headers of the topic's records back.
func TestKeepHeaders_sourceTopicAsChangelog(t *testing.T) {
	everywhere(t, func(t *testing.T, step []millrace.StepOption, driver ...milltest.Option) {
		b := millrace.NewBuilder(millrace.Optimize(millrace.ReuseSourceTopics))
		millrace.TableFrom(b, strTopic, append(slices.Clone(step), millrace.As("kept"), millrace.KeepHeaders())...)
		d := milltest.New(t, build(t, b), driver...)
		pipeWith(t, d, "in", "k", "v", 5*ms, "a=1")
		restart(t, d)
		wantText(t, "row", stampedText(t, "row", rowOf(d)), "v@5[a=1]")
	})
}

// Random puts, deletions and crashes against a map.
func TestKeepHeaders_random(t *testing.T) {
	for seed := range uint64(20) {
		storesAndCaches(t, func(t *testing.T, step []millrace.StepOption, driver ...milltest.Option) {
			rng := rand.New(rand.NewPCG(seed, 1))
			b := millrace.NewBuilder()
			millrace.TableFrom(b, strTopic, append(slices.Clone(step), millrace.As("kept"), millrace.KeepHeaders())...).ToStream().To(outTopic)
			d := milltest.New(t, build(t, b), append(slices.Clone(driver), milltest.ManualCommit())...)
			want := make(map[string]string)
			for i := range 60 {
				key := string(rune('a' + rng.IntN(4)))
				switch n := rng.IntN(10); {
				case n == 0:
					d.Commit()
				case n == 1:
					restart(t, d)
				case n == 2:
					d.AdvanceTime(time.Minute) // so that a commit goes to disk
				case n == 3:
					pipe(t, d, "in", fmt.Sprintf("%s=~@%d", key, i))
					want[key] = "none"
				default:
					var headers []string
					for j := range rng.IntN(3) {
						headers = append(headers, fmt.Sprintf("h%d=%s", j, strings.Repeat("x", rng.IntN(80))))
					}
					value := fmt.Sprint("v", i)
					pipeWith(t, d, "in", key, value, time.Duration(i)*ms, strings.Join(headers, ","))
					want[key] = fmt.Sprintf("%s@%d[%s]", value, i, strings.Join(headers, ","))
				}
				for k, w := range want {
					got := stampedText(t, k, func() (store.Stamped[string], bool, error) {
						return milltest.KeyValue[string, string](d, "kept", 0).GetStamped(k)
					})
					wantText(t, fmt.Sprintf("seed %d, step %d, key %s", seed, i, k), got, w)
				}
				if t.Failed() {
					return
				}
			}
		})
	}
}
