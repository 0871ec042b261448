package state

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/millrace-io/millrace/internal/codec"
)

// VersionedStore is a store of several versions of a value for each key: each holds from its timestamp to that of the next
// one. A version without a value says that the key was deleted then.
//
// The latest value of a key never expires. A version that was replaced, or that is a deletion, is kept while a time at
// which it held lies within the history: until a timestamp has been put that is greater than its end by the history, or
// more.
//
// # Layout
//
// The latest values lie among the points, one for each key, stamped with their timestamps as in a key-value store. What
// was replaced lies among the rows, in the segment of its end, so that whole segments leave once no time of theirs can be
// asked for:
//
//	segment of end   | key | end   | 0 -> closed, start, value or none
//	segment of start | key | start | 1 -> nothing: a deletion that nothing has followed yet
//
// So the versions of a key follow each other without gaps, the first row behind a time is the version that held then, and
// each put reads one point and, where it is not the latest, one row.
//
// In Kafka Streams: RocksDBVersionedStore.
type VersionedStore struct {
	s    *store
	row  []byte // scratch for a row that is written
	hold []byte // scratch for a value that must outlive further calls
}

// Put tells what it did.
type PutResult uint8

const (
	// PutLatest: the version is the newest of its key.
	PutLatest PutResult = iota
	// PutStale: there is a newer version of the key; the put changed its history.
	PutStale
	// PutExpired: the timestamp is further back than the history; nothing was written.
	PutExpired
)

// Version is one version of a value.
type Version struct {
	Value  []byte // nil for a deletion
	FromMs int64  // its timestamp
	ToMs   int64  // timestamp of the version that follows, Open for the latest one
}

// Open is the end of a version that nothing follows.
const Open int64 = math.MaxInt64

const (
	extraClosed uint64 = 0
	extraOpen   uint64 = 1

	flagDeleted = 0
	flagValue   = 1
	closedHead  = 1 + 8
)

// Versioned returns the versioned store of a name.
func (s *Set) Versioned(name string) (*VersionedStore, error) {
	st, err := s.face(name, Versioned)
	if err != nil {
		return nil, err
	}
	return &VersionedStore{s: st}, nil
}

// Spec describes the store.
func (v *VersionedStore) Spec() Spec { return v.s.spec }

// ObservedMs is the highest timestamp that was put or restored, NoTime if there was none.
func (v *VersionedStore) ObservedMs() int64 { return v.s.observedMs() }

// Observe moves the observed time without a put.
func (v *VersionedStore) Observe(tsMs int64) error {
	if err := v.s.set.check(); err != nil {
		return err
	}
	if tsMs >= 0 {
		v.s.observe(tsMs)
	}
	return nil
}

// Put sets the value that holds from tsMs on, until the next version of the key. nil deletes. It copies both key and value,
// and moves the observed time.
func (v *VersionedStore) Put(key, value []byte, tsMs int64) (PutResult, error) {
	if err := v.s.set.check(); err != nil {
		return 0, err
	}
	if !v.s.takesVersion(tsMs) {
		return PutExpired, nil
	}
	v.s.observe(tsMs)
	return v.put(key, value, tsMs)
}

// takesVersion tells whether a timestamp lies within the history.
func (s *store) takesVersion(tsMs int64) bool {
	return s.high == noObserved || tsMs >= s.high-s.spec.RetentionMs
}

// put writes a version that is within the history.
func (v *VersionedStore) put(key, value []byte, tsMs int64) (PutResult, error) {
	latest, has, err := v.s.getPoint(key)
	if err != nil {
		return 0, err
	}
	if has {
		fromMs, err := v.stamp(latest)
		if err != nil {
			return 0, err
		}
		if tsMs < fromMs {
			return PutStale, v.putBefore(key, value, tsMs, fromMs)
		}
		if tsMs > fromMs {
			v.close(key, latest[8:], fromMs, tsMs)
		}
		v.putLatest(key, value, tsMs, true)
		return PutLatest, nil
	}
	deletedMs, deleted, err := v.deletedSince(key)
	if err != nil {
		return 0, err
	}
	if deleted {
		if tsMs < deletedMs {
			return PutStale, v.putBefore(key, value, tsMs, deletedMs)
		}
		v.s.writeRow(key, deletedMs, extraOpen, nil)
		if tsMs > deletedMs {
			v.close(key, nil, deletedMs, tsMs)
		}
	}
	v.putLatest(key, value, tsMs, false)
	return PutLatest, nil
}

