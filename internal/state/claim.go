package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Claim is a state directory that is held without its database being open, to delete what is in it.
type Claim struct {
	fs     vfs.FS
	dir    string
	unlock io.Closer
}

// ClaimDir takes the lock of a state directory. It creates nothing: the error wraps os.ErrNotExist if there is no such
// directory, ErrInUse if an instance holds it, and ErrForeign if it holds state of another application or, where a cluster
// id is given, of another cluster. What is no state directory is refused.
func ClaimDir(fs vfs.FS, dir, clusterID, applicationID string) (*Claim, error) {
	if fs == nil {
		fs = vfs.Default
	}
	names, err := fs.List(dir)
	if err != nil {
		return nil, fmt.Errorf("millrace: cannot open the state directory %s: %w", dir, err)
	}
	id, err := readIdentity(fs, dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if slices.ContainsFunc(names, func(n string) bool { return n != lockFile }) {
			return nil, fmt.Errorf("millrace: %s is no state directory: it has no %s", dir, identityFile)
		}
	case err != nil:
		return nil, err
	case id.ApplicationID != applicationID:
		return nil, fmt.Errorf("%w: %s holds state of application %q", ErrForeign, dir, id.ApplicationID)
	case clusterID != "" && id.ClusterID != clusterID:
		return nil, fmt.Errorf("%w: %s holds state of cluster %q, and this is cluster %q", ErrForeign, dir, id.ClusterID, clusterID)
	}
	c := &Claim{fs: fs, dir: dir}
	if c.unlock, err = (&DB{opts: Options{FS: fs, Dir: dir}}).lock(); err != nil {
		return nil, err
	}
	return c, nil
}

func readIdentity(fs vfs.FS, dir string) (id identity, err error) {
	b, err := readFile(fs, fs.PathJoin(dir, identityFile))
	if err == nil {
		err = json.Unmarshal(b, &id)
	}
	if err != nil {
		err = fmt.Errorf("millrace: cannot read the identity of the state directory %s: %w", dir, err)
	}
	return id, err
}

// Path is the directory.
func (c *Claim) Path() string { return c.dir }

// Empty deletes everything in the directory but the lock file: whoever removed that would let two processes in, one by the
// old file and one by a new one. Of a deletion that was cut off it is still clear whose the directory is.
func (c *Claim) Empty() error {
	names, err := c.fs.List(c.dir)
	if err != nil {
		return fmt.Errorf("millrace: cannot read the state directory %s: %w", c.dir, err)
	}
	slices.SortFunc(names, func(a, b string) int {
		last := func(n string) int {
			if n == identityFile {
				return 1
			}
			return 0
		}
		if d := last(a) - last(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	for _, n := range names {
		if n == lockFile {
			continue
		}
		if err := c.fs.RemoveAll(c.fs.PathJoin(c.dir, n)); err != nil {
			return fmt.Errorf("millrace: cannot delete %s in the state directory %s: %w", n, c.dir, err)
		}
	}
	return syncDir(c.fs, c.dir)
}

// Close lets the directory go.
func (c *Claim) Close() error { return c.unlock.Close() }
