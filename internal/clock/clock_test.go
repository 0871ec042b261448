package clock

import (
	"context"
	"errors"
	"testing"
	"time"
)

var start = time.Date(2026, 7, 14, 22, 30, 0, 0, time.UTC)

func advance(t *testing.T, f *Fake, d time.Duration) {
	t.Helper()
	if err := f.Advance(d); err != nil {
		t.Fatal(err)
	}
}

// received returns what is on the timer's channel, and false if nothing is.
func received(timer Timer) (time.Time, bool) {
	select {
	case at := <-timer.C():
		return at, true
	default:
		return time.Time{}, false
	}
}

func wantFired(t *testing.T, timer Timer, after time.Duration) {
	t.Helper()
	at, ok := received(timer)
	if !ok {
		t.Errorf("has not fired, want at %v", after)
	} else if !at.Equal(start.Add(after)) {
		t.Errorf("fired at %v, want at %v", at.Sub(start), after)
	}
}

func wantSilent(t *testing.T, timer Timer) {
	t.Helper()
	if at, ok := received(timer); ok {
		t.Errorf("fired at %v", at.Sub(start))
	}
}

func TestFake_standsUntilMoved(t *testing.T) {
	f := NewFake(start)
	if !f.Now().Equal(start) || f.NowMs() != start.UnixMilli() {
		t.Errorf("%v, %d", f.Now(), f.NowMs())
	}
	advance(t, f, 1500*time.Millisecond)
	if want := start.Add(1500 * time.Millisecond); !f.Now().Equal(want) || f.NowMs() != want.UnixMilli() {
		t.Errorf("%v, %d", f.Now(), f.NowMs())
	}
	if err := f.AdvanceTo(start.Add(time.Hour)); err != nil || !f.Now().Equal(start.Add(time.Hour)) {
		t.Errorf("%v, %v", f.Now(), err)
	}
	if err := f.Advance(-time.Nanosecond); err == nil {
		t.Error("moved back")
	}
	if err := f.AdvanceTo(start); err == nil {
		t.Error("moved back")
	}
	if !f.Now().Equal(start.Add(time.Hour)) {
		t.Errorf("a refused move moved the clock to %v", f.Now())
	}
}

func TestFake_timerFiresOnceWhenDue(t *testing.T) {
	f := NewFake(start)
	timer := f.NewTimer(10 * time.Second)
	advance(t, f, 10*time.Second-1)
	wantSilent(t, timer)
	advance(t, f, 1)
	wantFired(t, timer, 10*time.Second)
	advance(t, f, time.Hour)
	wantSilent(t, timer)
}

func TestFake_timerThatIsDueAtOnce(t *testing.T) {
	f := NewFake(start)
	for _, d := range []time.Duration{0, -time.Second} {
		timer := f.NewTimer(d)
		wantFired(t, timer, 0)
		timer.Reset(d)
		wantFired(t, timer, 0)
	}
}

// The earliest timer is chosen by time, then by the order in which the timers were set.
func TestFake_firesByTimeThenBySetting(t *testing.T) {
	f := NewFake(start)
	a, b, c := f.NewTimer(time.Second), f.NewTimer(time.Second), f.NewTimer(time.Millisecond)
	take := func(want Timer, name string) {
		t.Helper()
		f.mu.Lock()
		defer f.mu.Unlock()
		got := f.earliest()
		if Timer(got) != want {
			t.Errorf("not %s is the earliest", name)
		}
		f.unset(got)
	}
	take(c, "c")
	a.Reset(time.Second)
	take(b, "b")
	take(a, "a")
	if f.earliest() != nil {
		t.Error("a timer is left")
	}
}

func TestFake_eachTimerFiresWithItsOwnTime(t *testing.T) {
	f := NewFake(start)
	a, b, late := f.NewTimer(3*time.Second), f.NewTimer(time.Second), f.NewTimer(time.Minute)
	advance(t, f, 10*time.Second)
	wantFired(t, a, 3*time.Second)
	wantFired(t, b, time.Second)
	wantSilent(t, late)
	if at, ok := f.NextTimer(); !ok || !at.Equal(start.Add(time.Minute)) {
		t.Errorf("next timer %v, %v", at, ok)
	}
	late.Stop()
	if at, ok := f.NextTimer(); ok {
		t.Errorf("a timer is left at %v", at)
	}
}

