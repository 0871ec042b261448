package millrace

import (
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// C042: with both topics filled before the start, the record with the smallest timestamp goes first, whichever topic was
// filled first.
func TestC042_InputByTimestamp(t *testing.T) {
	for run := range 4 {
		t.Run(fmt.Sprint("run ", run), func(t *testing.T) {
			k := newKafka(t)
			k.topic("S", 1)
			k.topic("T", 1)
			k.topic("out", 1)
			fill := map[string]func(){
				"S": func() {
					for ts := int64(10); ts <= 50; ts += 10 {
						k.produce(rec("S", "k", fmt.Sprint("s", ts), ts))
					}
				},
				"T": func() {
					for ts := int64(5); ts <= 45; ts += 10 {
						k.produce(rec("T", "k", fmt.Sprint("t", ts), ts))
					}
				},
			}
			order := []string{"S", "T"}
			if run%2 == 1 {
				order = []string{"T", "S"}
			}
			for _, topic := range order {
				fill[topic]()
			}
			topology := mustBuild(t, func(b *Builder) {
				table := TableFrom(b, strTopic("T"), As("table"))
				JoinTable(From(b, strTopic("S")), table, func(s, t string) string { return s + "," + t }).To(strTopic("out"))
			})
			a := k.start(topology, InMemoryState())
			got := values(k.read("out", 5))
			a.stop()
			wantEqual(t, "out", got, []string{"k=s10,t5", "k=s20,t15", "k=s30,t25", "k=s40,t35", "k=s50,t45"})
		})
	}
}

// C076: what comes in while tasks move and are restored is not lost.
func TestC076_InputWhileRestoring(t *testing.T) {
	k := newKafka(t)
	k.topic("in", 10)
	k.topic("out", 1)
	topology := countInto(t, "in", "out")
	const keys, total = 20, 3000
	feed := func(from, to int) {
		for i := from; i < to; i++ {
			k.produce(rec("in", fmt.Sprint("k", i%keys), "x", int64(i)))
		}
	}
	first := k.start(topology, CacheBytes(0))
	feed(0, 1000)
	first.untilRunning()
	second := k.start(topology, CacheBytes(0))
	feed(1000, 1500)
	second.until("the second instance has tasks", func() bool { return len(second.app.Metrics().Tasks) > 0 })
	feed(1500, 2000)
	second.stop()
	feed(2000, total)
	first.untilDone()
	first.stop()
	best := make(map[string]int)
	for _, s := range counts(t, k.all("out")) {
		key, n, _ := strings.Cut(s, "=")
		n, _, _ = strings.Cut(n, "@")
		if c, _ := strconv.Atoi(n); c > best[key] {
			best[key] = c
		}
	}
	for i := range keys {
		// Every hand-over was clean, so the counts are exact although that is not promised under at-least-once.
		if got := best[fmt.Sprint("k", i)]; got != total/keys {
			t.Errorf("count of k%d is %d, want %d", i, got, total/keys)
		}
	}
}

// C098: what was processed and not committed is committed before it is given away, so that its next owner processes none
// of it again.
func TestC098_CleanHandOver(t *testing.T) {
	k := newKafka(t)
	k.topic("in", 4)
	k.topic("out", 4)
	var mu sync.Mutex
	seen := make(map[string]int)
	topology := mustBuild(t, func(b *Builder) {
		From(b, strTopic("in")).Peek(func(_, v string) {
			mu.Lock()
			defer mu.Unlock()
			seen[v]++
		}).To(strTopic("out"))
	})
	for i := range 100 {
		k.produce(rec("in", fmt.Sprint("k", i), fmt.Sprint("v", i), int64(i)))
	}
	first := k.start(topology, CommitInterval(time.Hour))
	k.read("out", 100)
	second := k.start(topology, CommitInterval(time.Hour))
	second.until("half of the tasks are here", func() bool { return len(second.app.Metrics().Tasks) == 2 })
	second.untilRunning()
	k.produce(rec("in", "last", "last", 100))
	k.read("out", 101)
	first.stop()
	second.stop()
	mu.Lock()
	defer mu.Unlock()
	for v, n := range seen {
		if n != 1 {
			t.Errorf("%s was processed %d times", v, n)
		}
	}
}

// C108: skipped records move the committed offset, but no time.
func TestC108_InvalidTimestamps(t *testing.T) {
	k := newKafka(t)
	k.topic("in", 1)
	k.topic("out", 1)
	topology := mustBuild(t, func(b *Builder) {
		From(b, strTopic("in"), Timestamps(func(r processor.Record[string, string], _ processor.Metadata, _ int64) (int64, error) {
			if r.Value == "bad" {
				return -1, nil
			}
			return r.TimestampMs, nil
		})).To(strTopic("out"))
	})
	k.produce(rec("in", "k", "ok", 5), rec("in", "k", "bad", 6), rec("in", "k", "bad", 7))
	a := k.start(topology)
	a.untilDone()
	a.stop()
	wantEqual(t, "out", values(k.all("out")), []string{"k=ok"})
	o := k.committed("app", "in")[0]
	if o.At != 3 {
		t.Errorf("committed offset is %d, want 3", o.At)
	}
	if want := base64.StdEncoding.EncodeToString([]byte{2, 0, 0, 0, 0, 0, 0, 0, 5}); o.Metadata != want {
		t.Errorf("metadata is %q, want %q: partition time 5", o.Metadata, want)
	}
	if n := a.app.Metrics().DroppedFor(DroppedNegativeTimestamp); n != 2 {
		t.Errorf("%d records were counted as dropped, want 2", n)
	}
}

func sumTopology(t *testing.T) *Topology {
	t.Helper()
	return mustBuild(t, func(b *Builder) {
		sums := From(b, NewTopic("in", serde.String, serde.Int64)).GroupByKey().Reduce(func(a, b int64) int64 { return a + b }, As("sums"))
		sums.ToStream().To(NewTopic("out", serde.String, serde.Int64))
	})
}

func poison(k *kafkaInProcess) {
	number := func(b ...byte) string { return string(append(make([]byte, 8-len(b)), b...)) }
	k.produce(rec("in", "k", number(4), 1), rec("in", "k", "\x01\x02\x03", 2), rec("in", "k", number(5), 3))
	null := rec("in", "k", "", 4)
	null.Value = nil
	k.produce(null)
}

// C110: a record that does not decode.
func TestC110_PoisonPill(t *testing.T) {
	t.Run("continue", func(t *testing.T) {
		k := newKafka(t)
		k.topic("in", 1)
		k.topic("out", 1)
		poison(k)
		a := k.start(sumTopology(t), CacheBytes(0), OnDeserializationError(LogAndContinue()))
		a.untilDone()
		a.stop()
		wantEqual(t, "out", counts(t, k.all("out")), []string{"k=4@1", "k=9@3"})
		m := a.app.Metrics()
		if m.DroppedFor(DroppedDeserialization) != 1 || m.DroppedFor(DroppedNullValue) != 1 {
			t.Errorf("drops are %+v, want one for the bytes and one for the null", m.Drops)
		}
		if !a.logged("WARN", "dropped", "offset=1", "topic=in") {
			t.Error("the log does not name the record")
		}
	})
	t.Run("fail", func(t *testing.T) {
		k := newKafka(t)
		k.topic("in", 1)
		k.topic("out", 1)
		poison(k)
		for range 2 { // no crash loop: each start ends with the same error at the same record
			err := k.start(sumTopology(t), CacheBytes(0)).fails()
			var at *RecordError
			if !errors.As(err, &at) || at.Origin.Topic != "in" || at.Origin.Offset != 1 || at.Stage != processor.Deserializing {
				t.Errorf("error %v", err)
			}
		}
	})
	t.Run("dead letters", func(t *testing.T) {
		k := newKafka(t)
		k.topic("in", 1)
		k.topic("out", 1)
		k.topic("dead", 1)
		poison(k)
		a := k.start(sumTopology(t), CacheBytes(0), OnDeserializationError(DeadLetters("dead")))
		a.untilDone()
		a.stop()
		dead := k.all("dead")
		if len(dead) != 1 || string(dead[0].Key) != "k" || string(dead[0].Value) != "\x01\x02\x03" || dead[0].Timestamp.UnixMilli() != 2 {
			t.Fatalf("dead letters %+v", dead)
		}
		got := make(map[string]string)
		for _, h := range dead[0].Headers {
			got[h.Key] = string(h.Value)
		}
		for name, want := range map[string]string{"topic": "in", "partition": "0", "offset": "1"} {
			if got["__streams.errors."+name] != want {
				t.Errorf("header %s is %q, want %q", name, got["__streams.errors."+name], want)
			}
		}
		for _, name := range []string{"exception", "message", "stacktrace"} {
			if got["__streams.errors."+name] == "" {
				t.Errorf("header %s is empty", name)
			}
		}
	})
}

// C114: the output topic does not exist, and the broker does not make it by itself.
func TestC114_OutputTopicDoesNotExist(t *testing.T) {
	k := newKafka(t)
	k.topic("in", 1)
	topology := mustBuild(t, func(b *Builder) { From(b, strTopic("in")).To(strTopic("missing")) })
	k.produce(rec("in", "k", "v", 1))
	a := k.start(topology)
	a.until("two attempts are logged", func() bool { return a.logged("ERROR", "missing", "attempt=2", "not present") })
	if o := k.committed("app", "in"); len(o) != 0 {
		t.Errorf("committed %v", o)
	}
	if s := a.app.State(); s == Failed || s == Stopped {
		t.Errorf("state is %v", s)
	}
	k.topic("missing", 1)
	wantEqual(t, "missing", values(k.read("missing", 1)), []string{"k=v"})
	a.untilDone()
	a.stop()
}

// C121: within a commit interval the updates of a key collapse in the record cache, and what leaves it carries the
// timestamp of the last one.
func TestC121_RecordCache(t *testing.T) {
	k := newKafka(t)
	k.topic("in", 1)
	k.topic("cached", 1)
	k.topic("plain", 1)
	for i, key := range []string{"a", "b", "a", "b", "a", "b"} {
		k.produce(rec("in", key, "x", int64(i)))
	}
	a := k.start(countInto(t, "in", "cached"), ApplicationID("cached"), CacheBytes(1<<20), CommitInterval(300*time.Millisecond))
	a.untilDone()
	a.stop()
	wantEqual(t, "with a cache", counts(t, k.all("cached")), []string{"a=3@4", "b=3@5"})
	a = k.start(countInto(t, "in", "plain"), ApplicationID("plain"), CacheBytes(0))
	a.untilDone()
	a.stop()
	wantEqual(t, "without", counts(t, k.all("plain")), []string{"a=1@0", "b=1@1", "a=2@2", "b=2@3", "a=3@4", "b=3@5"})
}

// C121, chained stores: everything reaches the sink in one commit.
func TestC121_ChainedCaches(t *testing.T) {
	k := newKafka(t)
	k.topic("in", 1)
	k.topic("out", 1)
	topology := mustBuild(t, func(b *Builder) {
		counted := Count(From(b, strTopic("in")).GroupByKey(), As("first")).ToStream()
		Count(MapValues(counted, func(n int64) string { return fmt.Sprint(n) }).GroupByKey(WithValue[string](serde.String)), As("second")).
			ToStream().To(NewTopic("out", serde.String, serde.Int64))
	})
	for i := range 6 {
		k.produce(rec("in", "a", "x", int64(i)))
	}
	a := k.start(topology, CacheBytes(1<<20), CommitInterval(300*time.Millisecond))
	a.untilDone()
	if m := a.app.Metrics(); m.Commits != 1 {
		t.Errorf("%d commits", m.Commits)
	}
	a.stop()
	wantEqual(t, "out", counts(t, k.all("out")), []string{"a=1@5"})
}

// C131: the metadata of a committed offset is Kafka Streams', byte for byte.
func TestC131_OffsetMetadata(t *testing.T) {
	k := newKafka(t)
	k.topic("in", 2)
	k.topic("out", 1)
	topology := mustBuild(t, func(b *Builder) { From(b, strTopic("in")).To(strTopic("out")) })
	k.produceAt(at(rec("in", "a", "x", 5), 0), at(rec("in", "a", "x", 100), 1))
	a := k.start(topology)
	a.untilDone()
	a.stop()
	for p, want := range map[int32]string{0: "AgAAAAAAAAAF", 1: "AgAAAAAAAABk"} {
		if got := k.committed("app", "in")[p].Metadata; got != want {
			t.Errorf("partition %d: metadata %q, want %q", p, got, want)
		}
	}
}

// C013: a window that has closed stays closed after a restart.
func TestC013_StreamTimeAfterARestart(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprint("state lost ", lost), func(t *testing.T) {
			k := newKafka(t)
			k.topic("in", 1)
			k.topic("out", 1)
			k.topic("late", 1)
			topology := mustBuild(t, func(b *Builder) {
				perTen := From(b, strTopic("in")).GroupByKey().WindowBy(window.Tumbling(10 * time.Millisecond).Grace(0))
				c, late := CountWindows(perTen, As("counts"))
				c.ToStream().To(NewTopic("out", serde.Windowed(serde.String, 10*time.Millisecond), serde.Int64))
				MapValues(late, func(l window.Late[string]) string { return l.Value }).To(strTopic("late"))
			})
			dir := t.TempDir()
			k.produce(rec("in", "a", "x", 1), rec("in", "b", "x", 100))
			a := k.start(topology, StateDir(dir), CacheBytes(0))
			a.untilDone()
			a.stop()
			if lost {
				dir = t.TempDir()
			}
			k.produce(rec("in", "a", "late2", 2), rec("in", "b", "x", 101), rec("in", "a", "late3", 3))
			a = k.start(topology, StateDir(dir), CacheBytes(0))
			a.untilDone()
			a.stop()
			var got []string
			for _, r := range k.all("out") {
				n, err := serde.Int64.Decode(r.Value)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, fmt.Sprintf("%s=%d", r.Key[:1], n))
			}
			wantEqual(t, "out", got, []string{"a=1", "b=1", "b=2"})
			wantEqual(t, "late", values(k.all("late")), []string{"a=late2", "a=late3"})
			if m := k.committed("app", "in")[0].Metadata; !strings.HasPrefix(m, "AgAAAAAAAABl") {
				t.Errorf("the committed metadata %q does not say 101", m)
			}
		})
	}
}

