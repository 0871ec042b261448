package kgoclient

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/millrace-io/millrace/internal/clock"
)

// Outages keeps the log readable while brokers are away: of a warning that comes again and again the first one is told, and then one
// at growing distances with the number of those between; and a broker that can be reached again is told with the time that it was
// away. The clients of one App share it.
type Outages struct {
	now func() time.Time

	mu      sync.Mutex
	repeats map[string]*repeat
	away    map[string]time.Time // by address: since when
}

// repeat is a warning that has been told.
type repeat struct {
	first, last, next time.Time
	left              int // since the last one that was told
}

// NewOutages knows of no outage.
func NewOutages() *Outages {
	return &Outages{now: clock.System().Now, repeats: make(map[string]*repeat), away: make(map[string]time.Time)}
}

const (
	firstRepeat = time.Second // at the earliest, a warning is told again
	forgetAfter = time.Minute // without the warning, its next one is a first one
)

// tell says whether a warning is to be told now, and how many like it have not been since the last one that was.
func (o *Outages) tell(key string) (left int, told bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	r := o.repeats[key]
	if r == nil || now.Sub(r.last) >= forgetAfter {
		o.repeats[key] = &repeat{first: now, last: now, next: now.Add(firstRepeat)}
		return 0, true
	}
	if r.last = now; now.Before(r.next) {
		r.left++
		return 0, false
	}
	left, r.left = r.left, 0
	r.next = now.Add(now.Sub(r.first))
	return left, true
}

// dialed notes whether a broker could be reached. It returns for how long it was away if it is back now.
func (o *Outages) dialed(address string, err error) (away time.Duration, back bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	since, was := o.away[address]
	switch {
	case err != nil && !was:
		o.away[address] = o.now()
	case err == nil && was:
		delete(o.away, address)
		return o.now().Sub(since), true
	}
	return 0, false
}

// quieter takes one level off franz-go's information, which is written for its own maintainers, and tells repeated warnings less
// and less often.
type quieter struct {
	slog.Handler
	outages *Outages
}

func (q quieter) Enabled(ctx context.Context, l slog.Level) bool {
	return q.Handler.Enabled(ctx, quiet(l))
}

func (q quieter) Handle(ctx context.Context, r slog.Record) error {
	r.Level = quiet(r.Level)
	if r.Level >= slog.LevelWarn {
		key := r.Message
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "addr" {
				key += " " + a.Value.String()
			}
			return true
		})
		left, told := q.outages.tell(key)
		if !told {
			return nil
		}
		if left > 0 {
			r = r.Clone()
			r.AddAttrs(slog.Int("not_told_since", left))
		}
	}
	return q.Handler.Handle(ctx, r)
}

func (q quieter) WithAttrs(as []slog.Attr) slog.Handler {
	return quieter{q.Handler.WithAttrs(as), q.outages}
}

func (q quieter) WithGroup(name string) slog.Handler {
	return quieter{q.Handler.WithGroup(name), q.outages}
}

func quiet(l slog.Level) slog.Level {
	switch {
	case l < slog.LevelInfo:
		return l - 4 // its debug output is a trace
	case l < slog.LevelWarn:
		return slog.LevelDebug
	}
	return l
}
