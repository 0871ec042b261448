package state

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/serde"
)

// RestoreRecord is one record of a changelog, in the form of the topic.
type RestoreRecord struct {
	Key         []byte // as on the topic; a record without key is skipped
	Value       []byte // nil deletes
	TimestampMs int64
	Headers     serde.Headers // of use to a store that keeps headers
}

// RestoreSummary says what a restore has seen so far.
type RestoreSummary struct {
	Records int64 // read
	Skipped int64 // of them, those with an expired row or without a key
	Rows    int64 // written to the base, deletions included; on disk without what a later record of the chunk superseded
	Bytes   int64 // of keys and values read

	HighestTimestampMs int64 // of the records, those of earlier restores of the store included; NoTime if there was none
	HighestTimeMs      int64 // highest window start or session end, NoTime if there was none
}

// Restorer writes a changelog into the base of a store, below everything that is sealed. Records become local rows: a
// value is stored as its timestamp (int64, big-endian) followed by the changelog's value, behind the record's headers if the
// store keeps them, and the keys of windows and
// sessions are taken apart. Deletions that belong to the same chunk as what they delete or what sets the key again are
// applied in the order of the changelog.
//
// Records are gathered until a chunk is full; of each key only the newest is kept. The chunk is then sorted and written at
// once with the position behind it, as a table that Pebble takes in whole (ingestion), or as a batch if it is small.
//
// A Restorer belongs to one goroutine at a time. Those of different stores of a set may be used side by side, as long as
// nobody uses the set otherwise.
type Restorer struct {
	s       *store
	rows    *points // of the chunk: local key -> local value; a versioned store gathers it in its private layer
	version *VersionedStore
	next    Position
	dirty   bool // next is ahead of what is written
	empty   bool // nothing was in the store and nothing is written: there is nothing to delete
	done    bool
	sum     RestoreSummary
	high    int64
	seq     int64 // highest sequence number of the records, 0 if they have none
	limit   int64 // high does not follow records beyond it
	seen    int64 // highest time of the records, beyond the limit too
	key     []byte
	value   []byte
	inPlace bool
}

// defaultIngestBytes is the size from which on a chunk is ingested. Below it a batch is cheaper than a file.
const defaultIngestBytes = 256 << 10

// BeginRestore starts to write a store's changelog into it, from Position on, or from the start of the changelog if there
// is none. Sealed units are flushed first, because the restore is written below them; private and pending writes must
// have been sealed or dropped. A store is restored by one Restorer at a time.
func (s *Set) BeginRestore(store string) (*Restorer, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	st, err := s.find(store)
	if err != nil {
		return nil, err
	}
	if st.restoring {
		return nil, st.errorf("it is being restored already")
	}
	if !st.private.isEmpty() || len(st.pending) > 0 {
		return nil, st.errorf("it cannot be restored while writes of it are undecided")
	}
	if !st.sealed.isEmpty() {
		if err := s.flush(false); err != nil {
			return nil, err
		}
	}
	r := &Restorer{
		s: st, rows: newPoints(false, 0), high: st.base.observed(), limit: math.MaxInt64, seen: st.base.observed(),
		sum: RestoreSummary{HighestTimestampMs: NoTime, HighestTimeMs: NoTime},
	}
	if ms, ok := st.base.meta(restoredMeta); ok {
		r.sum.HighestTimestampMs = ms
	}
	if ahead, ok := st.base.meta(aheadMeta); ok {
		r.seen = max(r.seen, ahead)
	}
	if st.spec.Kind == Versioned {
		r.version = &VersionedStore{s: st}
	}
	if !st.hasPosition {
		n, err := st.base.count()
		if err != nil {
			return nil, err
		}
		if n > 0 {
			return nil, st.errorf("it holds rows and stands for no position in its changelog: it must be emptied by Reset first")
		}
		r.empty = true
		// From here on the store counts as level with the changelog as it is now: the log keeps deletions long enough for a
		// reader that starts now.
		st.levelMs = max(st.levelMs, s.nowMs())
	}
	st.restoring, st.level = true, false
	return r, nil
}

// LimitTime keeps rows whose time is beyond ms from moving the store's observed time; NoTime keeps all from it. Under
// at-least-once a changelog runs ahead of the committed input: what expires must follow the input's time, or rows that the
// input still adds to would be gone when it is read again. It comes before the first Apply, and again, with a later time, as the
// input goes on.
func (r *Restorer) LimitTime(ms int64) {
	if ms == NoTime {
		ms = noObserved
	}
	r.limit = ms
	if r.seen == noObserved {
		return
	}
	was := r.high
	r.observe(r.seen)
	if r.high > was && !r.dirty { // to be written, though nothing may come any more
		r.next, r.dirty = r.s.position, true
	}
}

