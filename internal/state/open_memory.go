package state

import "github.com/cockroachdb/pebble/v2/vfs"

// OpenMemoryDB opens an empty state directory on a file system in memory: stores take the way of persistent ones and leave
// nothing behind. Test drivers use it. now is the wall-clock time in milliseconds since the Unix epoch.
func OpenMemoryDB(applicationID string, now func() int64) (*DB, error) {
	return OpenDB(Options{
		FS: vfs.NewMem(), Dir: "state", ClusterID: "in memory", ApplicationID: applicationID, Now: now,
		CacheBytes: 4 << 20, MemTableBytes: 4 << 20,
	})
}
