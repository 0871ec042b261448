package runtime

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/clock"
)

func TestOfEngine(t *testing.T) {
	for f, want := range map[string]bool{
		"main.enrich":                                                   false,
		"myapp/lookup.Do":                                               false,
		"example.com/app.(*Client).Get":                                 false,
		"go.example.org/x.F":                                            false,
		"github.com/millrace-io/millrace/sink.Put":                      false,
		"github.com/millrace-io/millrace.MapValues[...].func1":          true,
		"github.com/millrace-io/millrace/internal/op.(*peek[...]).call": true,
		"github.com/millrace-io/millrace/internal/task.(*Task).Process": true,
		"time.Sleep":               true,
		"net/http.(*Client).Do":    true,
		"internal/poll.(*FD).Read": true,
		"runtime.goexit":           true,
	} {
		if got := ofEngine(f); got != want {
			t.Errorf("%s: %t, want %t", f, got, want)
		}
	}
}

// The user code that a task is in is found by the labels of its goroutine, whatever else runs.
func TestInside(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	fake := clock.NewFake(time.UnixMilli(0))
	l, other := &life{name: "0_1"}, &life{name: "0_1"}
	p := &workers{appID: "app", clock: fake, work: make(chan *Work), ctx: ctx, post: func(Event) {}}
	started := make(chan struct{})
	p.wg.Go(func() {
		p.marked(l, func() {
			close(started)
			_ = clock.Wait(ctx, fake, time.Hour) // it stands for user code: it is not one of the packages that run it
		})
	})
	<-started
	if err := fake.BlockUntil(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if got := inside(l); !strings.HasPrefix(got, "github.com/millrace-io/millrace/internal/clock.Wait (clock.go:") {
		t.Errorf("inside %q", got)
	}
	if got := inside(other); got != "" {
		t.Errorf("a task that nobody runs is inside %q", got)
	}
	cancel()
	p.wg.Wait()
	if got := inside(l); got != "" {
		t.Errorf("a task that is done is inside %q", got)
	}
}