// observe moves the observed time up to a record's, as far as the limit lets it.
func (r *Restorer) observe(time int64) {
	r.seen = max(r.seen, time)
	if r.version != nil {
		r.s.observe(min(r.seen, r.limit))
		r.high = r.s.high
		return
	}
	r.high = max(r.high, min(r.seen, r.limit))
}

func (s *Set) nowMs() int64 {
	if s.db == nil {
		return NoTime
	}
	return s.db.opts.Now()
}

// Apply takes records in the order of the changelog. next is the position behind them; it may be ahead of the last
// record's, and records may be empty. What it keeps it copies. It writes when a chunk is full, so it may block on the disk.
func (r *Restorer) Apply(records []RestoreRecord, next Position) error {
	if err := r.check(); err != nil {
		return err
	}
	r.inPlace = r.s.iters == 0
	for i := range records {
		if err := r.add(&records[i]); err != nil {
			return err
		}
	}
	r.next, r.dirty = next, true
	if r.s.memory != nil {
		r.settle()
		return nil
	}
	if r.size() >= r.s.set.db.opts.RestoreChunkBytes {
		return r.Flush()
	}
	return nil
}

func (r *Restorer) check() error {
	if r.done {
		return r.s.errorf("its restore has ended: %w", ErrClosed)
	}
	return r.s.set.check()
}

// add converts one record and takes it into the chunk.
func (r *Restorer) add(rec *RestoreRecord) error {
	r.sum.Records++
	r.sum.Bytes += int64(len(rec.Key) + len(rec.Value))
	r.sum.HighestTimestampMs = max(r.sum.HighestTimestampMs, rec.TimestampMs)
	if rec.Key == nil {
		r.sum.Skipped++
		return nil
	}
	s := r.s
	var value []byte
	if rec.Value != nil {
		r.value = r.value[:0]
		if s.spec.KeepHeaders {
			r.value = codec.AppendHeaders(r.value, len(rec.Headers), func(i int) (string, []byte) {
				return rec.Headers[i].Key, rec.Headers[i].Value
			})
		}
		r.value = append(codec.AppendStamp(r.value, rec.TimestampMs), rec.Value...)
		value = r.value
	}
	switch s.spec.Kind {
	case Versioned:
		taken, err := s.restoreVersion(r.version, rec, r.limit)
		if err != nil {
			return s.errorf("restore: %w", err)
		}
		if r.high = s.high; taken {
			r.seen = max(r.seen, rec.TimestampMs)
		}
		if !taken {
			r.sum.Skipped++
		}
		return nil
	case KeyValue:
		if s.memory != nil {
			r.sum.Rows++
			s.memory.putPoint(viewText(rec.Key), value, r.inPlace)
			return nil
		}
		r.rows.put(rec.Key, value, true)
		return nil
	}
	key, time, extra, err := parseChangelogKey(s.spec.Kind, rec.Key)
	if err != nil {
		return s.errorf("its changelog holds a key that it cannot have written, %x: %w", rec.Key, err)
	}
	if s.spec.Kind == Window {
		r.seq = max(r.seq, int64(extra))
	}
	r.observe(time)
	r.sum.HighestTimeMs = max(r.sum.HighestTimeMs, time)
	if r.high != noObserved && time <= r.high-s.spec.RetentionMs {
		r.sum.Skipped++
		return nil
	}
	seg := s.segmentOf(time)
	if s.memory != nil {
		r.sum.Rows++
		s.memory.putRow(seg, viewText(key), row{time, extra, value}, r.inPlace)
		return nil
	}
	r.key = appendLocalRow(r.key[:0], s.spec.Kind, seg, key, time, extra)
	r.rows.put(r.key, value, true)
	return nil
}

// parseChangelogKey takes the changelog key of a window or session store apart.
func parseChangelogKey(kind Kind, b []byte) (key []byte, time int64, extra uint64, err error) {
	if kind == Window {
		key, start, seq, err := codec.ParseWindowKey(b)
		return key, start, uint64(uint32(seq)), err
	}
	n := len(b) - sessionSuffixLen
	if n < 0 {
		return nil, 0, 0, fmt.Errorf("it has %d bytes, end and start alone take %d", len(b), sessionSuffixLen)
	}
	end := int64(binary.BigEndian.Uint64(b[n:]))
	start := int64(binary.BigEndian.Uint64(b[n+8:]))
	return b[:n], end, sortable(start), nil
}

