package sim

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/millrace-io/millrace/internal/state"
)

// bad makes writes to a disk fail: that of the write to come which it was laid at, and some behind it.
type bad struct {
	wait, left atomic.Int32
	cause      error // set while nothing is laid
	struck     bool  // it was laid at some time
}

// lay lets writes fail after some that succeed.
func (b *bad) lay(after, times int, cause error) {
	b.left.Store(0)
	b.cause, b.struck = cause, true
	b.wait.Store(int32(after))
	b.left.Store(int32(times))
}

// over ends it.
func (b *bad) over() { b.left.Store(0) }

// on is a file system whose writes fail.
func (b *bad) on(fs vfs.FS) vfs.FS {
	return errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpCreate, errorfs.OpFileWrite, errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpLink, errorfs.OpRename:
		default:
			return nil
		}
		if b.left.Load() <= 0 || b.wait.Add(-1) >= 0 {
			return nil
		}
		b.left.Add(-1)
		return b.cause
	}))
}

// breakDisk lets writes to a disk fail: at any step of a flush, of a restore, of a start.
func (w *world) breakDisk() {
	p := w.places[w.rng.IntN(len(w.places))]
	cause := pick(w, []error{syscall.EIO, syscall.ENOSPC})
	after, times := w.rng.IntN(12), 1+w.rng.IntN(3)
	w.fault("the disk of place %d: after %d writes %d fail: %v", p.index, after, times, cause)
	p.disk.bad.lay(after, times, cause)
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
