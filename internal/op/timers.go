package op

import (
	"container/heap"
	"fmt"
	"math"
	"time"

	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/internal/millis"
	"github.com/millrace-io/millrace/processor"
)

// timer is one schedule of a step.
type timer struct {
	id         int // order of creation: ties fire in it
	step       string
	guard      guard
	nextMs     int64
	intervalMs int64
	fn         func(time.Time) error
	cancelled  bool
}

// timerQueue is a heap by (time, id).
type timerQueue []*timer

func (q timerQueue) Len() int { return len(q) }
func (q timerQueue) Less(i, j int) bool {
	if q[i].nextMs != q[j].nextMs {
		return q[i].nextMs < q[j].nextMs
	}
	return q[i].id < q[j].id
}
func (q timerQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *timerQueue) Push(x any)   { *q = append(*q, x.(*timer)) }
func (q *timerQueue) Pop() any {
	old := *q
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return t
}

type timers struct {
	next   int
	stream timerQueue
	wall   timerQueue
}

// schedule sets a timer of a step. In stream time its grid starts at 0, so the first known time is always due; by the wall
// clock it starts now, with the first beat after one interval.
func (e *Env) schedule(step string, interval time.Duration, kind processor.TimeKind, fn func(time.Time) error) (processor.Cancel, error) {
	firstMs := int64(0)
	if kind != processor.StreamTime {
		firstMs = e.NowMs() + interval.Milliseconds()
	}
	return e.startTimer(step, firstMs, interval, kind, fn)
}

// scheduleAt sets a timer whose grid starts at a time. If that is past, the first beat is the next on the grid.
func (e *Env) scheduleAt(step string, start time.Time, interval time.Duration, kind processor.TimeKind, fn func(time.Time) error) (processor.Cancel, error) {
	firstMs, nowMs := start.UnixMilli(), e.StreamTimeMs
	if kind != processor.StreamTime {
		nowMs = e.NowMs()
	}
	if ms := interval.Milliseconds(); firstMs < nowMs && ms > 0 {
		firstMs, _ = nextBeat(firstMs, nowMs, ms)
	}
	return e.startTimer(step, firstMs, interval, kind, fn)
}

func (e *Env) startTimer(step string, firstMs int64, interval time.Duration, kind processor.TimeKind, fn func(time.Time) error) (processor.Cancel, error) {
	if e.global {
		return nil, e.refuseGlobalTimer(step, interval)
	}
	ms := interval.Milliseconds()
	if ms < 1 {
		return nil, fmt.Errorf("millrace: step %s: the interval of a timer must be at least a millisecond, not %s", step, interval)
	}
	t := &timer{id: e.timers.next, step: step, guard: newGuard(e, step), nextMs: firstMs, intervalMs: ms, fn: fn}
	t.guard.dropped = e.counter(step, metrics.Processing)
	e.timers.next++
	if kind == processor.StreamTime {
		heap.Push(&e.timers.stream, t)
	} else {
		heap.Push(&e.timers.wall, t)
	}
	return func() { t.cancelled = true }, nil
}

// FireStreamTimers calls the timers that the task's stream time has reached.
func (e *Env) FireStreamTimers() (fired bool, err error) {
	if e.StreamTimeMs < 0 {
		return false, nil
	}
	return e.fire(&e.timers.stream, e.StreamTimeMs)
}

// FireWallTimers calls the timers that the wall clock has reached.
func (e *Env) FireWallTimers(nowMs int64) (fired bool, err error) {
	return e.fire(&e.timers.wall, nowMs)
}

// NextWallTimerMs is when the next wall-clock timer is due; ok is false if there is none.
func (e *Env) NextWallTimerMs() (ms int64, ok bool) {
	for len(e.timers.wall) > 0 && e.timers.wall[0].cancelled {
		heap.Pop(&e.timers.wall)
	}
	if len(e.timers.wall) == 0 {
		return 0, false
	}
	return e.timers.wall[0].nextMs, true
}

func (e *Env) fire(q *timerQueue, nowMs int64) (fired bool, err error) {
	for len(*q) > 0 && (*q)[0].nextMs <= nowMs {
		t := heap.Pop(q).(*timer)
		if t.cancelled {
			continue
		}
		fired = true
		if err := e.call(t, nowMs); err != nil {
			return fired, err
		}
		if t.cancelled {
			continue
		}
		// Beats that were missed are skipped; the next one stays on the grid.
		var more bool
		if t.nextMs, more = nextBeat(t.nextMs, nowMs, t.intervalMs); more {
			heap.Push(q, t)
		}
	}
	return fired, nil
}

// nextBeat is the first beat of a grid behind a time that it has reached. There is none behind the end of time, which a record
// can bring: more is false then.
func nextBeat(beatMs, nowMs, intervalMs int64) (ms int64, more bool) {
	passed := (uint64(nowMs) - uint64(beatMs)) % uint64(intervalMs) // the difference may be above the largest int64
	leftMs := intervalMs - int64(passed)
	return millis.Add(nowMs, leftMs), nowMs <= math.MaxInt64-leftMs
}

func (e *Env) call(t *timer, nowMs int64) error {
	saved := e.cur
	defer func() { e.cur = saved }()
	for attempt := 1; ; attempt++ {
		e.SetTimer(nowMs)
		err := t.call(nowMs)
		if err == nil {
			return nil
		}
		if retry, err := t.guard.failed(err, attempt); !retry {
			return err
		}
	}
}

func (t *timer) call(nowMs int64) (err error) {
	defer recovered(&err)
	return t.fn(time.UnixMilli(nowMs).UTC())
}