// Summary says what was seen so far.
func (r *Restorer) Summary() RestoreSummary { return r.sum }

// Flush writes what was gathered, so that it is visible and Position moves. A standby calls it when it is level.
func (r *Restorer) Flush() error {
	if err := r.check(); err != nil {
		return err
	}
	if !r.dirty {
		return nil
	}
	if r.s.memory == nil {
		if err := r.write(); err != nil {
			return err
		}
	}
	r.settle()
	return nil
}

// settle takes the chunk's position and times over into the store.
func (r *Restorer) settle() {
	s := r.s
	s.position, s.hasPosition = r.next, true
	r.dirty = false
	if s.memory != nil {
		for _, n := range r.numbers() {
			s.memory.m[n.name] = n.v
		}
		if r.version != nil {
			r.sum.Rows += r.entries()
			s.memory.merge(s.private, s.minSegment())
			s.private = newLayer()
		}
		s.memory.high = max(s.memory.high, r.high)
		s.memory.r.dropBelow(s.spec.minSegment(s.memory.high))
	}
	s.rewind()
}

// aheadMeta is the number of a store's metadata that holds the highest time of the rows that a restore wrote beyond its limit,
// so that the next one moves the observed time to them when its limit comes there.
const aheadMeta = "ahead"

// restoredMeta holds the highest timestamp of the changelog records that were restored: a restore that goes on where another one was
// interrupted does not see them all.
const restoredMeta = "restored"

type number struct {
	name string
	v    int64
}

// numbers is what the store's metadata becomes with the records applied, where it changes, by name.
func (r *Restorer) numbers() (all []number) {
	if known, ok := r.s.base.meta(aheadMeta); r.seen > r.high && (!ok || r.seen > known) {
		all = append(all, number{aheadMeta, r.seen})
	}
	if known, ok := r.s.base.meta(restoredMeta); r.sum.HighestTimestampMs != NoTime && (!ok || r.sum.HighestTimestampMs > known) {
		all = append(all, number{restoredMeta, r.sum.HighestTimestampMs})
	}
	if known, _ := r.s.base.meta(SeqMeta); r.seq > known {
		all = append(all, number{SeqMeta, r.seq})
	}
	return all
}

// Finish writes what is left, with the position at which the restore ended, and ends it. The store is not level by that:
// see Set.SetLevel.
func (r *Restorer) Finish(at Position) (RestoreSummary, error) {
	if err := r.check(); err != nil {
		return r.sum, err
	}
	if !r.s.hasPosition || r.s.position != at || r.dirty {
		r.next, r.dirty = at, true
	}
	if err := r.Flush(); err != nil {
		return r.sum, err
	}
	r.Stop()
	return r.sum, nil
}

// Stop ends the restore without writing what was gathered since the last chunk. After Finish it does nothing.
func (r *Restorer) Stop() {
	if r.done {
		return
	}
	r.done = true
	r.rows = nil
	r.s.restoring = false
	if r.version != nil {
		r.s.private = newLayer()
		r.s.rewind()
	}
}

// size is the memory that the chunk takes.
func (r *Restorer) size() int64 {
	if r.version != nil {
		return r.s.private.size()
	}
	return r.rows.size()
}

// entries is how many entries the private layer of a versioned store has.
func (r *Restorer) entries() int64 {
	n := int64(r.s.private.points.len())
	if r.s.private.rows != nil {
		n += int64(r.s.private.rows.count)
	}
	return n
}

// write writes the chunk to disk.
func (r *Restorer) write() error {
	s, b := r.s, r.s.disk
	size := r.size()
	if err := b.db.checkSpace(size); err != nil {
		return err
	}
	head := s.nextHeader(s.set.nowMs())
	head.Position, head.HasPosition = r.next, true
	head.setObserved(max(head.observed, r.high))

	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone != nil {
		return b.gone
	}
	written := r.sum.Rows
	var err error
	if size < b.db.opts.ingestBytes {
		err = r.writeBatch(head)
	} else {
		err = r.ingest(head)
	}
	if err != nil {
		r.sum.Rows = written
		return b.wrap("restore", err)
	}
	switch {
	case r.version != nil:
		if s.private.rows != nil {
			for id := range s.private.rows.segs {
				b.addSegment(id)
			}
		}
		s.private = newLayer()
	case s.spec.windowed():
		r.rows.each(func(key string, _ []byte) {
			b.addSegment(unsortable(binary.BigEndian.Uint64(viewBytes(key))))
		})
	}
	for _, n := range r.numbers() {
		b.numbers[n.name] = n.v
	}
	b.head = head
	b.dropSegments()
	b.wrote()
	s.positionNew = false
	r.empty = r.empty && r.sum.Rows == written
	r.rows = newPoints(false, min(r.rows.len(), 1<<16))
	return nil
}

