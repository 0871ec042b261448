package state

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
)

// DB is the state directory of one App: one Pebble database, the catalogue of whose store is whose, and the lock that
// keeps other processes out. Its methods are safe for concurrent use.
type DB struct {
	opts   Options
	id     identity
	unlock io.Closer
	p      *pebble.DB
	popts  *pebble.Options // as given to Pebble, for tables to be ingested
	ctx    context.Context // of log messages

	mu     sync.Mutex
	closed bool
	cat    *catalogue
	sets   map[*Set]struct{}
	owners map[incarnation]*diskBase // the newest handle of each
	clean  map[incarnation]*entry    // unlogged stores that were closed regularly since the directory was opened

	aside       string // where a damaged database was moved to
	asideReason error

	started atomic.Bool // OpenDB is through
	failure atomic.Pointer[failure]
	dead    chan struct{} // closed with the first failure
	once    sync.Once
	mark    sync.Once
	ingests atomic.Uint64 // names of files to be ingested

	flushMu      sync.Mutex
	dirtySinceMs int64 // when Pebble's memory got its first entry since the last flush, NoTime if it is empty
}

// OpenDB opens a state directory, and creates it if needed. Errors wrap ErrInUse if another process holds it, ErrForeign
// if it belongs to another cluster or application.
//
// A damaged database does not keep the App from starting: it is moved aside, an empty one takes its place, and the stores
// are rebuilt from their changelogs. The log says so, and MovedAside.
func OpenDB(opts Options) (*DB, error) {
	opts, err := opts.complete()
	if err != nil {
		return nil, err
	}
	db := &DB{
		dead: make(chan struct{}), opts: opts, ctx: context.Background(), sets: make(map[*Set]struct{}), owners: make(map[incarnation]*diskBase),
		clean: make(map[incarnation]*entry), dirtySinceMs: NoTime,
	}
	if err := makeDir(opts.FS, opts.Dir); err != nil {
		return nil, fmt.Errorf("millrace: cannot create the state directory %s: %w", opts.Dir, err)
	}
	if db.unlock, err = db.lock(); err != nil {
		if errors.Is(err, ErrInUse) {
			err = fmt.Errorf("%w; stop it, or give each instance a directory of its own", err)
		}
		return nil, err
	}
	if err := db.start(); err != nil {
		return nil, errors.Join(err, db.shut())
	}
	db.started.Store(true)
	if err := db.failed(); err != nil { // of a task of Pebble's in the background
		return nil, errors.Join(err, db.shut())
	}
	return db, nil
}