func (v *VersionedStore) stamp(local []byte) (int64, error) {
	if len(local) < 8 {
		return 0, v.s.errorf("%w: a latest value has %d bytes", ErrCorrupt, len(local))
	}
	return int64(binary.BigEndian.Uint64(local)), nil
}

// putLatest makes a version the newest of its key.
func (v *VersionedStore) putLatest(key, value []byte, tsMs int64, replaces bool) {
	if value == nil {
		if replaces {
			v.s.writePoint(key, nil)
		}
		v.s.writeRow(key, tsMs, extraOpen, empty)
		return
	}
	v.row = append(codec.AppendStamp(v.row[:0], tsMs), value...)
	v.s.writePoint(key, v.row)
}

// close writes a version that another one has followed.
func (v *VersionedStore) close(key, value []byte, fromMs, toMs int64) {
	flag := byte(flagValue)
	if value == nil {
		flag = flagDeleted
	}
	v.row = append(v.row[:0], flag)
	v.row = binary.BigEndian.AppendUint64(v.row, uint64(fromMs))
	v.row = append(v.row, value...)
	v.s.writeRow(key, toMs, extraClosed, v.row)
}

// putBefore writes a version that another one follows, the newest of which starts at latestMs.
func (v *VersionedStore) putBefore(key, value []byte, tsMs, latestMs int64) error {
	old, found, err := v.heldAt(key, tsMs, latestMs)
	if err != nil {
		return err
	}
	switch {
	case !found:
		v.close(key, value, tsMs, latestMs)
	case old.FromMs > tsMs: // nothing is known before the first version
		v.close(key, value, tsMs, old.FromMs)
	default:
		v.close(key, value, tsMs, old.ToMs)
		if old.FromMs < tsMs {
			v.close(key, old.Value, old.FromMs, tsMs)
		}
	}
	return nil
}

// heldAt finds the first closed version that ends behind a time: the one that held then, unless it starts later. Its value
// is valid until the next call.
func (v *VersionedStore) heldAt(key []byte, tsMs, latestMs int64) (out Version, found bool, err error) {
	it, err := v.s.fetchRows(rowQuery{key: key, from: tsMs + 1, to: latestMs, maxExtra: extraClosed, brief: true})
	if err != nil {
		return out, false, err
	}
	if it.Next() {
		found = true
		v.hold = append(v.hold[:0], it.row.val...)
		out, err = v.closed(v.hold, it.row.time)
	} else {
		err = it.Err()
	}
	if e := it.Close(); err == nil {
		err = e
	}
	return out, found && err == nil, err
}

// closed reads the row of a version that ended at a time.
func (v *VersionedStore) closed(row []byte, toMs int64) (Version, error) {
	if len(row) < closedHead {
		return Version{}, v.s.errorf("%w: a version has %d bytes", ErrCorrupt, len(row))
	}
	out := Version{FromMs: int64(binary.BigEndian.Uint64(row[1:])), ToMs: toMs}
	if row[0] != flagDeleted {
		out.Value = row[closedHead:]
	}
	return out, nil
}

// deletedSince tells from when on a key without a latest value is known to be deleted.
func (v *VersionedStore) deletedSince(key []byte) (fromMs int64, deleted bool, err error) {
	it, err := v.s.fetchRows(rowQuery{key: key, from: math.MinInt64, to: math.MaxInt64, maxExtra: math.MaxUint64, reverse: true, brief: true})
	if err != nil {
		return 0, false, err
	}
	if it.Next() {
		fromMs, deleted = it.row.time, it.row.extra == extraOpen
	} else {
		err = it.Err()
	}
	if e := it.Close(); err == nil {
		err = e
	}
	return fromMs, deleted, err
}

