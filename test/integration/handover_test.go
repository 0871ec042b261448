package integration_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-io/millrace"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// Input that comes in while tasks move and their stores are restored is not lost. Each hand-over is a clean one, so the
// counts are exact although at-least-once does not promise that.
func TestC076_InputThatArrivesWhileRestoring(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		const keys, total = 20, 3000
		app := b.Name("c076")
		topics := childTopics{In: kafkatest.CreateTopic(t, b, "in", 10), Out: kafkatest.CreateTopic(t, b, "out", 1)}
		first := startKind(t, b, app, "count", topics, millrace.CacheBytes(0))

		// feed writes records up to a number, never more than 100 ahead of what is committed.
		fed := 0
		feed := func(to int) <-chan error {
			done := make(chan error, 1)
			go func() {
				for ; fed < to; fed += keys {
					var round []*kgo.Record
					for i := fed; i < fed+keys; i++ {
						round = append(round, at(fmt.Sprint("k", i%keys), "x", int64(i)))
					}
					if err := kafkatest.Write(t.Context(), b, topics.In, slices.Values(round)); err != nil {
						done <- err
						return
					}
					if err := lagBelow(t.Context(), first.app, 100); err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
			return done
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(<-feed(1000))
		feeding := feed(2000)
		second := startKind(t, b, app, "count", topics, millrace.CacheBytes(0))
		second.until("half of the tasks run at the second", func() bool { return runningTasks(second.app) == 5 })
		must(<-feeding)
		if n := second.app.Metrics().Processed; n == 0 {
			t.Error("the second has processed nothing")
		}
		feeding = feed(total)
		second.stop()
		must(<-feeding)
		first.untilDone()
		first.stop()

		got := highest(t, kafkatest.ReadAll(t, b, topics.Out, kafkatest.Committed))
		for i := range keys {
			if key := fmt.Sprint("k", i); got[key] != total/keys {
				t.Errorf("the count of %s is %d, want %d", key, got[key], total/keys)
			}
		}
	})
}

// lagBelow waits until no more than n records are not committed.
func lagBelow(ctx context.Context, app *millrace.App, n int64) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		lags, err := app.Lag(ctx)
		if err == nil && lags.Total() <= n {
			return nil
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("the lag of %d does not fall to %d: %w (%w)", lags.Total(), n, ctx.Err(), err)
		}
	}
}

func runningTasks(app *millrace.App) (n int) {
	for _, task := range app.Metrics().Tasks {
		if task.Phase == "running" {
			n++
		}
	}
	return n
}

// seen notes the values that an instance has processed.
type seen struct {
	mu     sync.Mutex
	values map[string]int
}

func (s *seen) note(_, v string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.values == nil {
		s.values = make(map[string]int)
	}
	s.values[v]++
}

func (s *seen) times(v string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values[v]
}

// What was processed and not committed is committed before it is given away: its next owner processes none of it again.
func TestC098_CleanHandOver(t *testing.T) {
	t.Parallel()
	eachProtocol(t, func(t *testing.T, b kafkatest.Broker, p millrace.GroupProtocolKind) {
		app := b.Name("c098")
		in, out := kafkatest.CreateTopic(t, b, "in", 4), kafkatest.CreateTopic(t, b, "out", 4)
		instance := func() (*running, *seen) {
			s := &seen{}
			bld := millrace.NewBuilder()
			millrace.From(bld, texts(in)).Peek(s.note).To(texts(out))
			return start(t, b, app, buildTopology(t, bld), millrace.CommitInterval(time.Minute), millrace.GroupProtocol(p)), s
		}
		first, seen1 := instance()
		kafkatest.Load(t, b, in, numbered("old", 100)...)
		readN(t, b, out, 100)
		if o := kafkatest.GroupOffsets(t, b, app); len(o) != 0 {
			t.Fatalf("committed before the time: %v", o)
		}
		second, seen2 := instance()
		second.until("half of the tasks run at the second", func() bool { return runningTasks(second.app) == 2 })
		kafkatest.Load(t, b, in, numbered("new", 100)...)
		readN(t, b, out, 200)
		first.stop()
		second.stop()
		if n := len(kafkatest.ReadAll(t, b, out, kafkatest.Committed)); n != 200 {
			t.Errorf("%d records were written, want 200", n)
		}
		some := false
		for i := range 100 {
			if v := fmt.Sprint("old-", i); seen1.times(v) != 1 || seen2.times(v) != 0 {
				t.Errorf("%s was processed %d times by the first and %d times by the second", v, seen1.times(v), seen2.times(v))
			}
			v := fmt.Sprint("new-", i)
			if n := seen1.times(v) + seen2.times(v); n != 1 {
				t.Errorf("%s was processed %d times", v, n)
			}
			some = some || seen2.times(v) > 0
		}
		if !some {
			t.Error("the second has processed nothing of its partitions")
		}
	})
}

// After a SIGKILL what was not committed is processed again, and nothing is lost.
func TestC098_KilledInsteadOfStopped(t *testing.T) {
	t.Parallel()
	eachProtocol(t, func(t *testing.T, b kafkatest.Broker, p millrace.GroupProtocolKind) {
		app := b.Name("c098")
		topics := childTopics{In: kafkatest.CreateTopic(t, b, "in", 4), Out: kafkatest.CreateTopic(t, b, "out", 4)}
		first := startChild(t, "killed", childSpec{Topology: "copy", Topics: topics, Settings: map[string]string{
			"application.id": app, "bootstrap.servers": strings.Join(b.Bootstrap(), ","), "commit.interval.ms": "60000",
			"session.timeout.ms": shortSession, "group.protocol": p.String(),
		}})
		kafkatest.Load(t, b, topics.In, numbered("old", 100)...)
		readN(t, b, topics.Out, 100)
		first.Kill()
		second := startKind(t, b, app, "copy", topics, millrace.GroupProtocol(p))
		kafkatest.Load(t, b, topics.In, numbered("new", 100)...)
		awaitCommitted(t, b, app, topics.In, 200)
		second.stop()
		times := make(map[string]int)
		for _, r := range kafkatest.ReadAll(t, b, topics.Out, kafkatest.Committed) {
			times[string(r.Value)]++
		}
		for _, r := range slices.Concat(numbered("old", 100), numbered("new", 100)) {
			// Nothing of the first was committed, so all of it is there twice: once would mean that the test is none.
			want := 1
			if strings.HasPrefix(string(r.Value), "old") {
				want = 2
			}
			if n := times[string(r.Value)]; n != want {
				t.Errorf("%s was written %d times, want %d", r.Value, n, want)
			}
		}
	})
}

// numbered makes records of as many keys, with values "what-0", "what-1" and so on.
func numbered(what string, n int) []*kgo.Record {
	var out []*kgo.Record
	for i := range n {
		out = append(out, at(fmt.Sprint("k", i), fmt.Sprint(what, "-", i), int64(i)))
	}
	return out
}