// start opens what is in the directory, which is locked.
func (db *DB) start() error {
	if err := db.identify(); err != nil {
		return err
	}
	db.writeOwner()
	fs := db.opts.FS
	if reason, err := readFile(fs, db.path(damagedFile)); err == nil {
		if err := db.moveAside(errors.New(strings.TrimSpace(string(reason)))); err != nil {
			return err
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("millrace: cannot read the state directory %s: %w", db.opts.Dir, err)
	}
	err := db.open()
	if isDamage(err) {
		if err = errors.Join(db.shutFiles(), db.moveAside(err)); err == nil {
			err = db.open()
		}
	}
	if err != nil {
		return err
	}
	if err := fs.RemoveAll(db.path(ingestDir)); err != nil {
		return fmt.Errorf("millrace: cannot clear the state directory %s: %w", db.opts.Dir, err)
	}
	if err := fs.MkdirAll(db.path(ingestDir), 0o755); err != nil {
		return fmt.Errorf("millrace: cannot prepare the state directory %s: %w", db.opts.Dir, err)
	}
	return nil
}

func (db *DB) path(name string) string { return db.opts.FS.PathJoin(db.opts.Dir, name) }

// open opens catalogue and database, and sweeps the one by the other.
func (db *DB) open() (err error) {
	if db.cat, err = openCatalogue(db.opts.FS, db.opts.Dir); err != nil {
		return err
	}
	cache := pebble.NewCache(db.opts.CacheBytes)
	defer cache.Unref()
	db.popts = db.pebbleOptions(cache)
	db.popts.EnsureDefaults()
	if db.p, err = pebble.Open(db.path(databaseDir), db.popts); err != nil {
		return fmt.Errorf("millrace: cannot open the database in the state directory %s: %w", db.opts.Dir, err)
	}
	if err := db.failed(); err != nil {
		return err
	}
	return db.sweep()
}

// isDamage tells damaged and missing files from trouble of other kinds. Not all of Pebble's errors about damage are marked
// as such, so it is the others that are told by what they are: an answer of the operating system (permissions, a full
// disk), or files of a later release.
func isDamage(err error) bool {
	var errno syscall.Errno
	switch {
	case err == nil:
		return false
	case pebble.IsCorruptionError(err), errors.Is(err, ErrCorrupt), errors.Is(err, os.ErrNotExist):
		return true
	case errors.As(err, &errno), errors.Is(err, os.ErrPermission), strings.Contains(err.Error(), "unknown format major version"):
		return false
	}
	return true
}

// moveAside renames database and catalogue, so that empty ones take their place. The one moved aside before is removed:
// it would only fill the disk.
func (db *DB) moveAside(reason error) error {
	fs, dir := db.opts.FS, db.opts.Dir
	fail := func(err error) error {
		return fmt.Errorf("millrace: cannot move the damaged database in the state directory %s aside: %w", dir, err)
	}
	names, err := fs.List(dir)
	if err != nil {
		return fail(err)
	}
	for _, n := range names {
		if strings.Contains(n, asideInfix) {
			if err := fs.RemoveAll(db.path(n)); err != nil {
				return fail(err)
			}
		}
	}
	suffix := fmt.Sprint(asideInfix, db.opts.Now())
	for _, n := range []string{databaseDir, catalogueFile} {
		if _, err := fs.Stat(db.path(n)); errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err := fs.Rename(db.path(n), db.path(n+suffix)); err != nil {
			return fail(err)
		}
	}
	if err := syncDir(fs, dir); err != nil {
		return fail(err)
	}
	if err := fs.Remove(db.path(damagedFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fail(err)
	}
	if err := syncDir(fs, dir); err != nil {
		return fail(err)
	}
	db.aside, db.asideReason = db.path(databaseDir+suffix), reason
	db.failure.Store(nil)
	db.dead, db.once = make(chan struct{}), sync.Once{}
	db.mark = sync.Once{}
	db.opts.Logger.Error("the state database was damaged: it was moved aside, and its stores are rebuilt from the changelogs",
		"dir", dir, "moved_to", db.aside, "reason", reason)
	return nil
}

// MovedAside tells where a damaged database was moved when the directory was opened, and why; ok is false if none was.
func (db *DB) MovedAside() (path string, reason error, ok bool) {
	return db.aside, db.asideReason, db.aside != ""
}

// sweep deletes what has no entry in the catalogue: the rest of dropped stores, and of whatever a lost catalogue named.
func (db *DB) sweep() error {
	it, err := db.p.NewIter(nil)
	if err != nil {
		return fmt.Errorf("millrace: cannot read the state directory %s: %w", db.opts.Dir, err)
	}
	known := make(map[incarnation]bool, len(db.cat.entries))
	for _, e := range db.cat.entries {
		known[e.inc] = true
	}
	var orphans []incarnation
	for ok := it.First(); ok; {
		if len(it.Key()) < incarnationLen {
			return errors.Join(it.Close(), fmt.Errorf("%w: %s holds a key of %d bytes", ErrCorrupt, db.opts.Dir, len(it.Key())))
		}
		inc := incarnation(binary.BigEndian.Uint64(it.Key()))
		db.cat.next = max(db.cat.next, inc+1)
		if !known[inc] {
			orphans = append(orphans, inc)
		}
		_, end := inc.span()
		ok = it.SeekGE(end)
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return fmt.Errorf("millrace: cannot read the state directory %s: %w", db.opts.Dir, err)
	}
	return db.erase(orphans...)
}

// erase deletes everything of incarnations that have no entry.
func (db *DB) erase(incs ...incarnation) error {
	if len(incs) == 0 {
		return nil
	}
	b := db.p.NewBatch()
	for _, inc := range incs {
		start, end := inc.span()
		if err := b.DeleteRange(start, end, nil); err != nil {
			return errors.Join(err, b.Close())
		}
	}
	return db.write(b)
}

// write applies a batch and releases it. The batch is durable once Pebble has flushed its memory.
func (db *DB) write(b *pebble.Batch) error {
	err := db.failed()
	if err == nil {
		err = db.p.Apply(b, pebble.NoSync)
	}
	if err == nil {
		err = db.failed() // what Pebble takes for fatal it does not return
	}
	if e := b.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("millrace: cannot write to the state directory %s: %w", db.opts.Dir, err)
	}
	db.wrote()
	return nil
}

// wrote notes that Pebble's memory holds something, and starts a flush of it when it is due.
func (db *DB) wrote() {
	now := db.opts.Now()
	db.flushMu.Lock()
	if db.dirtySinceMs == NoTime {
		db.dirtySinceMs = now
	}
	due := db.takeFlush(now)
	db.flushMu.Unlock()
	if due {
		db.startFlush()
	}
}

// takeFlush tells whether a flush is due and counts it as started. The caller holds flushMu.
func (db *DB) takeFlush(now int64) bool {
	if db.dirtySinceMs == NoTime || now-db.dirtySinceMs < db.opts.MemTableFlushMs {
		return false
	}
	db.dirtySinceMs = NoTime
	return true
}

func (db *DB) startFlush() {
	flushed, err := db.p.AsyncFlush()
	if err != nil {
		db.fail(fmt.Errorf("flush: %w", err))
		return
	}
	if db.opts.Stepped {
		select {
		case <-flushed:
		case <-db.dead: // it is tried again for ever
		}
	}
}

// Maintain does what is due by time: it makes Pebble write its memory to disk, and gives back iterators that are kept for
// the next read, because they keep files from being deleted. Call it about once a second; it returns at once.
func (db *DB) Maintain() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return ErrClosed
	}
	if err := db.failed(); err != nil {
		return err
	}
	for _, b := range db.owners {
		b.release()
	}
	now := db.opts.Now()
	db.flushMu.Lock()
	due := db.takeFlush(now)
	db.flushMu.Unlock()
	if due {
		db.startFlush()
	}
	return db.failed()
}

