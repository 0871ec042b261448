package state

// DB is the state directory of one App.
type DB struct {
	opts Options
}

// Options of a DB.
type Options struct {
	Now func() int64
}

func (db *DB) forget(*Set) {}

type diskBase struct{ base }