func TestApp_missingTopics(t *testing.T) {
	k := newKafka(t)
	k.topic("here", 1)
	topology := mustBuild(t, func(b *Builder) {
		From(b, NewTopics(serde.String, serde.String, "here", "gone")).To(strTopic("here"))
		From(b, strTopic("away")).To(strTopic("here"))
	})
	err := k.start(topology).fails()
	var missing *MissingTopicsError
	if !errors.As(err, &missing) || len(missing.Topics) != 2 {
		t.Fatalf("error %v", err)
	}
	for _, name := range []string{"gone", "away", "app_cases_test.go:"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("the error does not name %s: %v", name, err)
		}
	}
}

func TestApp_changelogWithOtherPartitions(t *testing.T) {
	k := newKafka(t)
	k.topic("in", 3)
	k.topic("out", 1)
	k.topic("app-counts-changelog", 2)
	err := k.start(countInto(t, "in", "out")).fails()
	for _, part := range []string{"app-counts-changelog", "2 partitions", "needs 3", "reset"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
}

func TestApp_stateDirInUse(t *testing.T) {
	k := newKafka(t)
	k.topic("in", 1)
	k.topic("out", 1)
	dir := t.TempDir()
	a := k.start(countInto(t, "in", "out"), StateDir(dir))
	a.untilRunning()
	err := k.start(countInto(t, "in", "out"), StateDir(dir)).fails()
	if !errors.Is(err, ErrStateDirInUse) || !strings.Contains(err.Error(), filepath.Join(dir, "app")) {
		t.Errorf("error %v", err)
	}
	a.stop()
	k.start(countInto(t, "in", "out"), StateDir(dir)).untilRunning()
}

func TestApp_foreignState(t *testing.T) {
	dir := t.TempDir()
	for i := range 2 {
		t.Run(fmt.Sprint("cluster ", i), func(t *testing.T) {
			k := newKafka(t, kfake.ClusterID(fmt.Sprint("cluster-", i)))
			k.topic("in", 1)
			k.topic("out", 1)
			a := k.start(countInto(t, "in", "out"), StateDir(dir))
			if i == 0 {
				a.untilRunning()
				a.stop()
				return
			}
			if err := a.fails(); !errors.Is(err, ErrForeignState) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestApp_unreachable(t *testing.T) {
	k := newKafka(t)
	addr := k.addr[0]
	k.k.Close()
	topology := mustBuild(t, func(b *Builder) { From(b, strTopic("in")).To(strTopic("out")) })
	began := time.Now()
	err := k.start(topology, FromProperties(map[string]string{"admin.default.api.timeout.ms": "1500"})).fails()
	if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), addr) || !strings.Contains(err.Error(), "within 1.5s (default.api.timeout.ms)") {
		t.Errorf("error %v", err)
	}
	if took := time.Since(began); took < 1500*time.Millisecond || took > 10*time.Second {
		t.Errorf("it waited for %v", took)
	}
}

func TestApp_processingErrors(t *testing.T) {
	topology := func(t *testing.T) *Topology {
		return mustBuild(t, func(b *Builder) {
			MapValues(From(b, strTopic("in")), func(v string) string {
				if v == "bad" {
					panic("no " + v)
				}
				return v
			}, NodeName("shout")).To(strTopic("out"))
		})
	}
	t.Run("fail", func(t *testing.T) {
		k := newKafka(t)
		k.topic("in", 1)
		k.topic("out", 1)
		k.produce(rec("in", "k", "good", 1), rec("in", "k", "bad", 2))
		err := k.start(topology(t)).fails()
		var at *RecordError
		var p *PanicError
		if !errors.As(err, &at) || !errors.As(err, &p) || at.Step != "shout" || at.Origin.Offset != 1 || len(p.Stack) == 0 {
			t.Errorf("error %v", err)
		}
		wantEqual(t, "out", values(k.all("out")), []string{"k=good"})
	})
	t.Run("continue by property", func(t *testing.T) {
		k := newKafka(t)
		k.topic("in", 1)
		k.topic("out", 1)
		k.produce(rec("in", "k", "bad", 1), rec("in", "k", "good", 2))
		a := k.start(topology(t), FromProperties(map[string]string{
			"processing.exception.handler": "org.apache.kafka.streams.errors.LogAndContinueProcessingExceptionHandler",
		}))
		a.untilDone()
		a.stop()
		wantEqual(t, "out", values(k.all("out")), []string{"k=good"})
		if n := a.app.Metrics().Dropped("shout", DroppedProcessing); n != 1 {
			t.Errorf("%d drops", n)
		}
	})
}

// Instances share the tasks; one that stops hands them on, and one that dies is replaced after its session.
func TestApp_threeInstances(t *testing.T) {
	k := newKafka(t)
	k.topic("in", 6)
	k.topic("out", 6)
	topology := countInto(t, "in", "out")
	feed := func(n int) {
		for i := range n {
			k.produce(rec("in", fmt.Sprint("k", i%12), "x", int64(i)))
		}
	}
	opts := []AppOption{CacheBytes(0), SessionTimeout(500 * time.Millisecond)}
	feed(60)
	apps := []*testApp{k.start(topology, opts...), k.start(topology, opts...), k.start(topology, opts...)}
	tasks := func(a *testApp) int { return len(a.app.Metrics().Tasks) }
	for _, a := range apps {
		a.until("each has two tasks", func() bool { return tasks(apps[0]) == 2 && tasks(apps[1]) == 2 && tasks(apps[2]) == 2 })
	}
	feed(60)
	apps[0].untilDone()
	apps[2].stop()
	feed(60)
	apps[0].until("three tasks each", func() bool { return tasks(apps[0]) == 3 && tasks(apps[1]) == 3 })
	apps[0].untilDone()
	apps[1].kill()
	feed(60)
	apps[0].until("all tasks are here", func() bool { return tasks(apps[0]) == 6 })
	apps[0].untilDone()
	apps[0].stop()
	best := make(map[string]int)
	for _, s := range counts(t, k.all("out")) {
		key, n, _ := strings.Cut(s, "=")
		n, _, _ = strings.Cut(n, "@")
		if c, _ := strconv.Atoi(n); c > best[key] {
			best[key] = c
		}
	}
	for i := range 12 {
		if got := best[fmt.Sprint("k", i)]; got < 20 {
			t.Errorf("count of k%d is %d, want at least 20", i, got)
		}
	}
}

// The states come in their order, and restores are told.
func TestApp_listeners(t *testing.T) {
	k := newKafka(t)
	k.topic("in", 1)
	k.topic("out", 1)
	k.produce(rec("in", "k", "x", 1), rec("in", "k", "x", 2))
	topology := countInto(t, "in", "out")
	a := k.start(topology, InMemoryState(), CacheBytes(0))
	a.untilDone()
	a.stop()
	var mu sync.Mutex
	var states []State
	var restores []RestoreProgress
	a = k.start(topology, InMemoryState(), OnState(func(s State) {
		mu.Lock()
		defer mu.Unlock()
		states = append(states, s)
	}), OnRestore(func(p RestoreProgress) {
		mu.Lock()
		defer mu.Unlock()
		restores = append(restores, p)
	}))
	a.untilRunning()
	a.stop()
	mu.Lock()
	defer mu.Unlock()
	if want := []State{Starting, Rebalancing, Running, Draining, Stopped}; !slices.Equal(states, want) {
		t.Errorf("states %v, want %v", states, want)
	}
	if n := len(restores); n == 0 || !restores[n-1].Done || restores[n-1].Records != 2 || restores[n-1].Store != "counts" || restores[n-1].At != 2 {
		t.Errorf("restores %+v", restores)
	}
}
