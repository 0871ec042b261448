package sim

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/millrace-io/millrace/internal/state"
)

// bad makes writes to a disk fail: all of them, from the one to come which it was laid at until the process is gone or, where the
// database has met none of it, for a while. That nothing succeeds in between makes what is on the disk independent of how often Pebble
// tries in the background.
type bad struct {
	laid, failing, met atomic.Bool // met: by the database
	wait               atomic.Int32
	// opening says that the database is being opened, which tries for ever: then some writes fail, and the next ones do not.
	opening atomic.Bool
	times   atomic.Int32
	cause   error // set while nothing is laid
	struck  bool  // it was laid at some time
	overMs  int64
}

// lay lets writes fail after some that succeed.
func (b *bad) lay(after int, cause error, overMs int64) {
	b.cause, b.struck, b.overMs = cause, true, overMs
	b.wait.Store(int32(after))
	b.times.Store(0)
	b.laid.Store(true)
}

// over ends it.
func (b *bad) over() {
	b.laid.Store(false)
	b.failing.Store(false)
	b.met.Store(false)
}

// tick ends it when its time has come.
func (b *bad) tick(nowMs int64) {
	if b.laid.Load() && !b.met.Load() && nowMs >= b.overMs {
		b.over()
	}
}

// on is a file system whose writes fail.
func (b *bad) on(fs vfs.FS) vfs.FS {
	return errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpCreate, errorfs.OpFileWrite, errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpLink, errorfs.OpRename:
		default:
			return nil
		}
		if !b.laid.Load() || !b.failing.Load() && b.wait.Add(-1) >= 0 {
			return nil
		}
		if b.failing.Store(true); b.opening.Load() && b.times.Add(1) > failWhileOpening {
			b.over()
			return nil
		}
		if strings.Contains(op.Path, "state/db") {
			b.met.Store(true)
		}
		return b.cause
	}))
}

// failWhileOpening is how many writes fail while a database is opened.
const failWhileOpening = 3

// breakDisk lets writes to a disk fail: at any step of a flush, of a restore, of a start.
func (w *world) breakDisk() {
	p := w.places[w.rng.IntN(len(w.places))]
	cause := pick(w, []error{syscall.EIO, syscall.ENOSPC})
	after, ms := w.rng.IntN(12), w.rng.Int64N(2_000)
	if p.disk.bad.laid.Load() {
		return
	}
	w.fault("the disk of place %d fails after %d writes: %v", p.index, after, cause)
	p.disk.bad.lay(after, cause, w.clock.NowMs()+ms)
}

// failed tells errors of a disk that was made to fail. The state directory is left as it is, and opened again.
func (d *disk) failed(err error) bool {
	return d.bad.struck && (errors.Is(err, state.ErrFailed) || errors.Is(err, syscall.EIO) || errors.Is(err, syscall.ENOSPC))
}

// Writes to the disks fail at any step of a flush, of a restore, of a start and of a close, again and again. An instance that stops
// for it starts again, and the results are right.
func TestSim_failingDisks(t *testing.T) {
	for _, exactly := range []bool{false, true} {
		for seed := range uint64(6) {
			t.Run(fmt.Sprintf("exactly=%t/%d", exactly, seed), func(t *testing.T) {
				w, err := newWorld(seed+1, scenario{workload: Workloads()[seed%2], exactly: exactly, instances: 2, steps: 150, deadline: 3_600_000})
				if err != nil {
					t.Fatal(err)
				}
				defer w.close()
				for range 12 {
					w.breakDisk()
					for range w.steps {
						w.step()
					}
				}
				if w.settle(); w.failure != nil {
					t.Error(report(w, w.failure))
				}
			})
		}
	}
}
