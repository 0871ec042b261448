package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func records(pairs ...string) []RestoreRecord {
	var list []RestoreRecord
	for i := 0; i < len(pairs); i += 2 {
		r := RestoreRecord{Key: []byte(pairs[i]), TimestampMs: int64(i)}
		if pairs[i+1] != "~" {
			r.Value = []byte(pairs[i+1])
		}
		list = append(list, r)
	}
	return list
}

func restore(t testing.TB, set *Set, store string, end int64, recs []RestoreRecord) RestoreSummary {
	t.Helper()
	r, err := set.BeginRestore(store)
	must(t, err)
	must(t, r.Apply(recs, Position{Offset: end, Epoch: 4}))
	sum, err := r.Finish(Position{Offset: end, Epoch: 4})
	must(t, err)
	return sum
}

// TestC072_DeleteThenRecreate: within one chunk deletions and values count in the order of the changelog.
func TestC072_DeleteThenRecreate(t *testing.T) {
	engines(t, func(t *testing.T, open func(Spec) *Set) {
		set := open(Spec{Name: "a", Kind: KeyValue})
		restore(t, set, "a", 6, records("1", "A", "2", "B", "2", "~", "2", "C", "3", "X", "3", "~"))
		kv := kvOf(t, set, "a")
		it, err := kv.Range(nil, nil, false)
		wantList(t, list(t, it, err), "1="+string(stamped(0, []byte("A"))), "2="+string(stamped(6, []byte("C"))))
		if p, ok := set.Position("a"); !ok || p != (Position{6, 4}) {
			t.Fatalf("position is %v, %v", p, ok)
		}
		// The second chunk deletes what the first has set, and sets what it has deleted.
		restore(t, set, "a", 9, records("1", "~", "3", "Y", "2", "~"))
		it, err = kv.Range(nil, nil, false)
		wantList(t, list(t, it, err), "3="+string(stamped(2, []byte("Y"))))
	})
}

func windowKey(key string, start int64, seq uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64([]byte(key), uint64(start)), seq)
}

// TestRestoreWindows converts changelog keys, keeps sequence numbers apart (C079), skips what has expired and recovers the
// highest start.
func TestRestoreWindows(t *testing.T) {
	engines(t, func(t *testing.T, open func(Spec) *Set) {
		set := open(Spec{Name: "w", Kind: Window, RetentionMs: 100, SegmentMs: 10})
		sum := restore(t, set, "w", 9, []RestoreRecord{
			{Key: windowKey("k", 0, 0), Value: []byte("expires"), TimestampMs: 5},
			{Key: windowKey("k", 60, 1), Value: []byte("l"), TimestampMs: 62},
			{Key: windowKey("k", 60, 2), Value: []byte("l2"), TimestampMs: 61},
			{Key: windowKey("k", 160, 0), Value: nil, TimestampMs: 900},
			{Key: windowKey("k", 60, 3), Value: []byte("late"), TimestampMs: 63},
			{Key: windowKey("kk", 61, 1), Value: []byte("other"), TimestampMs: 61},
			{Key: nil, Value: []byte("no key")},
		})
		w := windowOf(t, set, "w")
		if got := w.ObservedStartMs(); got != 160 {
			t.Fatalf("observed start is %d", got)
		}
		wantList(t, fetch(t, w, "k", 0, 500, false))
		wantList(t, fetch(t, w, "kk", 0, 500, false), "kk@61="+string(stamped(61, []byte("other"))))
		want := RestoreSummary{Records: 7, Skipped: 2, Bytes: 104, HighestTimestampMs: 900, HighestTimeMs: 160}
		want.Rows = 5
		if set.db != nil {
			want.Rows = 1 // all but kk@61 expired within the chunk, and the deletion has nothing to delete
		}
		if sum != want {
			t.Fatalf("summary is %+v, want %+v", sum, want)
		}
	})
}