// ProcessID is the identity of the instance: a UUID that stays with the directory.
func (db *DB) ProcessID() string { return db.id.ProcessID }

// Dir is the directory's path.
func (db *DB) Dir() string { return db.opts.Dir }

// DiskBytes is the space that the database takes, about.
func (db *DB) DiskBytes() uint64 {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return 0
	}
	return db.p.Metrics().DiskSpaceUsage()
}

// TaskStore is a persistent store that the directory holds.
type TaskStore struct {
	Task   string
	Store  string
	Kind   Kind
	Logged bool
	Header Header // as on disk: what is sealed but not flushed is not in it
}

// StoredTasks lists the tasks of which the directory holds a store, opened or not, in the order in which their first one was created.
func (db *DB) StoredTasks() []string {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return nil
	}
	var tasks []string
	for _, e := range db.cat.sorted() {
		if !slices.Contains(tasks, e.id.task) {
			tasks = append(tasks, e.id.task)
		}
	}
	return tasks
}

// Tasks lists the stores that the directory holds, opened or not, in the order in which they were created.
func (db *DB) Tasks() ([]TaskStore, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return nil, ErrClosed
	}
	var list []TaskStore
	for _, e := range db.cat.sorted() {
		h, _, err := db.header(e)
		if err != nil && !errors.Is(err, errHeader) {
			return nil, err
		}
		list = append(list, TaskStore{Task: e.id.task, Store: e.id.store, Kind: e.kind, Logged: e.logged, Header: h})
	}
	return list, nil
}

