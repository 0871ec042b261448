package state

import (
	"errors"
	"fmt"
	"log/slog"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
)

// failure is the first error after which a database writes nothing more.
type failure struct{ err error }

// fail records the first fatal error and tells OnFatal of it. It takes no lock that is held while Pebble is called.
func (db *DB) fail(err error) {
	f := &failure{fmt.Errorf("%w in %s: %w", ErrFailed, db.opts.Dir, err)}
	if !db.failure.CompareAndSwap(nil, f) {
		return
	}
	db.once.Do(func() { close(db.dead) })
	if !db.started.Load() {
		// OpenDB returns the error, or repairs what it is about; but where Pebble has something to write, it tries until it can.
		db.opts.Logger.Warn("the state database meets an error while it is opened", "dir", db.opts.Dir, "error", err)
		return
	}
	db.opts.Logger.Error("the state database has failed", "dir", db.opts.Dir, "error", err)
	if db.opts.OnFatal != nil {
		db.opts.OnFatal(f.err)
	}
}

// failed returns the fatal error, nil while there was none.
func (db *DB) failed() error {
	if f := db.failure.Load(); f != nil {
		return f.err
	}
	return nil
}

// Err returns the error after which the database writes nothing more, nil while all is well.
func (db *DB) Err() error { return db.failed() }

// events makes Pebble tell of what it cannot repair.
func (db *DB) events() *pebble.EventListener {
	return &pebble.EventListener{
		// Flushes and compactions are tried again at once and without end; the error is reported once.
		BackgroundError: func(err error) {
			switch {
			case pebble.IsCorruptionError(err):
				db.corrupted(err)
			case errors.Is(err, syscall.ENOSPC):
				db.fail(fmt.Errorf("%w: %w", ErrDiskFull, err))
			default:
				db.fail(err)
			}
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			db.corrupted(fmt.Errorf("%s: %w", info.Path, info.Details))
		},
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			db.opts.Logger.Warn("writes to the state directory wait for the disk", "dir", db.opts.Dir, "reason", info.Reason)
		},
		TableDeleted: func(pebble.TableDeleteInfo) {
			if db.opts.deleted != nil {
				db.opts.deleted()
			}
		},
	}
}

// corrupted marks the database to be moved aside by the next OpenDB.
func (db *DB) corrupted(err error) {
	db.mark.Do(func() {
		if e := writeSynced(db.opts.FS, db.opts.Dir, damagedFile, []byte(err.Error()+"\n")); e != nil {
			db.opts.Logger.Error("cannot mark the state directory as damaged", "dir", db.opts.Dir, "error", e)
		}
	})
	db.fail(fmt.Errorf("%w: %w", ErrCorrupt, err))
}

// pebbleLogger passes messages on. What is fatal to Pebble ends neither the process nor the goroutine: the error reaches
// the caller in question as well, and nothing more is written.
type pebbleLogger struct{ db *DB }

func (l *pebbleLogger) Infof(format string, args ...any)  { l.log(slog.LevelDebug, format, args) }
func (l *pebbleLogger) Errorf(format string, args ...any) { l.log(slog.LevelError, format, args) }
func (l *pebbleLogger) Fatalf(format string, args ...any) {
	l.db.fail(fmt.Errorf(format, args...))
}

func (l *pebbleLogger) log(level slog.Level, format string, args []any) {
	logger := l.db.opts.Logger
	if logger.Enabled(l.db.ctx, level) {
		logger.Log(l.db.ctx, level, fmt.Sprintf(format, args...), "dir", l.db.opts.Dir)
	}
}
