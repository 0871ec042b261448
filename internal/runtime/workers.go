package runtime

import (
	"context"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/millrace-io/millrace/internal/clock"
)

// workers run tasks. Their number follows what the machine hands out: it knows how many may run.
type workers struct {
	appID string
	clock clock.Clock
	post  func(Event)
	work  chan *Work
	ctx   context.Context
	wg    sync.WaitGroup
}

// idleWorker is how long a worker without work stays.
const idleWorker = 10 * time.Second

func (p *workers) run(w *Work) {
	select {
	case p.work <- w:
	default:
		p.wg.Go(func() { p.worker(w) })
	}
}

func (p *workers) worker(w *Work) {
	t := p.clock.NewTimer(idleWorker)
	defer t.Stop()
	for {
		var d *Done
		p.marked(w.life, func() { d = w.Do() })
		p.post(Worked{Done: d})
		t.Reset(idleWorker)
		select {
		case w = <-p.work:
		case <-t.C():
			return
		case <-p.ctx.Done():
			return
		}
	}
}

// marked runs a task's work with the labels by which inside finds it.
func (p *workers) marked(l *life, f func()) {
	pprof.SetGoroutineLabels(l.marked(p.appID))
	f()
	pprof.SetGoroutineLabels(context.Background())
}
