package milltest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/store"
	"github.com/millrace-io/millrace/window"
)

// readWindows reads an iterator to its end, as "key@start=value".
func readWindows[V any](t *testing.T) func(it store.Iterator[window.Key[string], V], err error) []string {
	return func(it store.Iterator[window.Key[string], V], err error) (out []string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		for it.Next() {
			out = append(out, fmt.Sprintf("%s@%d=%v", it.Key().Key, it.Key().Window.StartMs, it.Value()))
		}
		if err := it.Err(); err != nil {
			t.Fatal(err)
		}
		if err := it.Close(); err != nil {
			t.Fatal(err)
		}
		return out
	}
}

// countStore counts in windows of ten with a retention of a thousand.
func countStore(t *testing.T, stepOpts []millrace.StepOption, opts ...milltest.Option) (*milltest.Driver, store.Window[string, int64]) {
	t.Helper()
	d, _, _ := countIn(t, window.Tumbling(10*ms).Grace(990*ms), stepOpts, opts...)
	for _, r := range strings.Fields("a=x@0 aa=x@0 a=x@10 aa=x@10 a=x@20 ab=x@10 a=x@30") {
		pipe(t, d, "in", r)
	}
	return d, milltest.Window[string, int64](d, "counts", 0)
}

func TestC082_KeysOfDifferentLengthInATypedStore(t *testing.T) {
	everyStore(t, func(t *testing.T, stepOpts []millrace.StepOption, opts ...milltest.Option) {
		for name, more := range map[string][]milltest.Option{"written": nil, "waiting in the cache": {milltest.ManualCommit()}} {
			t.Run(name, func(t *testing.T) {
				_, counts := countStore(t, stepOpts, slices.Concat(opts, more)...)
				read := readWindows[int64](t)
				wantText(t, "one key", fmt.Sprint(read(counts.Fetch("a", 0, 20))), "[a@0=1 a@10=1 a@20=1]")
				wantText(t, "the longer key", fmt.Sprint(read(counts.Fetch("aa", 0, 1000))), "[aa@0=1 aa@10=1]")
				all := read(counts.FetchAll(10, 20))
				slices.Sort(all)
				wantText(t, "all keys", fmt.Sprint(all), "[a@10=1 a@20=1 aa@10=1 ab@10=1]")
			})
		}
	})
}

func TestC084_BoundsAndStrictRetentionOfATypedStore(t *testing.T) {
	everyStore(t, func(t *testing.T, stepOpts []millrace.StepOption, opts ...milltest.Option) {
		d, counts := countStore(t, stepOpts, opts...)
		read := readWindows[int64](t)
		wantText(t, "fetch(a,1,19)", fmt.Sprint(read(counts.Fetch("a", 1, 19))), "[a@10=1]")
		wantText(t, "fetch(a,20,10)", fmt.Sprint(read(counts.Fetch("a", 20, 10))), "[]")
		look := func(when string) {
			t.Helper()
			wantText(t, when, fmt.Sprint(read(counts.Fetch("a", 0, 30))), "[a@10=1 a@20=1 a@30=1]")
			if n, ok, err := counts.Get("a", 0); ok || err != nil {
				t.Errorf("%s: the window at 0 is past the retention, and has %d (%v)", when, n, err)
			}
			if _, ok, err := counts.GetStamped("a", 0); ok || err != nil {
				t.Errorf("%s: the window at 0 is past the retention, and has a timestamp (%v)", when, err)
			}
			if n, ok, err := counts.Get("a", 10); n != 1 || !ok || err != nil {
				t.Errorf("%s: the window at 10 has %d, %v (%v)", when, n, ok, err)
			}
		}
		pipe(t, d, "in", "z=x@1005")
		look("after z")
		pipe(t, d, "in", "a=x@3")
		look("after the late record")
		wantDropped(t, d, "counts", millrace.DroppedLate, 1)
	})
}

// rowsToKeep is a typed store of a thousand rows: how to walk them and how to write others over them.
type rowsToKeep[K any] struct {
	all   func() (store.Iterator[K, []byte], error)
	write func(value string)
}

