//go:build synctests

package sim_test

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-io/millrace"
)

// watch reads the results beside the test. The function that it returns ends that.
func (b *bubble) watch() (*oracle, func()) {
	b.t.Helper()
	o := newOracle(b.work, b.guarantee == millrace.ExactlyOnceV2)
	cl := b.client(kgo.ConsumeTopics(copyTopic, runningTopic, groupTopic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		o.follow(ctx, cl)
	}()
	return o, func() {
		cancel()
		<-done
		cl.Close()
	}
}

// untilComplete waits until everything has come out.
func (b *bubble) untilComplete(o *oracle, within time.Duration) {
	b.t.Helper()
	for end := time.Now().Add(within); !o.complete(); time.Sleep(100 * time.Millisecond) {
		if err := o.err(); err != nil {
			b.t.Fatal(err)
		}
		if time.Now().After(end) {
			b.t.Fatalf("not everything has come out %v after the last fault: %s", within, o.missing())
		}
	}
}

func TestBubble_plain(t *testing.T) {
	for _, g := range []millrace.ProcessingGuarantee{millrace.AtLeastOnce, millrace.ExactlyOnceV2} {
		t.Run(g.String(), func(t *testing.T) {
			inBubble(t, 1, g, func(b *bubble) {
				b.work = newWorkload(10)
				o, end := b.watch()
				defer end()
				p, q := b.start("a", b.newDir()), b.start("b", "")
				for range 50 {
					if err := b.work.feed(b.t.Context(), b.cl, 10); err != nil {
						b.t.Fatal(err)
					}
					time.Sleep(200 * time.Millisecond)
				}
				b.untilComplete(o, time.Minute)
				b.stop(p)
				b.stop(q)
				if err := o.err(); err != nil {
					b.t.Error(err)
				}
				b.checkEnd()
			})
		})
	}
}
