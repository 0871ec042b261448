package metrics

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/millrace-io/millrace/processor"
)

func id(sub int, p int32) processor.TaskID {
	return processor.TaskID{Subtopology: sub, Partition: p}
}

func TestRegistry_sumsOverTasks(t *testing.T) {
	r := New()
	a, b := r.Task(id(0, 0)), r.Task(id(0, 1))
	a.Dropped("count", NullKey, "").Inc()
	b.Dropped("count", NullKey, "").Add(2)
	b.Dropped("in", Deserialization, "orders").Inc()
	b.Dropped("in", Deserialization, "orders-eu").Inc()
	r.Dropped("global", NullKey).Inc()
	r.Dropped("in", DeadLetter).Inc()
	r.Counter(RecordsProcessed, id(0, 0)).Add(10)
	b.Counter(RecordsProcessed).Add(5)
	r.Total(Commits).Inc()
	a.Gauge(Lag).Set(7)
	b.Gauge(Lag).Set(3)
	a.Gauge(StreamTimeMs).Set(700)
	b.Gauge(StreamTimeMs).Set(300)
	r.Gauge(CacheBytes).Add(5)

	s := r.Snapshot()
	want := Snapshot{
		Drops: []Drop{
			{Step: "count", Reason: NullKey, Count: 3},
			{Step: "global", Reason: NullKey, Count: 1},
			{Step: "in", Reason: DeadLetter, Count: 1},
			{Step: "in", Reason: Deserialization, Topic: "orders", Count: 1},
			{Step: "in", Reason: Deserialization, Topic: "orders-eu", Count: 1},
		},
		Counters: []Value{{Commits, 1}, {RecordsProcessed, 15}},
		Gauges:   []Value{{CacheBytes, 5}, {Lag, 10}, {StreamTimeMs, 300}},
		Tasks: []TaskSnapshot{
			{Task: id(0, 0), Drops: []Drop{{Step: "count", Reason: NullKey, Count: 1}}, Counters: []Value{{RecordsProcessed, 10}},
				Gauges: []Value{{Lag, 7}, {StreamTimeMs, 700}}},
			{Task: id(0, 1), Drops: []Drop{
				{Step: "count", Reason: NullKey, Count: 2},
				{Step: "in", Reason: Deserialization, Topic: "orders", Count: 1},
				{Step: "in", Reason: Deserialization, Topic: "orders-eu", Count: 1},
			}, Counters: []Value{{RecordsProcessed, 5}}, Gauges: []Value{{Lag, 3}, {StreamTimeMs, 300}}},
		},
	}
	if d := cmp.Diff(want, s); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for name, tc := range map[string][2]int64{
		"of a step":   {s.Dropped("in", Deserialization), 2},
		"of a reason": {s.ByReason(NullKey), 4},
		"of all":      {s.TotalDropped(), 6}, // the dead letter is a note
		"nothing":     {s.Dropped("nobody", Late), 0},
		"a counter":   {s.Counter(RecordsProcessed), 15},
		"no counter":  {s.Counter(TimersFired), 0},
		"a gauge":     {s.Gauge(Lag), 10},
	} {
		if tc[0] != tc[1] {
			t.Errorf("%s: %d, want %d", name, tc[0], tc[1])
		}
	}
}

func TestRegistry_handlesAreTheSame(t *testing.T) {
	r := New()
	task := r.Task(id(1, 2))
	late := r.Dropped("a", Late)
	if task != r.Task(id(1, 2)) || task.ID() != id(1, 2) || task.Counter(RecordsProcessed) != r.Counter(RecordsProcessed, id(1, 2)) ||
		late != r.Dropped("a", Late) || late == r.Dropped("b", Late) || r.Total(Commits) == r.Counter(Commits, id(1, 2)) {
		t.Error("two handles of one counter differ, or those of two are one")
	}
}

func TestTask_closeKeepsCounts(t *testing.T) {
	r := New()
	old := r.Task(id(0, 0))
	old.Counter(RecordsProcessed).Add(10)
	old.Dropped("count", Late, "").Add(4)
	old.Gauge(Lag).Set(99)
	old.Close()
	old.Close()
	again := r.Task(id(0, 0))
	again.Counter(RecordsProcessed).Add(1)
	old.Close() // the task that was closed, not the one that took its place
	s := r.Snapshot()
	if s.Counter(RecordsProcessed) != 11 || s.Dropped("count", Late) != 4 || s.Gauge(Lag) != 0 || len(s.Tasks) != 1 || s.Tasks[0].Counters[0].Value != 1 {
		t.Errorf("%+v", s)
	}
}

