package state

import (
	"errors"
	"fmt"
	"testing"
)

// TestSetsSideBySide has several goroutines, each with a set of its own, on one DB; others list, drop, and maintain.
func TestSetsSideBySide(t *testing.T) {
	opts := memOptions()
	opts.MemTableFlushMs = 1
	db := openDB(t, opts)
	const workers, rounds = 4, 60
	errs := make(chan error, workers+1)
	for w := range workers {
		go func() { errs <- workOn(db, fmt.Sprintf("0_%d", w), rounds) }()
	}
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				errs <- nil
				return
			default:
			}
			if _, err := db.Tasks(); err != nil {
				errs <- err
				return
			}
			if err := errors.Join(db.Maintain(), db.DropTask("none")); err != nil {
				errs <- err
				return
			}
			db.DiskBytes()
		}
	}()
	for range workers {
		must(t, <-errs)
	}
	close(stop)
	must(t, <-errs)
	must(t, db.Close())
}

// workOn is the life of one task.
func workOn(db *DB, task string, rounds int64) error {
	specs := []Spec{kvSpec("a"), {Name: "w", Kind: Window, RetentionMs: 50, Persistent: true, Logged: true}, {Name: "m", Kind: KeyValue}}
	for life := range 3 {
		set, err := db.OpenSet(task, specs, nil)
		if err != nil {
			return err
		}
		kv, err := set.KeyValue("a")
		if err != nil {
			return err
		}
		w, err := set.Window("w")
		if err != nil {
			return err
		}
		for i := range rounds {
			if err := kv.Put(fmt.Append(nil, i%20), fmt.Append(nil, task, life, i)); err != nil {
				return err
			}
			if _, err := w.Put([]byte("k"), i, 0, []byte(task)); err != nil {
				return err
			}
			at := Position{Offset: int64(life)*rounds + i + 1}
			if err := set.Seal(set.HandOver(), map[string]Position{"a": at, "w": at}); err != nil {
				return err
			}
			if i%7 == 0 {
				if err := set.Flush(); err != nil {
					return err
				}
			}
			v, ok, err := kv.Get(fmt.Append(nil, i%20))
			if err != nil || !ok || string(v) != fmt.Sprint(task, life, i) {
				return fmt.Errorf("%s reads %q, %v, %w", task, v, ok, err)
			}
		}
		it, err := w.Fetch([]byte("k"), 0, 1000, false)
		if err != nil {
			return err
		}
		n := 0
		for it.Next() {
			n++
		}
		if n != 50 || it.Err() != nil {
			return fmt.Errorf("%s has %d windows, %w", task, n, it.Err())
		}
		if err := errors.Join(it.Close(), set.Close()); err != nil {
			return err
		}
	}
	return db.DropTask(task)
}

// TestAbandon takes the handles away from a goroutine that goes on reading and writing. What it holds stays intact, it
// comes to an error, and the stores can be opened again and the DB closed beside it.
func TestAbandon(t *testing.T) {
	db := openDB(t, memOptions())
	specs := []Spec{kvSpec("a"), {Name: "w", Kind: Window, RetentionMs: 1 << 40, SegmentMs: 10, Persistent: true, Logged: true}}
	set := openSet(t, db, testTask, specs...)
	kv, w := kvOf(t, set, "a"), windowOf(t, set, "w")
	for i := range int64(2000) {
		must(t, kv.Put(fmt.Appendf(nil, "key-%04d", i), fmt.Appendf(nil, "value-%04d", i)))
		_, err := w.Put([]byte("k"), i, 0, fmt.Appendf(nil, "value-%04d", i))
		must(t, err)
	}
	at := Position{Offset: 1}
	must(t, set.Seal(set.HandOver(), map[string]Position{"a": at, "w": at}))
	must(t, set.Flush())
	must(t, kv.Put([]byte("unsealed"), nil))
	must(t, set.Seal(set.HandOver(), map[string]Position{"a": {Offset: 2}, "w": {Offset: 2}}))

	running := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		for n := 0; ; n++ {
			err := orphan(kv, w)
			if n == 0 {
				close(running)
			}
			if err != nil {
				done <- err
				return
			}
		}
	}()
	<-running
	set.Abandon()
	set.Abandon()
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Fatalf("the orphan ends with %v", err)
	}
	if set.HandOver() != nil {
		t.Fatal("an abandoned set hands over a unit")
	}
	if err := set.Close(); !errors.Is(err, ErrClosed) {
		t.Fatalf("closing an abandoned set returns %v", err)
	}
	set = openSet(t, db, testTask, specs...)
	wantValue(t, kvOf(t, set, "a"), "key-1999", "value-1999")
	wantNone(t, kvOf(t, set, "a"), "unsealed")
	if p, _ := set.Position("a"); p.Offset != 1 {
		t.Fatalf("the position is %v", p)
	}
	must(t, db.Close())
}

// orphan reads and writes until it is stopped.
func orphan(kv *KV, w *WindowStore) error {
	it, err := kv.Range(nil, nil, false)
	if err != nil {
		return err
	}
	defer it.Close()
	fetched, err := w.Fetch([]byte("k"), 0, 5000, true)
	if err != nil {
		return err
	}
	defer fetched.Close()
	for i := 0; it.Next(); i++ {
		if string(it.Key()) != "unsealed" && string(it.Value()) != "value-"+string(it.Key()[4:]) {
			return fmt.Errorf("%s is %q", it.Key(), it.Value())
		}
		if fetched.Next() && string(fetched.Value()) != fmt.Sprintf("value-%04d", fetched.StartMs()) {
			return fmt.Errorf("window %d is %q", fetched.StartMs(), fetched.Value())
		}
		if _, _, err := kv.Get([]byte("key-0100")); err != nil {
			return err
		}
		if err := kv.Put([]byte("unsealed"), []byte("x")); err != nil {
			return err
		}
		// A row that was returned before the handles were taken away stays what it is.
		if k := it.Key(); k != nil && string(k) != "unsealed" && string(it.Value()) != "value-"+string(k[4:]) {
			return fmt.Errorf("afterwards %s is %q", it.Key(), it.Value())
		}
	}
	return errors.Join(it.Err(), fetched.Err())
}

// TestCloseFlushes: DB.Close flushes the sets that are still open, and abandons nothing that was sealed.
func TestCloseFlushes(t *testing.T) {
	opts := memOptions()
	db := openDB(t, opts)
	set := openSet(t, db, testTask, kvSpec("a"))
	must(t, kvOf(t, set, "a").Put([]byte("k"), []byte("sealed")))
	commit(t, set, "a", 1)
	must(t, kvOf(t, set, "a").Put([]byte("k"), []byte("private")))
	must(t, db.Close())
	if _, err := db.OpenSet(testTask, []Spec{kvSpec("a")}, nil); !errors.Is(err, ErrClosed) {
		t.Fatalf("OpenSet of a closed DB returns %v", err)
	}
	for _, err := range []error{db.Maintain(), db.DropTask("x"), func() error { _, err := db.Tasks(); return err }()} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("a closed DB returns %v", err)
		}
	}
	set = openSet(t, openDB(t, opts), testTask, kvSpec("a"))
	wantValue(t, kvOf(t, set, "a"), "k", "sealed")
}
