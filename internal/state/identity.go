package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/gofrs/flock"
)

// Files of a state directory, beside the database.
const (
	lockFile      = "lock"
	ownerFile     = "owner.json"
	identityFile  = "identity.json"
	catalogueFile = "catalogue"
	damagedFile   = "damaged"
	databaseDir   = "db"
	ingestDir     = "ingest"
	asideInfix    = ".damaged-"
)

// formatVersion is that of the directory as a whole: of the files named here and of the keys in the database.
const formatVersion = 1

// identity says whose directory it is. It is written once.
type identity struct {
	Format        int    `json:"format"`
	ClusterID     string `json:"cluster_id"`
	ApplicationID string `json:"application_id"`
	ProcessID     string `json:"process_id"`
}

// owner says who holds the lock, for the error text of whoever does not get it.
type owner struct {
	PID           int    `json:"pid"`
	Host          string `json:"host"`
	ApplicationID string `json:"application_id"`
}

// lock takes the directory for this DB.
func (db *DB) lock() (io.Closer, error) {
	fs, path := db.opts.FS, db.opts.FS.PathJoin(db.opts.Dir, lockFile)
	if !isMachine(fs) {
		c, err := fs.Lock(path)
		if err != nil {
			return nil, db.inUse(err)
		}
		return c, nil
	}
	l := flock.New(path)
	ok, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("millrace: cannot lock the state directory %s: %w", db.opts.Dir, err)
	}
	if !ok {
		return nil, db.inUse(nil)
	}
	return l, nil
}

// isMachine tells whether a file system is that of the machine, bare or wrapped.
func isMachine(fs vfs.FS) bool {
	for fs.Unwrap() != nil {
		fs = fs.Unwrap()
	}
	return fs == vfs.Default
}

// inUse says who holds the directory.
func (db *DB) inUse(cause error) error {
	holder := "by another process"
	if b, err := readFile(db.opts.FS, db.opts.FS.PathJoin(db.opts.Dir, ownerFile)); err == nil {
		var o owner
		if json.Unmarshal(b, &o) == nil {
			holder = fmt.Sprintf("by process %d on %s, application %q", o.PID, o.Host, o.ApplicationID)
		}
	}
	err := fmt.Errorf("%w: %s is held %s", ErrInUse, db.opts.Dir, holder)
	if cause != nil {
		err = fmt.Errorf("%w (%w)", err, cause)
	}
	return err
}

// writeOwner leaves word of who holds the lock. It is a courtesy: an error is of no consequence.
func (db *DB) writeOwner() {
	host, _ := os.Hostname()
	b, err := json.Marshal(owner{PID: os.Getpid(), Host: host, ApplicationID: db.opts.ApplicationID})
	if err == nil {
		err = writeSynced(db.opts.FS, db.opts.Dir, ownerFile, append(b, '\n'))
	}
	if err != nil {
		db.opts.Logger.Warn("cannot write who holds the state directory", "dir", db.opts.Dir, "error", err)
	}
}

// identify reads whose directory it is, and writes it if it is nobody's yet.
func (db *DB) identify() error {
	fs, dir := db.opts.FS, db.opts.Dir
	b, err := readFile(fs, fs.PathJoin(dir, identityFile))
	switch {
	case errors.Is(err, os.ErrNotExist):
		db.id = identity{formatVersion, db.opts.ClusterID, db.opts.ApplicationID, db.opts.NewID()}
		b, err := json.Marshal(db.id)
		if err != nil {
			return err
		}
		if err := writeSynced(fs, dir, identityFile, append(b, '\n')); err != nil {
			return fmt.Errorf("millrace: cannot write the identity of the state directory %s: %w", dir, err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("millrace: cannot read the identity of the state directory %s: %w", dir, err)
	}
	if err := json.Unmarshal(b, &db.id); err != nil {
		return fmt.Errorf("millrace: %s in the state directory %s is not readable; remove the directory, its state is rebuilt from the changelogs: %w",
			identityFile, dir, err)
	}
	switch {
	case db.id.Format != formatVersion:
		return fmt.Errorf("millrace: the state directory %s has format %d, this version reads format %d; use another directory, or remove it: its state is rebuilt from the changelogs",
			dir, db.id.Format, formatVersion)
	case db.id.ClusterID != db.opts.ClusterID:
		return fmt.Errorf("%w: %s holds state of cluster %q, and this is cluster %q; use another directory, or remove it: state is rebuilt from the changelogs",
			ErrForeign, dir, db.id.ClusterID, db.opts.ClusterID)
	case db.id.ApplicationID != db.opts.ApplicationID:
		return fmt.Errorf("%w: %s holds state of application %q, and this is application %q; use another directory, or remove it: state is rebuilt from the changelogs",
			ErrForeign, dir, db.id.ApplicationID, db.opts.ApplicationID)
	case db.id.ProcessID == "":
		return fmt.Errorf("millrace: %s in the state directory %s names no process id; remove the directory, its state is rebuilt from the changelogs",
			identityFile, dir)
	}
	return nil
}

func readFile(fs vfs.FS, path string) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(f)
	return b, errors.Join(err, f.Close())
}

// writeSynced replaces a file: after a crash either the old or the new content is there.
func writeSynced(fs vfs.FS, dir, name string, content []byte) error {
	temp := fs.PathJoin(dir, name+".new")
	f, err := fs.Create(temp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if _, err = f.Write(content); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := fs.Rename(temp, fs.PathJoin(dir, name)); err != nil {
		return err
	}
	return syncDir(fs, dir)
}

// syncDir makes the names of a directory durable.
func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// makeDir creates a directory with its parents, durably.
func makeDir(fs vfs.FS, dir string) error {
	var made []string // innermost first
	for at := dir; ; at = fs.PathDir(at) {
		if _, err := fs.Stat(at); err == nil || !errors.Is(err, os.ErrNotExist) {
			break
		}
		made = append(made, at)
		if at == fs.PathDir(at) {
			break
		}
	}
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, d := range made {
		if err := syncDir(fs, fs.PathDir(d)); err != nil {
			return err
		}
	}
	return nil
}