// Whatever tasks do, and however often they are closed and opened in between, the sums are those of all that was counted.
func TestRegistry_losesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := New()
		want := make(map[string]int64)
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			task := r.Task(id(rapid.IntRange(0, 2).Draw(t, "sub"), int32(rapid.IntRange(0, 2).Draw(t, "partition"))))
			if rapid.IntRange(0, 4).Draw(t, "close") == 0 {
				task.Close()
				continue
			}
			reason := rapid.SampledFrom(Reasons()).Draw(t, "reason")
			step := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "step")
			n := rapid.Int64Range(0, 5).Draw(t, "n")
			task.Dropped(step, reason, "").Add(n)
			want[step+string(reason)] += n
		}
		s := r.Snapshot()
		for _, step := range []string{"a", "b"} {
			for _, reason := range Reasons() {
				if got := s.Dropped(step, reason); got != want[step+string(reason)] {
					t.Fatalf("%s %s: %d, want %d", step, reason, got, want[step+string(reason)])
				}
			}
		}
		if d := cmp.Diff(s, r.Snapshot()); d != "" {
			t.Fatalf("two snapshots differ:\n%s", d)
		}
	})
}

func TestRegistry_concurrentUse(t *testing.T) {
	r := New()
	const workers, rounds, each = 8, 50, 100
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for range rounds {
				task := r.Task(id(0, int32(w)))
				c, d := task.Counter(RecordsProcessed), task.Dropped("s", Late, "")
				for range each {
					c.Inc()
					d.Inc()
					r.Dropped("shared", NullKey).Inc()
				}
				if s := r.Snapshot(); s.Counter(RecordsProcessed) > workers*rounds*each {
					t.Errorf("%d records were counted twice", s.Counter(RecordsProcessed)-workers*rounds*each)
				}
				task.Close()
			}
		})
	}
	wg.Wait()
	s := r.Snapshot()
	if n := s.Counter(RecordsProcessed); n != workers*rounds*each || s.ByReason(Late) != n || s.ByReason(NullKey) != n {
		t.Errorf("%d processed, %d late, %d without a key, want %d of each", n, s.ByReason(Late), s.ByReason(NullKey), workers*rounds*each)
	}
}

func TestReasons_areDistinct(t *testing.T) {
	seen := make(map[Reason]bool)
	for _, r := range Reasons() {
		if r == "" || seen[r] {
			t.Errorf("reason %q is empty or not the only one", r)
		}
		seen[r] = true
	}
	if DeadLetter.IsDrop() || !Late.IsDrop() {
		t.Error("a dead letter counts as a drop, or a late record does not")
	}
}

func TestCounter_doesNotAllocate(t *testing.T) {
	task := New().Task(id(0, 0))
	c, g := task.Counter(RecordsProcessed), task.Gauge(Lag)
	if n := testing.AllocsPerRun(100, func() { c.Inc(); c.Add(2); g.Set(3) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkCounter(b *testing.B) {
	b.Run("inc", func(b *testing.B) {
		c := New().Task(id(0, 0)).Counter(RecordsProcessed)
		for b.Loop() {
			c.Inc()
		}
	})
	b.Run("tasks side by side", func(b *testing.B) {
		r := New()
		var next sync.Mutex
		n := int32(0)
		b.RunParallel(func(pb *testing.PB) {
			next.Lock()
			n++
			c := r.Task(id(0, n)).Counter(RecordsProcessed)
			next.Unlock()
			for pb.Next() {
				c.Inc()
			}
		})
	})
	b.Run("one counter for all", func(b *testing.B) {
		c := New().Dropped("s", NullKey)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				c.Inc()
			}
		})
	})
}

func ExampleRegistry() {
	r := New()
	late := r.Task(processor.TaskID{}).Dropped("clicks-per-minute", Late, "")
	late.Inc()
	late.Inc()
	fmt.Println(r.Snapshot().Dropped("clicks-per-minute", Late))
	// Output: 2
}