func keepRows[K comparable](t *testing.T, d *milltest.Driver, s rowsToKeep[K]) {
	t.Helper()
	s.write("first")
	pipe(t, d, "in", "tick=x@1")
	it, err := s.all()
	if err != nil {
		t.Fatal(err)
	}
	var keys []K
	var values [][]byte
	seen := make(map[K]bool)
	for it.Next() {
		if keys = append(keys, it.Key()); len(keys) == 10 { // below the iterator everything changes and reaches the disk
			for range 2 {
				s.write("other")
				d.AdvanceTime(10 * time.Second)
				pipe(t, d, "in", "tick=x@1")
			}
		}
		values = append(values, it.Value())
		seen[it.Key()] = true
	}
	if err := it.Err(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := it.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if it.Next() || it.Err() == nil {
		t.Errorf("Next after Close goes on, error %v", it.Err())
	}
	s.write("third")
	d.AdvanceTime(10 * time.Second)
	pipe(t, d, "in", "tick=x@1")
	if len(keys) != 1000 || len(seen) != 1000 {
		t.Errorf("%d rows of %d keys, want 1000", len(keys), len(seen))
	}
	for i, v := range values {
		if string(v) != "first" {
			t.Fatalf("row %d, %v, has become %q", i, keys[i], v)
		}
	}
}

func TestC086_IteratorMemoryOfTypedStores(t *testing.T) {
	noCache := []milltest.Option{milltest.CacheBytes(0), milltest.ReadCacheBytes(0)}
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	bytesTopic := millrace.NewTopic("in", serde.String, serde.Bytes)
	start := func(t *testing.T, declare func(s millrace.Grouped[string, []byte], opts []millrace.StepOption), stepOpts []millrace.StepOption, opts ...milltest.Option) *milltest.Driver {
		b := millrace.NewBuilder()
		// Only records of nobody's are piped: they make the task commit.
		s := millrace.From(b, bytesTopic).Filter(func(string, []byte) bool { return false })
		declare(s.GroupByKey(), append(stepOpts, millrace.As("s")))
		return milltest.New(t, build(t, b), opts...)
	}
	later := func(_, v []byte) []byte { return v }
	everyStore(t, func(t *testing.T, stepOpts []millrace.StepOption, opts ...milltest.Option) {
		for name, more := range map[string][]milltest.Option{"caches": nil, "no caches": noCache} {
			opts := slices.Concat(opts, more)
			t.Run("key-value, "+name, func(t *testing.T) {
				d := start(t, func(g millrace.Grouped[string, []byte], opts []millrace.StepOption) { g.Reduce(later, opts...) }, stepOpts, opts...)
				s := milltest.KeyValue[string, []byte](d, "s", 0)
				keepRows(t, d, rowsToKeep[string]{s.All, func(v string) {
					for i := range 1000 {
						must(t, s.PutStamped(fmt.Sprint(i), []byte(v), 1))
					}
				}})
			})
			t.Run("windows, "+name, func(t *testing.T) {
				d := start(t, func(g millrace.Grouped[string, []byte], opts []millrace.StepOption) {
					millrace.ReduceWindows(g.WindowBy(window.Tumbling(10*ms).Grace(990*ms)), later, opts...)
				}, stepOpts, opts...)
				s := milltest.Window[string, []byte](d, "s", 0)
				keepRows(t, d, rowsToKeep[window.Key[string]]{func() (store.Iterator[window.Key[string], []byte], error) { return s.FetchAll(0, 1000) }, func(v string) {
					for i := range 1000 {
						must(t, s.PutStamped(fmt.Sprint(i/10), []byte(v), int64(i%10)*10, 1))
					}
				}})
			})
			t.Run("sessions, "+name, func(t *testing.T) {
				d := start(t, func(g millrace.Grouped[string, []byte], opts []millrace.StepOption) {
					millrace.ReduceSessions(g.SessionBy(window.Session(10*ms).Grace(990*ms)), later, opts...)
				}, stepOpts, opts...)
				s := milltest.Session[string, []byte](d, "s", 0)
				keepRows(t, d, rowsToKeep[window.Key[string]]{func() (store.Iterator[window.Key[string], []byte], error) { return s.FindAll(0, 1000) }, func(v string) {
					for i := range 1000 {
						must(t, s.Put(fmt.Sprint(i/10), []byte(v), int64(i%10)*50, int64(i%10)*50+5))
					}
				}})
			})
		}
	})
}

// Time is that of a step in one partition: what happens in another closes nothing.
func TestC107_TimeBelongsToTheTask(t *testing.T) {
	for name, how := range map[string]struct {
		stepOpts []millrace.StepOption
		suppress bool
	}{"suppress": {nil, true}, "results on close": {onClose(nil), false}} {
		for disk, opts := range map[string][]milltest.Option{"in memory": nil, "on disk": {milltest.OnDisk()}} {
			t.Run(name+" "+disk, func(t *testing.T) {
				b := millrace.NewBuilder()
				counts, _ := millrace.CountWindows(millrace.From(b, strTopic).GroupByKey().WindowBy(window.Tumbling(10*ms)), append(how.stepOpts, millrace.As("counts"))...)
				if how.suppress {
					counts = counts.Suppress(millrace.UntilWindowCloses(millrace.Unbounded()), millrace.As("final"))
				}
				outTopic := millrace.NewTopic("out", serde.Windowed(serde.String, 10*ms), serde.Int64)
				counts.ToStream().To(outTopic)
				d := milltest.New(t, build(t, b), append(opts, milltest.TopicPartitions("in", 2))...)
				out := reader(d, outTopic)
				send := func(partition int32, key string, at time.Duration) {
					t.Helper()
					if err := d.PipeRaw("in", partition, []byte(key), []byte("x"), nil, at); err != nil {
						t.Fatal(err)
					}
				}
				send(0, "a", 1*ms)
				send(0, "a", 50*ms)
				send(1, "b", 2*ms)
				d.AdvanceTime(3 * time.Second)
				wantText(t, "after three seconds", out(), "a[0,10)=1@1")
				restart(t, d)
				d.AdvanceTime(3 * time.Second)
				wantText(t, "after a restart", out(), "")
				send(1, "c", 12*ms)
				wantText(t, "when partition 1 goes on", out(), "b[0,10)=1@2")
			})
		}
	}
}

// The changelog of a windowed count has the highest timestamp of the window, for each update, also where only the final
// result is sent.
func TestC080_ChangelogOfWindows(t *testing.T) {
	for name, stepOpts := range map[string][]millrace.StepOption{"each update": nil, "results on close": onClose(nil)} {
		t.Run(name, func(t *testing.T) {
			d, _, _ := countIn(t, window.Tumbling(1000*ms), stepOpts, milltest.CacheBytes(0))
			pipe(t, d, "in", "ab=x@1700")
			pipe(t, d, "in", "ab=x@1500")
			pipe(t, d, "in", "z=x@2000")
			wantText(t, "changelog", rawRecords(d, "test-counts-changelog"), strings.Join([]string{
				"616200000000000003e800000000=0000000000000001@1700",
				"616200000000000003e800000000=0000000000000002@1700",
				"7a00000000000007d000000000=0000000000000001@2000",
			}, "\n"))
		})
	}
	t.Run("sliding", func(t *testing.T) {
		d, _, _ := countIn(t, window.Sliding(1000*ms).Grace(1000*ms), nil, milltest.CacheBytes(0))
		pipe(t, d, "in", "ab=x@2000")
		pipe(t, d, "in", "ab=x@1500")
		wantText(t, "changelog", rawRecords(d, "test-counts-changelog"), strings.Join([]string{
			"616200000000000003e800000000=0000000000000001@2000", // [1000, 2000]
			"616200000000000003e800000000=0000000000000002@2000",
			"616200000000000001f400000000=0000000000000001@1500", // [500, 1500]
			"616200000000000005dd00000000=0000000000000001@2000", // [1501, 2501]: what comes after the second record
		}, "\n"))
	})
}

// Whatever kind the windows are of: the key and the start in a sink, a sequence number behind them in the changelog.
func TestC127_KeysOfEveryKindOfWindow(t *testing.T) {
	for name, c := range map[string]struct {
		w     window.Windows
		at    string
		start string
	}{
		"sliding":    {window.Sliding(100 * ms), "1100", "00000000000003e8"},
		"days":       {window.Days(time.UTC), "86400005", "0000000005265c00"},
		"unlimited":  {window.Unlimited().StartingAt(time.UnixMilli(7)), "1000", "0000000000000007"},
		"one's own":  {tens{}, "1007", "00000000000003e8"},
		"hopping":    {window.Hopping(100*ms, 100*ms), "1000", "00000000000003e8"},
		"before all": {window.Sliding(100 * ms), "5", "0000000000000000"},
	} {
		t.Run(name, func(t *testing.T) {
			d, _, _ := countIn(t, c.w, nil, milltest.CacheBytes(0))
			pipe(t, d, "in", "ab=x@"+c.at)
			key := "6162" + c.start
			wantText(t, "sink", rawRecords(d, "out"), key+"=0000000000000001@"+c.at)
			wantText(t, "changelog", rawRecords(d, "test-counts-changelog"), key+"00000000=0000000000000001@"+c.at)
		})
	}
}
