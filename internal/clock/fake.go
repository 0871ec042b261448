package clock

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Fake is a clock that stands still until a test moves it. Timers fire inside Advance, in the order of their time, and of
// their making where two have the same.
type Fake struct {
	mu      sync.Mutex
	now     time.Time
	nextID  uint64
	set     []*fakeTimer // the timers that are set, in no order: there are few
	blocked []blocked    // who waits for a number of timers
}

type blocked struct {
	timers int
	ready  chan struct{}
}

var _ Clock = (*Fake)(nil)

// NewFake returns a clock that stands at start.
func NewFake(start time.Time) *Fake { return &Fake{now: start} }

// Now returns the time at which the clock stands.
func (f *Fake) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// NowMs returns Now in milliseconds since the Unix epoch.
func (f *Fake) NowMs() int64 { return f.Now().UnixMilli() }

// NewTimer returns a timer that fires when the clock is moved by d or more. One that is not above zero has fired when
// NewTimer returns.
func (f *Fake) NewTimer(d time.Duration) Timer {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := &fakeTimer{clock: f, c: make(chan time.Time, 1), id: f.nextID}
	f.nextID++
	f.start(t, d)
	return t
}

// Advance moves the clock forward by d and fires each timer that becomes due, each with its own time. The move is one step
// for everybody else: who receives finds the clock at its new time, and a timer set then counts from there, so a loop that
// sets its timer anew fires once in a call, however far the call goes. Advance does not wait for those who receive. A test
// that needs them to be done waits for a signal of theirs, or with BlockUntil for their next timer. Moving back is refused,
// since no timer would know what to do.
func (f *Fake) Advance(d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("clock: cannot advance by %v", d)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	end := f.now.Add(d)
	for {
		t := f.due(end)
		if t == nil {
			break
		}
		if t.at.After(f.now) {
			f.now = t.at
		}
		f.fire(t)
	}
	f.now = end
	return nil
}

// AdvanceTo moves the clock forward to t, as Advance does.
func (f *Fake) AdvanceTo(t time.Time) error { return f.Advance(t.Sub(f.Now())) }

// BlockUntil returns once at least n timers are set and have not fired, or when ctx ends, with its error then. With it a
// test knows that the goroutines it watches wait, and that it may move the clock.
func (f *Fake) BlockUntil(ctx context.Context, n int) error {
	f.mu.Lock()
	if len(f.set) >= n {
		f.mu.Unlock()
		return nil
	}
	ready := make(chan struct{})
	f.blocked = append(f.blocked, blocked{timers: n, ready: ready})
	f.mu.Unlock()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		f.mu.Lock()
		defer f.mu.Unlock()
		f.blocked = slices.DeleteFunc(f.blocked, func(b blocked) bool { return b.ready == ready })
		return fmt.Errorf("clock: waiting for %d timers, %d are set: %w", n, len(f.set), context.Cause(ctx))
	}
}

// NextTimer returns when the earliest timer that is set will fire; ok is false if none is.
func (f *Fake) NextTimer() (at time.Time, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.earliest()
	if t == nil {
		return time.Time{}, false
	}
	return t.at, true
}

// start sets t, or fires it at once.
func (f *Fake) start(t *fakeTimer, d time.Duration) {
	t.at = f.now.Add(d)
	f.set = append(f.set, t)
	if d <= 0 {
		f.fire(t)
		return
	}
	f.blocked = slices.DeleteFunc(f.blocked, func(b blocked) bool {
		if len(f.set) < b.timers {
			return false
		}
		close(b.ready)
		return true
	})
}

// unset takes t out of the set and returns whether it was there.
func (f *Fake) unset(t *fakeTimer) bool {
	for i, x := range f.set {
		if x == t {
			last := len(f.set) - 1
			f.set[i], f.set[last] = f.set[last], nil
			f.set = f.set[:last]
			return true
		}
	}
	return false
}

// fire unsets t and sends the time. The channel is empty: Reset and Stop drain it.
func (f *Fake) fire(t *fakeTimer) {
	f.unset(t)
	t.c <- f.now
}

// due returns the earliest timer at or before end.
func (f *Fake) due(end time.Time) *fakeTimer {
	if t := f.earliest(); t != nil && !t.at.After(end) {
		return t
	}
	return nil
}

func (f *Fake) earliest() *fakeTimer {
	var first *fakeTimer
	for _, t := range f.set {
		if first == nil || t.at.Before(first.at) || t.at.Equal(first.at) && t.id < first.id {
			first = t
		}
	}
	return first
}

type fakeTimer struct {
	clock *Fake
	c     chan time.Time
	id    uint64
	at    time.Time
}

func (t *fakeTimer) C() <-chan time.Time { return t.c }

func (t *fakeTimer) Reset(d time.Duration) bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	was := t.stop()
	// A timer that is set again comes behind those that were set before.
	t.id = t.clock.nextID
	t.clock.nextID++
	t.clock.start(t, d)
	return was
}

func (t *fakeTimer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	return t.stop()
}

func (t *fakeTimer) stop() bool {
	was := t.clock.unset(t)
	select {
	case <-t.c:
		// Fired and not received: the standard library counts such a timer as not fired yet, since nobody has seen it.
		was = true
	default:
	}
	return was
}
