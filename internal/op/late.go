package op

import (
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/window"
)

// lateOut counts the windows that records have missed, and sends such records to the late stream if something follows it.
type lateOut[K, V any] struct {
	expired *metrics.Counter
	next    Sink[K, window.Late[V]] // nil: they are only counted
	out     processor.Record[K, window.Late[V]]
	missed  []window.Window // by the record in process
}

// splitLate takes the step of the late stream out of the children of a windowed step. No name, or an empty one, says that
// there is none.
func splitLate[K, V any](env *Env, step string, lateStep *string, children []Child) (l lateOut[K, V], table []Child, err error) {
	l.expired = env.counter(step, metrics.Late)
	if lateStep == nil || *lateStep == "" {
		return l, children, nil
	}
	var late []Child
	for _, c := range children {
		if c.Step == *lateStep {
			late = append(late, c)
		} else {
			table = append(table, c)
		}
	}
	l.next, err = Downstream[K, window.Late[V]](step, late)
	return l, table, err
}

// begin forgets the windows of the record before.
func (l *lateOut[K, V]) begin() { l.missed = l.missed[:0] }

// miss notes a window that the record in process came too late for.
func (l *lateOut[K, V]) miss(win window.Window) {
	l.missed = append(l.missed, win)
	l.expired.Inc()
}

// send sends the record in process, if it has missed a window. accepted says that it counted in another one.
func (l *lateOut[K, V]) send(r *processor.Record[K, V], observedMs int64, accepted bool) error {
	if len(l.missed) == 0 || l.next == nil {
		return nil
	}
	l.out = processor.Record[K, window.Late[V]]{
		Key: r.Key, TimestampMs: r.TimestampMs, Headers: r.Headers,
		Value: window.Late[V]{
			Value: r.Value, NullValue: r.NullValue, ObservedTimeMs: observedMs,
			Missed: append([]window.Window(nil), l.missed...), Accepted: accepted,
		},
	}
	return l.next.Process(&l.out)
}
