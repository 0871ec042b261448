package millrace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/millrace-io/millrace/internal/config"
	"github.com/millrace-io/millrace/internal/state"
)

// StateCleanupDelay is after how long the state of a task that has moved to another instance is deleted from this one's disk, unless
// the task or a copy of it has come back. Until then its return costs only what it has missed. The time counts while the App is a
// member of its group, anew after each start. 0 never deletes. Default 10 min.
//
// In Kafka Streams: state.cleanup.delay.ms.
func StateCleanupDelay(d time.Duration) AppOption {
	return appOption(func(o *appOptions) { o.cfg.StateCleanupDelay = d })
}

// ErrRunning is returned by CleanUp while Run runs.
var ErrRunning = errors.New("millrace: the application runs")

// CleanUp deletes what this instance keeps on disk: the stores of all tasks, and who the instance is. The next start restores the
// stores from their changelogs, and is another member of the group: one that was not stopped in order is waited for until its session
// times out. Nothing in Kafka is touched; `millrace reset` does that.
//
// It is for before and after Run. The error is ErrRunning while Run runs, and wraps ErrStateDirInUse if another process has the
// directory. Where there is no state it does nothing. It may be called again after an error.
//
// In Kafka Streams: KafkaStreams#cleanUp, which keeps the process id.
func (a *App) CleanUp() error {
	a.mu.Lock()
	defer a.mu.Unlock() // a Run that begins meanwhile waits
	if a.running {
		return fmt.Errorf("%w: CleanUp deletes state before or after Run", ErrRunning)
	}
	c := &a.opts.cfg
	if c.DefaultStore != config.Persistent {
		return nil
	}
	held, err := state.ClaimDir(nil, filepath.Join(c.StateDir, c.ApplicationID), "", c.ApplicationID)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(held.Empty(), held.Close())
}
