package millrace

import (
	"fmt"
	goruntime "runtime"

	"github.com/millrace-io/millrace/internal/config"
	"github.com/millrace-io/millrace/internal/runtime"
)

// Pause holds processing up: tasks take no more records and fire no timers, until Resume. It returns at once; turns that are under
// way end at their next record boundary, a few milliseconds later if user code returns as quickly. It may be called before Run, which
// then starts paused, and again while it is paused.
//
// Everything else goes on. The instance stays a member of its group and keeps its tasks, for as long as it likes: the deadline
// max.poll.interval.ms is that of one record, and there is none. What was done is committed, and caches are flushed with the commit.
// Fetching goes on until the queues are full. Tasks that the group gives it are restored and opened, copies of others' tasks follow
// their changelogs, and global tables follow theirs. A revocation or a drain is dealt with as ever. State does not tell of it:
// a paused App is Running, or Rebalancing.
//
// It is of this instance alone, and forgotten with it.
//
// In Kafka Streams: KafkaStreams#pause, which holds up restores and standbys as well.
func (a *App) Pause() { a.setPaused(true) }

// Resume lets an App process again that was paused. Timers of the wall clock that were due meanwhile fire once.
//
// In Kafka Streams: KafkaStreams#resume.
func (a *App) Resume() { a.setPaused(false) }

// Paused tells whether Pause was called, and Resume was not called since.
//
// In Kafka Streams: KafkaStreams#isPaused.
func (a *App) Paused() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.paused
}

func (a *App) setPaused(paused bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.paused = paused
	if a.runner != nil {
		a.runner.Pause(paused)
	}
}

// SetWorkers says how many tasks run at once from now on, hard; 0 has as many as there are processors, and replaces one that is held
// up in user code. It overrides Workers, and may be called before Run and at any time while it runs. Tasks that are at work beyond
// a lower number end their turns first.
//
// It costs nothing to speak of: workers are goroutines that take turns of any task. No task moves or is closed, and the group is not
// asked, since an App is one member of it whatever the number. What a task may gather between two commits is a share of the memory
// limit for each worker, and changes with the number; how many tasks are restored at once stays as it was when Run began.
//
// In Kafka Streams: KafkaStreams#addStreamThread and #removeStreamThread, which rebalance.
func (a *App) SetWorkers(n int) error {
	if n < 0 || n > maxWorkers {
		return &SettingError{Name: "num.stream.threads", Value: fmt.Sprint(n), Reason: fmt.Sprintf("must be 1 to %d, or 0 for the number of processors", maxWorkers)}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.workers = n
	if a.runner != nil {
		r, err := a.resize(n)
		if err != nil {
			return err
		}
		a.runner.Resize(r)
	}
	return nil
}

// maxWorkers is the highest number of workers, as that of num.stream.threads.
const maxWorkers = 1 << 20

// resize is what a number of workers means for the runtime.
func (a *App) resize(n int) (runtime.Resize, error) {
	r := runtime.Resize{Workers: n, Hard: true}
	if n == 0 {
		r.Workers, r.Hard = goruntime.GOMAXPROCS(0), false
	}
	budgets, err := a.opts.cfg.Budgets(1)
	r.PrivateBytes = privateBytes(budgets, r.Workers)
	return r, err
}

// privateBytes is how much one task may gather between two hand-overs.
func privateBytes(b config.Budgets, workers int) int64 {
	return max(1<<20, b.Private/int64(workers)/2)
}