// TestRestoreWindows_limitedTime: a changelog that is ahead of the input does not move the time beyond the limit, so nothing
// that the input still adds to expires. Rows ahead are kept.
func TestRestoreWindows_limitedTime(t *testing.T) {
	for limit, want := range map[int64]struct {
		observed int64
		visible  []int64
	}{
		NoTime: {NoTime, []int64{100, 250, 300, 900}},
		310:    {300, []int64{250, 300, 900}},
		349:    {300, []int64{250, 300, 900}},
		1000:   {900, []int64{900}},
	} {
		engines(t, func(t *testing.T, open func(Spec) *Set) {
			set := open(Spec{Name: "w", Kind: Window, RetentionMs: 100, SegmentMs: 10})
			r, err := set.BeginRestore("w")
			must(t, err)
			r.LimitTime(limit)
			var recs []RestoreRecord
			for _, start := range []int64{100, 250, 300, 900} {
				recs = append(recs, RestoreRecord{Key: windowKey("k", start, 0), Value: []byte("v"), TimestampMs: start})
			}
			must(t, r.Apply(recs, Position{Offset: 4}))
			_, err = r.Finish(Position{Offset: 4})
			must(t, err)
			w := windowOf(t, set, "w")
			var visible []int64
			for _, start := range []int64{100, 250, 300, 900} {
				_, ok, err := w.Get([]byte("k"), start, 0)
				must(t, err)
				if ok {
					visible = append(visible, start)
				}
			}
			if fmt.Sprint(visible) != fmt.Sprint(want.visible) {
				t.Errorf("limit %d: visible are %v, want %v", limit, visible, want.visible)
			}
			if got := w.ObservedStartMs(); limit == NoTime && got != NoTime || limit != NoTime && (got < want.observed || got > limit) {
				t.Errorf("limit %d: observed is %d, want %d", limit, got, want.observed)
			}
		})
	}
}

func TestRestoreSessions(t *testing.T) {
	engines(t, func(t *testing.T, open func(Spec) *Set) {
		set := open(Spec{Name: "s", Kind: Session, RetentionMs: 1000})
		key := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte("k"), 40), 10)
		restore(t, set, "s", 1, []RestoreRecord{{Key: key, Value: []byte("v"), TimestampMs: 40}})
		s, err := set.Session("s")
		must(t, err)
		v, ok, err := s.Get([]byte("k"), 10, 40)
		must(t, err)
		if !ok || string(v) != string(stamped(40, []byte("v"))) {
			t.Fatalf("the session is %q, %v", v, ok)
		}
	})
}

func TestRestoreRefusesForeignKeys(t *testing.T) {
	engines(t, func(t *testing.T, open func(Spec) *Set) {
		for _, kind := range []Kind{Window, Session} {
			set := open(Spec{Name: "w", Kind: kind, RetentionMs: 100})
			r, err := set.BeginRestore("w")
			must(t, err)
			if err := r.Apply(records("short", "v"), Position{Offset: 1}); err == nil {
				t.Errorf("a %s store took a key of five bytes", kind)
			}
		}
	})
}

// TestRestoreIsWrittenBelow: a restore flushes what is sealed first, and refuses to go below what is not decided.
func TestRestoreIsWrittenBelow(t *testing.T) {
	engines(t, func(t *testing.T, open func(Spec) *Set) {
		set := open(Spec{Name: "a", Kind: KeyValue})
		kv := kvOf(t, set, "a")
		must(t, kv.Put([]byte("k"), []byte("sealed")))
		commit(t, set, "a", 5)
		must(t, kv.Put([]byte("k"), []byte("private")))
		if _, err := set.BeginRestore("a"); err == nil {
			t.Fatal("a restore began under private writes")
		}
		u := set.HandOver()
		if _, err := set.BeginRestore("a"); err == nil {
			t.Fatal("a restore began under a pending unit")
		}
		must(t, set.Discard(u))
		restore(t, set, "a", 7, records("k", "replayed"))
		wantValue(t, kv, "k", string(stamped(0, []byte("replayed"))))
		must(t, set.Flush())
		wantValue(t, kv, "k", string(stamped(0, []byte("replayed"))))
	})
}

