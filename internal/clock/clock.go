// Package clock is the engine's only reader of the wall clock. Everything that needs the time of day, or waits for it, is
// handed a Clock, so that a test moves time itself and never sleeps.
package clock

import (
	"context"
	"time"
)

// Clock tells the time of day and wakes up who waits for it. It is safe for use by several goroutines at once.
type Clock interface {
	// Now returns the time of day.
	Now() time.Time

	// NowMs returns the time of day in milliseconds since the Unix epoch.
	NowMs() int64

	// NewTimer returns a timer that fires once, after d. One that is not above zero fires at once.
	NewTimer(d time.Duration) Timer
}

// Timer fires once each time that it is set, by sending the time on its channel.
type Timer interface {
	// C returns the channel on which the timer fires. It holds at most one time, and is never closed.
	C() <-chan time.Time

	// Reset sets the timer again, to fire after d from now, whether it has fired or not. It returns whether the timer was
	// still set. A time that was sent before and not received yet is taken back: what is received after Reset returned was
	// sent for the new setting.
	Reset(d time.Duration) bool

	// Stop unsets the timer and returns whether it was still set. Nothing is received after Stop returned.
	Stop() bool
}

// System returns the clock of the machine.
func System() Clock { return systemClock{} }

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) NowMs() int64 { return time.Now().UnixMilli() }

func (systemClock) NewTimer(d time.Duration) Timer { return systemTimer{time.NewTimer(d)} }

// systemTimer is a timer of the standard library, whose channel acts as Timer asks since Go 1.23.
type systemTimer struct{ *time.Timer }

func (t systemTimer) C() <-chan time.Time { return t.Timer.C }

// Steady returns a time that begins as the time of day and then only runs on: it does not jump with the clock of the machine.
// Deadlines and pauses are measured in it. It is in milliseconds.
func Steady(c Clock) func() int64 {
	start, startMs := c.Now(), c.NowMs()
	return func() int64 { return startMs + c.Now().Sub(start).Milliseconds() }
}

// Wait returns after d, or as soon as ctx ends, with its error then.
func Wait(ctx context.Context, c Clock, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := c.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
