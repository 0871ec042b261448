package millrace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-io/millrace/internal/runtime"
	"github.com/millrace-io/millrace/serde"
)

// quickRetries shortens the pauses before a task is tried again.
func quickRetries() AppOption {
	return tuned(func(c *runtime.RunnerConfig) { c.Settings.BackoffMs, c.Settings.BackoffMaxMs = 5, 20 })
}

var errPoison = errors.New("this value is poison")

// counted counts in into out, and fails on values "poison" for as long as bad says so.
func counted(t *testing.T, bad *atomic.Bool) *Topology {
	return mustBuild(t, func(b *Builder) {
		s := TryMapValues(From(b, strTopic("in")), func(_ context.Context, v string) (string, error) {
			if v == "poison" && bad.Load() {
				return "", errPoison
			}
			return v, nil
		}, As("check"))
		Count(s.GroupByKey(), As("counts")).ToStream().To(NewTopic("out", serde.String, serde.Int64))
	})
}

// A record that fails ten times costs its own task some pauses; the other task goes on meanwhile. When it is good the task goes
// on, and under exactly-once each result is there once.
func TestApp_replacedTask(t *testing.T) {
	k := newKafka(t)
	k.topic("in", 2)
	k.topic("out", 2)
	var bad atomic.Bool
	bad.Store(true)
	var times atomic.Int64
	a := k.start(counted(t, &bad), Guarantee(ExactlyOnceV2), CacheBytes(0), quickRetries(), OnUncaughtError(func(u UncaughtError) UncaughtAction {
		var at *RecordError
		if !errors.Is(u.Err, errPoison) || !errors.As(u.Err, &at) || at.Step != "check" || at.Origin.Topic != "in" || at.Origin.Partition != 1 ||
			at.Origin.Offset != 1 || u.Task.Partition != 1 {
			t.Errorf("asked about %v", u)
		}
		times.Store(int64(u.Times))
		return ReplaceTask
	}))
	a.untilRunning()
	k.produceAt(at(rec("in", "p", "1", 1), 1), at(rec("in", "p", "poison", 2), 1), at(rec("in", "p", "3", 3), 1))
	for i := 0; times.Load() < 10; i++ {
		// Whatever the failing task does, these come through.
		k.produceAt(at(rec("in", "q", fmt.Sprint(i), int64(i)), 0))
		a.until("the other task has committed", func() bool { return k.committed("app", "in")[0].At > int64(i) })
	}
	if n := a.app.Metrics().TasksReplaced; n < 9 {
		t.Errorf("%d tasks counted as replaced", n)
	}
	bad.Store(false)
	a.untilDone()
	a.stop()
	var p []string
	for _, s := range counts(t, k.committedRecords("out")) {
		if strings.HasPrefix(s, "p=") {
			p = append(p, s)
		}
	}
	slices.Sort(p)
	wantEqual(t, "results of the failing task", p, []string{"p=1@1", "p=2@2", "p=3@3"})
}

// One instance asks for the end of the application, and all instances stop: Run of the one returns what has failed, that of the
// others who has asked for it and why. What others had done is committed. The application starts again as ever.
func TestApp_stopApplication(t *testing.T) {
	k := newKafka(t)
	k.topic("in", 6)
	k.topic("out", 6)
	var bad atomic.Bool
	bad.Store(true)
	topology := counted(t, &bad)
	policy := OnUncaughtError(func(UncaughtError) UncaughtAction { return StopApplication })
	all := []*testApp{k.start(topology, policy), k.start(topology, policy), k.start(topology, policy)}
	for _, a := range all {
		a.until("it has its share", func() bool { return len(a.app.Metrics().Tasks) == 2 && a.app.State() == Running })
	}
	var fed []*kgo.Record
	for p := range int32(6) {
		fed = append(fed, at(rec("in", "k", "1", 1), p))
	}
	k.produceAt(fed...)
	for _, a := range all {
		a.untilDone()
	}
	k.produceAt(at(rec("in", "k", "poison", 2), 3))
	asked := 0
	for _, a := range all {
		err := a.fails()
		switch {
		case errors.Is(err, ErrApplicationStopped):
			if !strings.Contains(err.Error(), errPoison.Error()) || !strings.Contains(err.Error(), "in-3@1") || !strings.Contains(err.Error(), "member ") {
				t.Errorf("told to stop by %v", err)
			}
		case errors.Is(err, errPoison):
			asked++
		default:
			t.Errorf("ended with %v", err)
		}
	}
	if asked != 1 {
		t.Errorf("%d instances have asked", asked)
	}
	if members := k.k.GroupInfo("app").Members; len(members) != 0 {
		t.Errorf("members are left in the group: %v", members)
	}
	bad.Store(false)
	b := k.start(topology, policy)
	b.untilDone()
	b.stop()
}

// Without a policy, and where it panics, the instance stops.
func TestApp_policyThatPanics(t *testing.T) {
	k := newKafka(t)
	k.topic("in", 1)
	k.topic("out", 1)
	var bad atomic.Bool
	bad.Store(true)
	a := k.start(counted(t, &bad), OnUncaughtError(func(UncaughtError) UncaughtAction { panic("what now?") }))
	k.produce(rec("in", "k", "poison", 1))
	err := a.fails()
	var p *PanicError
	if !errors.Is(err, errPoison) || !errors.As(err, &p) || p.Value != "what now?" {
		t.Errorf("ended with %v", err)
	}
}