func TestRestoreFromStartNeedsAnEmptyStore(t *testing.T) {
	engines(t, func(t *testing.T, open func(Spec) *Set) {
		set := open(Spec{Name: "a", Kind: KeyValue})
		kv := kvOf(t, set, "a")
		must(t, kv.Put([]byte("k"), []byte("v")))
		must(t, set.Seal(set.HandOver(), nil))
		if _, err := set.BeginRestore("a"); err == nil {
			t.Fatal("a restore from the start began over rows")
		}
		must(t, set.Reset("a", UnknownChangelog(), "test"))
		wantNone(t, kv, "k")
		restore(t, set, "a", 1, records("x", "1"))
		wantNone(t, kv, "k")
	})
}

func TestRestorerEnds(t *testing.T) {
	engines(t, func(t *testing.T, open func(Spec) *Set) {
		set := open(Spec{Name: "a", Kind: KeyValue})
		r, err := set.BeginRestore("a")
		must(t, err)
		if _, err := set.BeginRestore("a"); err == nil {
			t.Fatal("a store was restored twice at once")
		}
		_, err = r.Finish(Position{Offset: 3})
		must(t, err)
		r.Stop()
		if err := r.Apply(nil, Position{}); !errors.Is(err, ErrClosed) {
			t.Fatalf("after its end a restorer returns %v", err)
		}
		if p, ok := set.Position("a"); !ok || p.Offset != 3 {
			t.Fatalf("position is %v, %v", p, ok)
		}
	})
}

// Rows beyond the limit of a restore count for the observed time as soon as the limit has come to them: in the same restore, in a
// later one that reads nothing more, and after the store was closed and opened again.
func TestRestoreLimitComesLater(t *testing.T) {
	rows := func() []RestoreRecord {
		var recs []RestoreRecord
		for _, start := range []int64{100, 900} {
			recs = append(recs, RestoreRecord{Key: windowKey("k", start, 0), Value: []byte("v"), TimestampMs: start})
		}
		return recs
	}
	want := func(t *testing.T, set *Set, observed int64) {
		t.Helper()
		if got := windowOf(t, set, "w").ObservedStartMs(); got != observed {
			t.Errorf("observed is %d, want %d", got, observed)
		}
	}
	again := func(t *testing.T, set *Set, limit int64) {
		t.Helper()
		r, err := set.BeginRestore("w")
		must(t, err)
		r.LimitTime(limit)
		_, err = r.Finish(Position{Offset: 2})
		must(t, err)
	}
	spec := Spec{Name: "w", Kind: Window, RetentionMs: 1000, SegmentMs: 10, Logged: true}
	engines(t, func(t *testing.T, open func(Spec) *Set) {
		set := open(spec)
		r, err := set.BeginRestore("w")
		must(t, err)
		r.LimitTime(200)
		must(t, r.Apply(rows(), Position{Offset: 2}))
		must(t, r.Flush())
		want(t, set, 200)
		r.LimitTime(300)
		_, err = r.Finish(Position{Offset: 2})
		must(t, err)
		want(t, set, 300)
		again(t, set, 400)
		want(t, set, 400)
		again(t, set, 5000)
		want(t, set, 900)
	})
	fs := vfs.NewMem()
	opts := testOptions(fs, func() int64 { return 1_000_000 })
	spec.Persistent = true
	db := openDB(t, opts)
	set := openSet(t, db, testTask, spec)
	r, err := set.BeginRestore("w")
	must(t, err)
	r.LimitTime(200)
	must(t, r.Apply(rows(), Position{Offset: 2}))
	_, err = r.Finish(Position{Offset: 2})
	must(t, err)
	must(t, set.Close())
	must(t, db.Close())
	db = openDB(t, opts)
	set = openSet(t, db, testTask, spec)
	again(t, set, 5000)
	want(t, set, 900)
	must(t, set.Close())
}

