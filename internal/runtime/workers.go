package runtime

import (
	"context"
	"sync"
	"time"

	"github.com/millrace-io/millrace/internal/clock"
)

// workers run tasks. Their number follows what the machine hands out: it knows how many may run.
type workers struct {
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
		p.post(Worked{Done: w.Do()})
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
