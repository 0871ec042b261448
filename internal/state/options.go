package state

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/clock"
)

// Options say where and how a DB keeps its stores. Zero values choose the defaults named; Dir, ClusterID and
// ApplicationID have none.
type Options struct {
	// FS is the file system, that of the machine by default. Tests give one in memory.
	FS vfs.FS
	// Dir is the directory of one application instance. It is created if needed.
	Dir string

	// ClusterID and ApplicationID name whose state it is; a directory of another cluster or application is refused.
	ClusterID     string
	ApplicationID string

	// CacheBytes is the size of the cache of uncompressed blocks. Default 32 MB.
	CacheBytes int64
	// MemTableBytes is how much is gathered in memory before Pebble writes it to disk. Up to three times as much is held
	// while it writes. Default 64 MB.
	MemTableBytes int64
	// MemTableFlushMs is after how long what was gathered is written to disk in any case. A crash replays the changelog
	// from there. Default 5,000.
	MemTableFlushMs int64

	// SealedBytes and SealedMs say when the sealed units of a set are due for Flush. Defaults 16 MB and 2,000.
	SealedBytes int64
	SealedMs    int64

	// RestoreChunkBytes is how much a restore gathers and sorts in memory before it writes. Default 16 MB.
	RestoreChunkBytes int64

	// MinFreeBytes is the free space below which nothing more is written. Default 256 MB.
	MinFreeBytes int64
	// FreeBytes tells the free space of the file system that holds a directory. By default it is asked; one that cannot
	// tell is taken to have room.
	FreeBytes func(dir string) (int64, error)

	// Logger takes the database's messages. By default they are dropped.
	Logger *slog.Logger
	// Now is the wall-clock time in milliseconds since the Unix epoch, that of the machine by default.
	Now func() int64
	// NewID makes the process id of a new directory, a random UUID by default.
	NewID func() string

	// OnFatal is told the first error after which the database writes nothing more: a damaged file, a failed write. It may
	// be called by any goroutine, with locks of the database held: it must return at once and use the DB only from
	// elsewhere. The directory is repaired by closing the DB and opening it again.
	OnFatal func(error)

	// Stepped makes what is on disk follow from the calls alone: a flush of Pebble's memory is waited for, and none is begun by
	// a timer of Pebble's own; nothing is compacted beside them. For simulations that crash.
	Stepped bool
	// LoseUnwritten breaks a rule on purpose: what could not be written counts as written. Simulations show with it that they would find
	// that out.
	LoseUnwritten bool

	ingestBytes int64  // the least chunk of a restore that is ingested; tests have small ones
	deleted     func() // tests: a table file was deleted
}

func (o Options) complete() (Options, error) {
	if o.Dir == "" || o.ClusterID == "" || o.ApplicationID == "" {
		return o, errors.New("millrace: a state directory needs a path, a cluster id and an application id")
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	setDefault(&o.CacheBytes, 32<<20)
	setDefault(&o.MemTableBytes, 64<<20)
	setDefault(&o.MemTableFlushMs, 5_000)
	setDefault(&o.SealedBytes, 16<<20)
	setDefault(&o.SealedMs, 2_000)
	setDefault(&o.RestoreChunkBytes, 16<<20)
	setDefault(&o.MinFreeBytes, 256<<20)
	setDefault(&o.ingestBytes, defaultIngestBytes)
	if o.FreeBytes == nil {
		fs := o.FS
		o.FreeBytes = func(dir string) (int64, error) {
			u, err := fs.GetDiskUsage(dir)
			return int64(min(u.AvailBytes, 1<<62)), err
		}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = clock.System().NowMs
	}
	if o.NewID == nil {
		o.NewID = uuid.NewString
	}
	return o, nil
}

func setDefault(v *int64, d int64) {
	if *v <= 0 {
		*v = d
	}
}

// pebbleFormat pins the format of Pebble's files, so that a new version of the library does not move a directory to a
// format that the previous release of millrace cannot read.
const pebbleFormat = pebble.FormatTableFormatV6

// pebbleOptions are those of the one Pebble instance of a directory.
func (db *DB) pebbleOptions(cache *pebble.Cache) *pebble.Options {
	o := &pebble.Options{
		FS:                          db.opts.FS,
		Cache:                       cache,
		Comparer:                    comparer,
		KeySchema:                   keySchema.Name,
		KeySchemas:                  schemas(),
		FormatMajorVersion:          pebbleFormat,
		DisableWAL:                  true,
		MemTableSize:                uint64(db.opts.MemTableBytes),
		MemTableStopWritesThreshold: 3,
		L0CompactionThreshold:       2,
		L0CompactionFileThreshold:   500,
		L0StopWritesThreshold:       100,
		LBaseMaxBytes:               64 << 20,
		FlushDelayDeleteRange:       time.Duration(db.opts.MemTableFlushMs) * time.Millisecond,
		CompactionConcurrencyRange:  func() (int, int) { return 1, max(1, min(3, runtime.GOMAXPROCS(0)-1)) },
		Logger:                      &pebbleLogger{db},
		EventListener:               db.events(),
	}
	if db.opts.Stepped {
		o.FlushDelayDeleteRange = 0
		o.DisableAutomaticCompactions, o.L0StopWritesThreshold = true, 1<<20
	}
	for i := range o.Levels {
		o.Levels[i].BlockSize = 16 << 10
		o.Levels[i].IndexBlockSize = 128 << 10
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return o
}

// checkSpace refuses a write of about n bytes where the file system is short of space, before Pebble gets stuck in it.
func (db *DB) checkSpace(n int64) error {
	free, err := db.opts.FreeBytes(db.opts.Dir)
	if errors.Is(err, vfs.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("millrace: cannot tell the free space of the state directory %s: %w", db.opts.Dir, err)
	}
	if need := db.opts.MinFreeBytes + n; free < need {
		return fmt.Errorf("%w: %s has %d bytes free and needs %d; make room, or move the directory to a larger disk",
			ErrDiskFull, db.opts.Dir, free, need)
	}
	return nil
}
