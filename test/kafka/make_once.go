package kafkatest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// MakeOnce makes a folder, unless it is there. fill puts what belongs into it into an empty folder beside it, which gets the
// name when fill has returned: so a folder that is there is complete. Processes that ask at the same time wait for one of them.
func MakeOnce(ctx context.Context, dir string, fill func(work string) error) error {
	if exists(dir) {
		return nil
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return fmt.Errorf("kafkatest: cache folder: %w", err)
	}
	lock := flock.New(dir + ".lock")
	if _, err := lock.TryLockContext(ctx, 200*time.Millisecond); err != nil {
		return fmt.Errorf("kafkatest: waiting for another process that makes %s: %w", dir, err)
	}
	defer func() { _ = lock.Unlock() }()
	if exists(dir) {
		return nil
	}
	work, err := os.MkdirTemp(parent, "make-")
	if err != nil {
		return fmt.Errorf("kafkatest: cache folder: %w", err)
	}
	defer os.RemoveAll(work)
	if err := fill(work); err != nil {
		return err
	}
	if err := os.Rename(work, dir); err != nil {
		return fmt.Errorf("kafkatest: cache folder: %w", err)
	}
	return nil
}

func exists(dir string) bool {
	fi, err := os.Stat(dir)
	return err == nil && fi.IsDir()
}

// SourceDigest names a tree of files by their paths and content.
func SourceDigest(sources fs.FS) (string, error) {
	h := sha256.New()
	err := fs.WalkDir(sources, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(sources, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%s %d\n", path, len(text))
		h.Write(text)
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("kafkatest: digest of sources: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}