// Get returns the latest version of a key; ok is false where the key has none, or was deleted. The value is valid until the
// next call on the Set and must not be changed.
func (v *VersionedStore) Get(key []byte) (out Version, ok bool, err error) {
	latest, has, err := v.s.getPoint(key)
	if err != nil || !has {
		return out, false, err
	}
	if out.FromMs, err = v.stamp(latest); err != nil {
		return out, false, err
	}
	out.Value, out.ToMs = latest[8:], Open
	return out, true, nil
}

// GetAsOf returns the version of a key that held at a time; ok is false where there was none or the key was deleted then,
// and where the time lies before the history and the version is not the latest. The value is valid until the next call on
// the Set and must not be changed.
func (v *VersionedStore) GetAsOf(key []byte, tsMs int64) (out Version, ok bool, err error) {
	latestMs := Open
	latest, has, err := v.Get(key)
	if err != nil {
		return out, false, err
	}
	if has {
		if latest.FromMs <= tsMs {
			return latest, true, nil
		}
		latestMs = latest.FromMs
	}
	if v.s.high == noObserved || tsMs == Open || !v.s.takesVersion(tsMs) {
		return out, false, nil
	}
	out, ok, err = v.heldAt(key, tsMs, latestMs)
	if err != nil || !ok || out.FromMs > tsMs || out.Value == nil {
		return Version{}, false, err
	}
	return out, true, nil
}

// History walks the versions of a key that held at some time from fromMs to toMs, both included, newest first or, with
// ascending, oldest first. Deletions are left out. Of the past only what lies within the history is shown; the latest
// version always is, if it started at toMs or before. What fn gets is valid until it returns; fn must not use the set.
func (v *VersionedStore) History(key []byte, fromMs, toMs int64, ascending bool, fn func(Version) error) error {
	if fromMs > toMs {
		return nil
	}
	latest, has, err := v.Get(key)
	if err != nil {
		return err
	}
	latestMs := Open
	if has {
		latestMs = latest.FromMs
		v.hold = append(v.hold[:0], latest.Value...)
		latest.Value = v.hold
	}
	show := has && latest.FromMs <= toMs
	if show && !ascending {
		if err := fn(latest); err != nil {
			return err
		}
	}
	if v.s.high != noObserved && v.s.takesVersion(toMs) {
		if v.s.high-v.s.spec.RetentionMs > fromMs {
			fromMs = v.s.high - v.s.spec.RetentionMs
		}
		if err := v.walkClosed(key, fromMs, toMs, latestMs, ascending, fn); err != nil {
			return err
		}
	}
	if show && ascending {
		return fn(latest)
	}
	return nil
}

func (v *VersionedStore) walkClosed(key []byte, fromMs, toMs, latestMs int64, ascending bool, fn func(Version) error) error {
	if fromMs == Open {
		return nil
	}
	it, err := v.s.fetchRows(rowQuery{key: key, from: fromMs + 1, to: latestMs, maxExtra: extraClosed, reverse: !ascending, brief: true})
	if err != nil {
		return err
	}
	for it.Next() {
		var c Version
		if c, err = v.closed(it.row.val, it.row.time); err != nil {
			break
		}
		if c.FromMs > toMs || c.Value == nil {
			continue
		}
		if err = fn(c); err != nil {
			break
		}
	}
	if err == nil {
		err = it.Err()
	}
	if e := it.Close(); err == nil {
		err = e
	}
	return err
}

// restoreVersion takes a record of the changelog into the private layer, which a restore uses as its chunk. limit is how far
// it may move the observed time. It tells whether the record was within the history.
func (s *store) restoreVersion(v *VersionedStore, rec *RestoreRecord, limit int64) (taken bool, err error) {
	if rec.TimestampMs < 0 {
		return false, fmt.Errorf("its changelog holds a record with the timestamp %d: %w", rec.TimestampMs, ErrCorrupt)
	}
	if !s.takesVersion(rec.TimestampMs) {
		return false, nil
	}
	s.observe(min(rec.TimestampMs, limit))
	_, err = v.put(rec.Key, rec.Value, rec.TimestampMs)
	return err == nil, err
}
