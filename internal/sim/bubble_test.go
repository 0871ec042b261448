//go:build synctests

package sim_test

import (
	"testing"
	"time"

	"github.com/millrace-io/millrace"
)

// eachGuarantee runs a test under both guarantees.
func eachGuarantee(t *testing.T, f func(b *bubble, w *numbered)) {
	for _, g := range []millrace.ProcessingGuarantee{millrace.AtLeastOnce, millrace.ExactlyOnceV2} {
		t.Run(g.String(), func(t *testing.T) {
			t.Parallel()
			under(t, g, f)
		})
	}
}

// under runs a test in a bubble under a guarantee, with the application of this layer's own.
func under(t *testing.T, g millrace.ProcessingGuarantee, f func(b *bubble, w *numbered)) {
	var w *numbered
	inBubble(t, 1, g, func(*bubble) work {
		w = newNumbered(10, g == millrace.ExactlyOnceV2)
		return w
	}, func(b *bubble) { f(b, w) })
}

// untilComplete waits until everything has come out, and checks it.
func (b *bubble) untilComplete(o *watcher, within time.Duration) {
	b.t.Helper()
	b.until("everything has come out", within, func() bool {
		if err := o.err(); err != nil {
			b.t.Fatal(err)
		}
		return b.work.complete() == nil
	})
}

// until waits for a condition.
func (b *bubble) until(what string, within time.Duration, cond func() bool) {
	b.t.Helper()
	for end := time.Now().Add(within); !cond(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("not within %v: %s (%v)", within, what, b.work.complete())
		}
	}
}

// Without any fault everything comes out as it is to.
func TestBubble_withoutFaults(t *testing.T) {
	eachGuarantee(t, func(b *bubble, w *numbered) {
		o, end := b.watch()
		defer end()
		p, q := b.start("a", b.newDir()), b.start("b", "")
		for range 50 {
			if err := b.feed(10); err != nil {
				b.t.Fatal(err)
			}
			time.Sleep(200 * time.Millisecond)
		}
		b.untilComplete(o, 20*time.Second)
		b.stop(p)
		b.stop(q)
		b.checkEnd()
	})
}
