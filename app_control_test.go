package millrace

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// An App that is paused before it runs takes no record, for longer than max.poll.interval.ms and the session timeout, and stays a
// member of its group with its tasks; another instance gets its share of them and goes on. Then it goes on itself.
func TestApp_pause(t *testing.T) {
	k := newKafka(t)
	k.topic("in", 4)
	k.topic("out", 4)
	topology := countInto(t, "in", "out")
	opts := []AppOption{CacheBytes(0), SessionTimeout(200 * time.Millisecond), FromProperties(map[string]string{"max.poll.interval.ms": "200"})}
	app := func(a *testApp) *App { return a.app }
	paused := make(chan *App, 1)
	a := k.start(topology, append(opts, OnState(func(s State) {
		if s == Starting {
			(<-paused).Pause() // before the first task
		}
	}))...)
	paused <- app(a)
	a.untilRunning()
	for i := range 40 {
		k.produce(rec("in", fmt.Sprint("k", i), "x", int64(i)))
	}
	a.until("records have been fetched", func() bool {
		n := 0
		for _, task := range a.app.Metrics().Tasks {
			for _, in := range task.Inputs {
				n += in.Buffered
			}
		}
		return n == 40
	})
	b := k.start(topology, opts...)
	b.until("it has its share", func() bool { return len(b.app.Metrics().Tasks) == 2 && b.app.State() == Running })
	b.until("it has processed all of it", func() bool {
		lags, err := b.app.Lag(t.Context())
		if err != nil {
			return false
		}
		mine := make(map[int32]bool)
		for _, task := range b.app.Metrics().Tasks {
			mine[task.Task.Partition] = true
		}
		for _, l := range lags {
			if mine[l.Partition] && l.Lag() > 0 {
				return false
			}
		}
		return true
	})
	start := time.Now()
	a.until("the deadlines are long over", func() bool {
		k.produce(rec("in", "more", "x", 100)) // so that something is looked at
		return time.Since(start) > time.Second
	})
	if m := a.app.Metrics(); m.Processed != 0 || m.State != Running || !m.Paused || !a.app.Paused() || len(m.Tasks) != 2 || m.TasksGivenUp != 0 {
		t.Errorf("while paused: %+v", m)
	}
	if a.logged("lost the membership") {
		t.Error("the paused instance was put out of its group")
	}
	a.app.Resume()
	a.untilDone()
	if a.app.Paused() {
		t.Error("it is still paused")
	}
	a.stop()
	b.stop()
	if n := len(k.all("out")); n != len(k.all("in")) {
		t.Errorf("%d results of %d records", n, len(k.all("in")))
	}
}

// The number of workers can be changed before Run and while it runs; nothing moves for that.
func TestApp_setWorkers(t *testing.T) {
	k := newKafka(t)
	k.topic("in", 4)
	k.topic("out", 4)
	var inside atomic.Int32
	var mu sync.Mutex
	gate := make(chan struct{})
	topology := mustBuild(t, func(b *Builder) {
		From(b, strTopic("in")).Peek(func(string, string) {
			inside.Add(1)
			defer inside.Add(-1)
			mu.Lock()
			g := gate
			mu.Unlock()
			<-g
		}, As("wait")).To(strTopic("out"))
	})
	open := func() {
		mu.Lock()
		defer mu.Unlock()
		close(gate)
	}
	shut := func() {
		mu.Lock()
		defer mu.Unlock()
		gate = make(chan struct{})
	}
	a := k.start(topology, Workers(7))
	if err := a.app.SetWorkers(1); err != nil {
		t.Fatal(err)
	}
	defer open()
	a.untilRunning()
	generation := func() int { return a.lines("msg=assigned") }
	before := generation()
	feed := func() {
		for p := range int32(4) {
			k.produceAt(at(rec("in", "k", "x", 1), p))
		}
	}
	for _, n := range []int32{1, 3, 4} {
		if err := a.app.SetWorkers(int(n)); err != nil {
			t.Fatal(err)
		}
		feed()
		a.until(fmt.Sprint(n, " records are inside at once"), func() bool { return inside.Load() == n })
		open()
		a.untilDone()
		shut()
	}
	if n := generation(); n != before {
		t.Errorf("%d assignments for other numbers of workers", n-before)
	}
	var s *SettingError
	if err := a.app.SetWorkers(-1); !errors.As(err, &s) || s.Name != "num.stream.threads" || !strings.Contains(err.Error(), "num.stream.threads (millrace.Workers) = ") {
		t.Errorf("SetWorkers(-1): %v", err)
	}
	open()
	a.stop()
	shut()
}