// header reads a store's header; it is not there before the store was first written.
func (db *DB) header(e *entry) (h Header, there bool, err error) {
	h = noHeader()
	v, closer, err := db.p.Get(e.inc.headerKey())
	if errors.Is(err, pebble.ErrNotFound) {
		return h, false, nil
	}
	if err == nil {
		h, err = parseHeader(v)
		err = errors.Join(err, closer.Close())
	}
	if err != nil {
		return h, true, fmt.Errorf("millrace: cannot read the header of store %q of task %s in %s: %w", e.id.store, e.id.task, db.opts.Dir, err)
	}
	return h, true, nil
}

// DropStore deletes a store of a task. A handle on it is closed. Dropping one that is not there is no error.
func (db *DB) DropStore(task, store string) error {
	return db.drop(func(id storeID) bool { return id == storeID{task, store} })
}

// DropTask deletes all stores of a task.
func (db *DB) DropTask(task string) error {
	return db.drop(func(id storeID) bool { return id.task == task })
}

// drop deletes the entries first, durably, and the rows afterwards: a crash in between leaves rows that nobody sees and
// the next start sweeps away.
func (db *DB) drop(wanted func(storeID) bool) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return ErrClosed
	}
	var lines []line
	var incs []incarnation
	for _, e := range db.cat.sorted() {
		if wanted(e.id) {
			lines = append(lines, e.line("drop"))
			incs = append(incs, e.inc)
		}
	}
	for _, inc := range incs {
		db.supersede(inc)
	}
	if err := db.cat.change(lines...); err != nil {
		return err
	}
	return db.erase(incs...)
}

// supersede closes the handle of an incarnation, if there is one.
func (db *DB) supersede(inc incarnation) {
	if b := db.owners[inc]; b != nil {
		b.close(ErrSuperseded)
		delete(db.owners, inc)
	}
	delete(db.clean, inc)
}

// Close flushes and closes the sets that are still open (nobody may use them), writes Pebble's memory to disk and gives
// the directory back. Closing again does nothing.
func (db *DB) Close() error {
	db.mu.Lock()
	if db.closed {
		db.mu.Unlock()
		return nil
	}
	db.closed = true
	sets := make([]*Set, 0, len(db.sets))
	for s := range db.sets {
		sets = append(sets, s)
	}
	db.mu.Unlock()

	var errs []error
	for _, s := range sets {
		if err := s.Close(); !errors.Is(err, ErrSuperseded) { // whoever took the stores over has closed them
			errs = append(errs, err)
		}
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := db.failed(); err != nil {
		errs = append(errs, err)
	} else {
		errs = append(errs, db.settle())
	}
	errs = append(errs, db.shut())
	return errors.Join(errs...)
}

// settle makes everything durable and marks the unlogged stores that were closed regularly.
func (db *DB) settle() error {
	flushed, err := db.p.AsyncFlush()
	if err != nil {
		return fmt.Errorf("millrace: cannot flush the state directory %s: %w", db.opts.Dir, err)
	}
	select {
	case <-flushed:
	case <-db.dead: // Pebble tries again for ever
	}
	if err := db.failed(); err != nil {
		return err
	}
	var lines []line
	for _, e := range db.cat.sorted() {
		if db.clean[e.inc] != nil {
			lines = append(lines, e.line("clean"))
		}
	}
	return db.cat.change(lines...)
}

// shut closes files and gives the lock back.
func (db *DB) shut() error {
	err := db.shutFiles()
	if db.unlock != nil {
		err = errors.Join(err, db.unlock.Close())
		db.unlock = nil
	}
	if err != nil {
		return fmt.Errorf("millrace: closing the state directory %s: %w", db.opts.Dir, err)
	}
	return nil
}

func (db *DB) shutFiles() error {
	var errs []error
	if db.p != nil {
		errs = append(errs, db.p.Close())
		db.p = nil
	}
	if db.cat != nil {
		errs = append(errs, db.cat.close())
		db.cat = nil
	}
	return errors.Join(errs...)
}