// stopAndReset is what the engine relies on; the clock of the machine must do the same.
func stopAndReset(t *testing.T, c Clock, pass func(d time.Duration)) {
	t.Helper()
	timer := c.NewTimer(time.Hour)
	if !timer.Stop() {
		t.Error("Stop of a timer that was set says it was not")
	}
	if timer.Stop() {
		t.Error("Stop of a stopped timer says it was set")
	}
	if timer.Reset(time.Hour) {
		t.Error("Reset of a stopped timer says it was set")
	}
	if !timer.Reset(time.Millisecond) {
		t.Error("Reset of a timer that was set says it was not")
	}
	pass(2 * time.Millisecond)
	// Fired and not received: a new setting takes the old time back.
	timer.Reset(time.Hour)
	wantSilent(t, timer)
	timer.Reset(time.Millisecond)
	pass(2 * time.Millisecond)
	if !timer.Stop() {
		t.Error("Stop of a timer whose time was not received says it was not set")
	}
	wantSilent(t, timer)
	timer.Reset(time.Millisecond)
	pass(2 * time.Millisecond)
	<-timer.C()
	if timer.Stop() {
		t.Error("Stop of a timer whose time was received says it was set")
	}
}

func TestFake_stopAndReset(t *testing.T) {
	f := NewFake(start)
	stopAndReset(t, f, func(d time.Duration) { advance(t, f, d) })
}

func TestSystem_stopAndReset(t *testing.T) {
	c := System()
	stopAndReset(t, c, func(d time.Duration) { <-c.NewTimer(d).C() })
}

func TestSystem_now(t *testing.T) {
	c := System()
	before := time.Now()
	now, nowMs := c.Now(), c.NowMs()
	after := time.Now()
	if now.Before(before) || now.After(after) || nowMs < before.UnixMilli() || nowMs > after.UnixMilli() {
		t.Errorf("%v and %d are not between %v and %v", now, nowMs, before, after)
	}
}

func TestFake_BlockUntil(t *testing.T) {
	f := NewFake(start)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	done := make(chan int)
	for i := range 3 {
		go func() {
			timer := f.NewTimer(time.Duration(i+1) * time.Second)
			<-timer.C()
			done <- i
		}()
	}
	if err := f.BlockUntil(ctx, 3); err != nil {
		t.Fatal(err)
	}
	if err := f.BlockUntil(ctx, 2); err != nil { // more than enough
		t.Fatal(err)
	}
	for i := range 3 {
		advance(t, f, time.Second)
		if got := <-done; got != i {
			t.Fatalf("goroutine %d woke, want %d", got, i)
		}
	}
	ended, end := context.WithCancelCause(ctx)
	reason := errors.New("enough")
	end(reason)
	if err := f.BlockUntil(ended, 1); !errors.Is(err, reason) {
		t.Errorf("BlockUntil without timers: %v", err)
	}
	if len(f.blocked) != 0 {
		t.Errorf("%d still wait", len(f.blocked))
	}
}

func TestWait(t *testing.T) {
	f := NewFake(start)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := Wait(ctx, f, 0); err != nil {
		t.Errorf("waiting for nothing: %v", err)
	}
	result := make(chan error)
	go func() { result <- Wait(ctx, f, time.Second) }()
	if err := f.BlockUntil(ctx, 1); err != nil {
		t.Fatal(err)
	}
	advance(t, f, time.Second)
	if err := <-result; err != nil {
		t.Errorf("waiting for a second: %v", err)
	}
	ended, end := context.WithCancel(ctx)
	go func() { result <- Wait(ended, f, time.Second) }()
	if err := f.BlockUntil(ctx, 1); err != nil {
		t.Fatal(err)
	}
	end()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("waiting until the context ends: %v", err)
	}
	if _, ok := f.NextTimer(); ok {
		t.Error("the timer is still set")
	}
	if err := Wait(ended, f, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting for nothing under an ended context: %v", err)
	}
}