// TestRestoreLarge restores through many ingested tables, with every key many times over, then goes on from the middle of
// it after a crash.
func TestRestoreLarge(t *testing.T) {
	fs := vfs.NewCrashableMem()
	opts := testOptions(fs, func() int64 { return 1_000_000 })
	opts.RestoreChunkBytes, opts.ingestBytes = 64<<10, 1<<10
	db := openDB(t, opts)
	set := openSet(t, db, testTask, kvSpec("a"))
	const n, keys = 50_000, 5_000
	log := make([]RestoreRecord, n)
	want := map[string]string{}
	for i := range log {
		k := fmt.Sprintf("key-%05d", (i*7919)%keys)
		log[i] = RestoreRecord{Key: []byte(k), TimestampMs: int64(i), Value: fmt.Append(nil, "value-", i)}
		if i%11 == 0 {
			log[i].Value = nil
		}
	}
	apply := func(upTo int64) {
		for i := range log[:upTo] {
			if log[i].Value == nil {
				delete(want, string(log[i].Key))
			} else {
				want[string(log[i].Key)] = string(stamped(int64(i), log[i].Value))
			}
		}
	}
	verify := func(set *Set) {
		t.Helper()
		it, err := kvOf(t, set, "a").Range(nil, nil, false)
		must(t, err)
		rows := 0
		for ; it.Next(); rows++ {
			if want[string(it.Key())] != string(it.Value()) {
				t.Fatalf("%s is %q, want %q", it.Key(), it.Value(), want[string(it.Key())])
			}
		}
		must(t, it.Err())
		must(t, it.Close())
		if rows != len(want) {
			t.Fatalf("%d rows, want %d", rows, len(want))
		}
	}
	r, err := set.BeginRestore("a")
	must(t, err)
	for at := 0; at < n*2/3; at += 500 {
		must(t, r.Apply(log[at:at+500], Position{Offset: int64(at + 500)}))
	}
	if got := db.p.Metrics().Ingest.Count; got < 10 {
		t.Fatalf("%d tables were ingested", got)
	}
	clone := fs.CrashClone(vfs.CrashCloneCfg{})
	must(t, db.Close())
	opts.FS = clone
	db = openDB(t, opts)
	set = openSet(t, db, testTask, kvSpec("a"))
	p, ok := set.Position("a")
	if !ok || p.Offset == 0 || p.Offset > n*2/3 {
		t.Fatalf("after a crash the position is %v, %v", p, ok)
	}
	apply(p.Offset)
	verify(set)
	restore(t, set, "a", n, log[p.Offset:])
	clear(want)
	apply(n)
	verify(set)
	names, err := clone.List(clone.PathJoin("state", ingestDir))
	must(t, err)
	if len(names) != 0 {
		t.Fatalf("files to be ingested are left: %v", names)
	}
}

// TestRestoreSideBySide restores several stores of a set at the same time, as the race detector sees it.
func TestRestoreSideBySide(t *testing.T) {
	var specs []Spec
	for i := range 4 {
		s := kvSpec(fmt.Sprint("s", i))
		s.Persistent = i < 3
		specs = append(specs, s)
	}
	set := openSet(t, openDB(t, memOptions()), testTask, specs...)
	done := make(chan error)
	for _, s := range specs {
		r, err := set.BeginRestore(s.Name)
		must(t, err)
		go func() {
			var err error
			for i := range int64(300) {
				rec := RestoreRecord{Key: fmt.Append(nil, i), Value: []byte(s.Name), TimestampMs: i}
				if e := r.Apply([]RestoreRecord{rec}, Position{Offset: i + 1}); e != nil {
					err = e
				}
			}
			if _, e := r.Finish(Position{Offset: 300}); e != nil {
				err = e
			}
			done <- err
		}()
	}
	for range specs {
		must(t, <-done)
	}
	for _, s := range specs {
		n, err := kvOf(t, set, s.Name).ApproximateEntries()
		must(t, err)
		if p, _ := set.Position(s.Name); p.Offset != 300 || n != 300 {
			t.Fatalf("%s stands at %v with %d rows", s.Name, p, n)
		}
	}
}