// each calls fn with the Pebble key of each row to be written, in order, those that have expired meanwhile left out.
func (r *Restorer) each(fn func(key, val []byte) error) error {
	b := r.s.disk
	if r.version != nil {
		var buf []byte
		return b.entries(r.s.private, &buf, func(key, val []byte) error {
			if val == nil && r.empty {
				return nil
			}
			r.sum.Rows++
			return fn(key, val)
		})
	}
	table := tableOf(r.s.spec.Kind)
	minTime := int64(math.MinInt64)
	if r.s.spec.windowed() && r.high != noObserved {
		minTime = r.high - r.s.spec.RetentionMs + 1
	}
	buf := make([]byte, 0, 64)
	return r.rows.sorted(func(key string, val []byte) error {
		if val == nil && r.empty {
			return nil
		}
		if minTime != math.MinInt64 {
			local := viewBytes(key)
			if time, _ := parseSuffix(local[len(local)-suffixLen(r.s.spec.Kind):], r.s.spec.Kind); time < minTime {
				return nil
			}
		}
		r.sum.Rows++
		buf = append(b.inc.appendTable(buf[:0], table), key...)
		return fn(buf, val)
	})
}

func (r *Restorer) writeBatch(head Header) error {
	b := r.s.disk
	batch := b.db.p.NewBatch()
	err := batch.Set(b.inc.headerKey(), head.append(nil), nil)
	for _, n := range r.numbers() {
		if err == nil {
			err = addMetas(batch, b.inc, map[string]metaValue{n.name: {v: n.v}})
		}
	}
	if err == nil {
		err = b.addExpiry(batch, head.observed)
	}
	if err == nil {
		err = r.each(func(key, val []byte) error { return setOrDelete(batch, key, val) })
	}
	if err != nil {
		_ = batch.Close()
		return err
	}
	return b.db.write(batch)
}

// ingest writes the chunk as a table file and hands that to Pebble. Like every batch of the store it holds the header, so
// it overlaps what Pebble still has in memory of the store, and does not get ahead of that on disk.
func (r *Restorer) ingest(head Header) error {
	b := r.s.disk
	db := b.db
	if err := db.failed(); err != nil {
		return err
	}
	fs := db.opts.FS
	path := fs.PathJoin(db.path(ingestDir), fmt.Sprintf("%d.sst", db.ingests.Add(1)))
	if err := r.writeTable(fs, path, head); err != nil {
		_ = fs.Remove(path)
		return fmt.Errorf("millrace: cannot write %s: %w", path, err)
	}
	if err := db.p.Ingest(db.ctx, []string{path}); err != nil {
		_ = fs.Remove(path)
		return fmt.Errorf("millrace: cannot take %s into the database: %w", path, err)
	}
	db.wrote()
	return db.failed()
}

func (r *Restorer) writeTable(fs vfs.FS, path string, head Header) (err error) {
	b := r.s.disk
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	w := sstable.NewWriter(objstorageprovider.NewFileWritable(f), b.db.popts.MakeWriterOptions(0, b.db.p.TableFormat()))
	defer func() {
		if e := w.Close(); err == nil {
			err = e
		}
	}()
	if err := w.Set(b.inc.headerKey(), head.append(nil)); err != nil {
		return err
	}
	for _, n := range r.numbers() {
		if err := w.Set(b.inc.appendMetaKey(nil, n.name), binary.BigEndian.AppendUint64(nil, uint64(n.v))); err != nil {
			return err
		}
	}
	if start, end, some := b.expiry(head.observed); some {
		if err := w.DeleteRange(start, end); err != nil {
			return err
		}
	}
	return r.each(func(key, val []byte) error {
		if val == nil {
			return w.Delete(key)
		}
		return w.Set(key, val)
	})
}
