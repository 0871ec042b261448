package restore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/broker/brokertest"
	"github.com/millrace-io/millrace/internal/restore"
	"github.com/millrace-io/millrace/internal/state"
)

const (
	in  = "in"
	log = "app-s-changelog"
)

func kv(k, v string) broker.Record {
	r := broker.Record{Key: []byte(k), TimestampMs: 7, LeaderEpoch: 0}
	if v != "" {
		r.Value = []byte(v)
	}
	return r
}

// bench is a task's job over a scripted cluster.
type bench struct {
	*testing.T
	c     *brokertest.Cluster
	nowMs int64
	cfg   restore.Config
	told  []restore.Progress
}

func newBench(t *testing.T) *bench {
	b := &bench{T: t, c: brokertest.New(), nowMs: 1_000_000}
	b.c.AddTopic(in, 1)
	b.c.AddTopic(log, 1)
	b.cfg = restore.Config{
		Task: "0_0", Group: "app", Admin: b.c.Admin(), Reader: b.c.Reader(),
		Inputs: []restore.Input{{TopicPartition: brokertest.TP(in, 0)}},
		Logs:   []restore.Log{{TopicPartition: brokertest.TP(log, 0), Store: "s", Kind: state.KeyValue}},
		Open: func(state.ChangelogIdentity) (*state.Set, error) {
			return state.NewMemorySet([]state.Spec{{Name: "s", Kind: state.KeyValue, Logged: true}})
		},
		NowMs: func() int64 { return b.nowMs }, Progress: func(p restore.Progress) { b.told = append(b.told, p) },
	}
	return b
}

// run steps a job until it is done, at most n times.
func (b *bench) run(j *restore.Job, n int) bool {
	b.Helper()
	for range n {
		done, err := j.Step(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		if done {
			return true
		}
	}
	return false
}

func (b *bench) restore() restore.Result {
	b.Helper()
	j := restore.New(b.cfg)
	if !b.run(j, 100) {
		b.Fatal("the job does not end")
	}
	return j.Result()
}

func (b *bench) want(r restore.Result, rows map[string]string, position int64) {
	b.Helper()
	s, err := r.Set.KeyValue("s")
	if err != nil {
		b.Fatal(err)
	}
	got := make(map[string]string)
	for _, k := range []string{"a", "b", "c", "d"} {
		v, ok, err := s.Get([]byte(k))
		if err != nil {
			b.Fatal(err)
		}
		if ok {
			got[k] = string(v[8:])
		}
	}
	if d := cmp.Diff(rows, got); d != "" {
		b.Errorf("rows (-want +got):\n%s", d)
	}
	if p, ok := r.Set.Position("s"); !ok || p.Offset != position {
		b.Errorf("position %+v %t, want %d", p, ok, position)
	}
}

func TestJob_readsToTheHighWatermark(t *testing.T) {
	b := newBench(t)
	tp := brokertest.TP(log, 0)
	b.c.Append(tp, kv("a", "1"), kv("b", "2"), kv("a", "3"), kv("b", ""))
	b.c.Group("app").Commit(brokertest.TP(in, 0), broker.OffsetMeta{Offset: 0, Metadata: "m"})
	r := b.restore()
	b.want(r, map[string]string{"a": "3"}, 4)
	if r.Committed[brokertest.TP(in, 0)].Metadata != "m" || r.Start[brokertest.TP(in, 0)] != 0 {
		t.Errorf("result %+v", r)
	}
	if d := cmp.Diff(map[string]int64{"s": 7}, r.HighestTimestampMs); d != "" {
		t.Errorf("highest timestamps (-want +got):\n%s", d)
	}
	last := b.told[len(b.told)-1]
	if !last.Done || last.Records != 4 || last.At != 4 || last.End != 4 {
		t.Errorf("progress %+v", last)
	}
}

// A transaction that is open below the mark is waited for: its records may count for the committed offsets. What aborted
// ones wrote is left out.
func TestJob_waitsForOpenTransactions(t *testing.T) {
	for _, commit := range []bool{true, false} {
		b := newBench(t)
		tp := brokertest.TP(log, 0)
		b.c.Append(tp, kv("a", "1"))
		b.c.AppendTxn("x", tp, kv("a", "2"))
		b.c.Append(tp, kv("b", "3"))
		j := restore.New(b.cfg)
		if b.run(j, 50) {
			t.Fatal("done below an open transaction")
		}
		b.c.EndTxn("x", commit)
		b.c.Append(tp, kv("a", "late")) // behind the mark that was taken
		if !b.run(j, 50) {
			t.Fatal("not done after the end of the transaction")
		}
		want := map[string]string{"a": "1", "b": "3"}
		if commit {
			want["a"] = "2"
		}
		b.want(j.Result(), want, 3)
	}
}

// The end of the log is a marker and a compacted gap: the position passes both.
func TestJob_markersAndGapsAtTheEnd(t *testing.T) {
	b := newBench(t)
	tp := brokertest.TP(log, 0)
	b.c.Append(tp, kv("a", "1"), kv("b", "2"), kv("c", "3"))
	b.c.AppendTxn("x", tp, kv("d", "4"))
	b.c.EndTxn("x", false)
	b.c.Remove(tp, 2)
	b.want(b.restore(), map[string]string{"a": "1", "b": "2"}, 5)
}

// The offsets are fetched before the ends are taken, and the fetch waits for transactions that hold one.
func TestJob_orderOfQuestions(t *testing.T) {
	b := newBench(t)
	b.c.Append(brokertest.TP(log, 0), kv("a", "1"))
	b.restore()
	committed, ends, read := -1, -1, -1
	for i, c := range b.c.Calls() {
		switch {
		case c.Op == brokertest.OpCommittedOffsets:
			committed = i
		case c.Op == brokertest.OpListOffsets && c.Partitions[0].Topic == log:
			ends = i
		case c.Op == brokertest.OpRead && read < 0:
			read = i
		}
	}
	if committed < 0 || ends < committed || read < ends {
		t.Errorf("offsets were asked for at %d, ends at %d, and the first read was at %d", committed, ends, read)
	}
	b.c.Group("app").SetPending(brokertest.TP(in, 0), true)
	j := restore.New(b.cfg)
	if _, err := j.Step(context.Background()); !errors.Is(err, broker.CodeUnstableOffsetCommit) {
		t.Errorf("error %v", err)
	}
}

// A changelog that is an input too ends at the committed offset.
func TestJob_inputAsChangelog(t *testing.T) {
	b := newBench(t)
	tp := brokertest.TP(in, 0)
	b.cfg.Logs = []restore.Log{{TopicPartition: tp, Store: "s", Kind: state.KeyValue, Reused: true}}
	b.c.Append(tp, kv("a", "1"), kv("b", "2"), kv("a", "3"))
	b.c.Group("app").Commit(tp, broker.OffsetMeta{Offset: 2})
	r := b.restore()
	b.want(r, map[string]string{"a": "1", "b": "2"}, 2)
	if r.Start[tp] != 2 || r.End[tp] != 3 {
		t.Errorf("reading goes on at %d of %d", r.Start[tp], r.End[tp])
	}
	// Nothing is committed: everything comes in as input.
	b.c.Group("app").Commit(tp, broker.OffsetMeta{Offset: -1})
	b.want(b.restore(), map[string]string{}, 0)
}

// Only the gap is replayed into a set that stays open.
func TestJob_gap(t *testing.T) {
	b := newBench(t)
	tp := brokertest.TP(log, 0)
	b.c.Append(tp, kv("a", "1"), kv("b", "2"))
	r := b.restore()
	b.c.Append(tp, kv("b", ""), kv("c", "3"))
	b.cfg.Set, b.told = r.Set, nil
	r = b.restore()
	b.want(r, map[string]string{"a": "1", "c": "3"}, 4)
	if last := b.told[len(b.told)-1]; last.Records != 2 || last.Start != 2 {
		t.Errorf("progress %+v, want the two records of the gap", last)
	}
}

// What is left of a changelog that was cut behind the position cannot be trusted: deletions are missing. A window store
// keeps what it has, since only expired windows are cut.
func TestJob_changelogIsCut(t *testing.T) {
	b := newBench(t)
	tp := brokertest.TP(log, 0)
	b.c.Append(tp, kv("a", "1"), kv("b", "2"))
	r := b.restore()
	b.c.Append(tp, kv("a", ""), kv("c", "3"), kv("d", "4"))
	b.c.Truncate(tp, 3)
	b.cfg.Set = r.Set
	b.want(b.restore(), map[string]string{"c": "3", "d": "4"}, 5)

	// While it is read.
	b = newBench(t)
	b.c.Append(tp, kv("a", "1"), kv("b", "2"), kv("c", "3"))
	reader := b.c.Reader()
	reader.SetLimit(1)
	b.cfg.Reader = reader
	j := restore.New(b.cfg)
	for len(b.told) == 0 {
		if b.run(j, 1) {
			t.Fatal("done before the cut")
		}
	}
	b.c.Truncate(tp, 2)
	if !b.run(j, 50) {
		t.Fatal("not done after the cut")
	}
	b.want(j.Result(), map[string]string{"c": "3"}, 3)
}

// A log that ends before the position was truncated by an unclean election.
func TestJob_changelogIsTruncatedAtItsEnd(t *testing.T) {
	b := newBench(t)
	tp := brokertest.TP(log, 0)
	b.c.Append(tp, kv("a", "1"), kv("b", "2"), kv("c", "3"))
	r := b.restore()
	b.c.CutEnd(tp, 1)
	b.cfg.Set = r.Set
	b.want(b.restore(), map[string]string{"a": "1"}, 1)
}

// disk keeps a bench's store in a directory.
func (b *bench) disk(fs vfs.FS) (done func()) {
	b.Helper()
	db, err := state.OpenDB(state.Options{FS: fs, Dir: "state", ClusterID: "test-cluster", ApplicationID: "app", Now: func() int64 { return b.nowMs }})
	if err != nil {
		b.Fatal(err)
	}
	b.cfg.Open = func(id state.ChangelogIdentity) (*state.Set, error) {
		return db.OpenSet("0_0", []state.Spec{{Name: "s", Kind: state.KeyValue, Persistent: true, Logged: true}}, id)
	}
	b.cfg.Headers = func() (map[string]state.Header, error) {
		all, err := db.Tasks()
		m := make(map[string]state.Header)
		for _, s := range all {
			m[s.Store] = s.Header
		}
		return m, err
	}
	return func() {
		b.Helper()
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// A store on disk goes on from its position, unless something says that it must not.
func TestJob_storeOnDisk(t *testing.T) {
	compacted := func(b *bench) {
		b.c.SetConfig(log, "cleanup.policy", "compact")
		b.c.SetConfig(log, "delete.retention.ms", "1000")
	}
	for _, c := range []struct {
		name    string
		between func(b *bench)
		records int64 // read the second time
		rows    map[string]string
	}{
		{"continued", func(*bench) {}, 1, map[string]string{"a": "1", "b": "2", "c": "3"}},
		{"other topic id", func(b *bench) {
			b.c.AddTopic(log, 1)
			b.c.Append(brokertest.TP(log, 0), kv("a", "9"), kv("b", "9"))
		}, 3, map[string]string{"a": "9", "b": "9", "c": "3"}},
		{"too old", func(b *bench) { compacted(b); b.nowMs += 501 }, 3, map[string]string{"a": "1", "b": "2", "c": "3"}},
		{"just young enough", func(b *bench) { compacted(b); b.nowMs += 500 }, 1, map[string]string{"a": "1", "b": "2", "c": "3"}},
		{"another leader", func(b *bench) { b.c.CutEnd(brokertest.TP(log, 0), 2) }, 1, map[string]string{"a": "1", "b": "2", "c": "3"}},
		{"truncated", func(b *bench) {
			b.c.CutEnd(brokertest.TP(log, 0), 1)
			b.c.Append(brokertest.TP(log, 0), kv("d", "4"))
		}, 3, map[string]string{"a": "1", "d": "4", "c": "3"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := vfs.NewMem()
			b := newBench(t)
			b.c.Append(brokertest.TP(log, 0), kv("a", "1"), kv("b", "2"))
			done := b.disk(fs)
			if err := b.restore().Set.Close(); err != nil {
				t.Fatal(err)
			}
			done()
			c.between(b)
			b.c.Append(brokertest.TP(log, 0), kv("c", "3"))
			done = b.disk(fs)
			defer done()
			b.told = nil
			r := b.restore()
			if last := b.told[len(b.told)-1]; last.Records != c.records {
				t.Errorf("%d records were read, want %d", last.Records, c.records)
			}
			b.want(r, c.rows, 3)
		})
	}
}

// A store whose position is behind the marker of a transaction, which another leader has written than the records before it, goes
// on from there: nothing was truncated.
func TestJob_storeOnDisk_markerOfAnotherLeader(t *testing.T) {
	tp := brokertest.TP(log, 0)
	for _, commit := range []bool{true, false} {
		fs := vfs.NewMem()
		b := newBench(t)
		b.c.Append(tp, kv("a", "1"))
		b.c.AppendTxn("t", tp, kv("b", "2"))
		b.c.CutEnd(tp, 2) // nothing is lost, and somebody else leads
		b.c.EndTxn("t", commit)
		done := b.disk(fs)
		if err := b.restore().Set.Close(); err != nil {
			t.Fatal(err)
		}
		done()
		b.c.CutEnd(tp, 3)
		b.c.Append(tp, kv("c", "3"))
		done = b.disk(fs)
		b.told = nil
		r := b.restore()
		if last := b.told[len(b.told)-1]; last.Records != 1 {
			t.Errorf("commit %t: %d records were read, want the new one", commit, last.Records)
		}
		rows := map[string]string{"a": "1", "b": "2", "c": "3"}
		if !commit {
			delete(rows, "b")
		}
		b.want(r, rows, 4)
		done()
	}
}

func TestJob_starts(t *testing.T) {
	tp := brokertest.TP(in, 0)
	for _, c := range []struct {
		name      string
		committed int64
		reset     restore.Reset
		want      int64
		fails     bool
	}{
		{"committed", 4, restore.Reset{Kind: restore.ResetNone}, 4, false},
		{"committed at the end", 6, restore.Reset{Kind: restore.ResetNone}, 6, false},
		{"earliest", -1, restore.Reset{}, 3, false},
		{"latest", -1, restore.Reset{Kind: restore.ResetLatest}, 6, false},
		{"none", -1, restore.Reset{Kind: restore.ResetNone}, 0, true},
		{"deleted, earliest", 1, restore.Reset{}, 3, false},
		{"deleted, latest", 1, restore.Reset{Kind: restore.ResetLatest}, 6, false},
		{"deleted, none", 1, restore.Reset{Kind: restore.ResetNone}, 0, true},
		{"behind the end", 9, restore.Reset{}, 3, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			for i := range 6 {
				b.c.Append(tp, kv("k", fmt.Sprint(i)))
			}
			b.c.Truncate(tp, 3)
			if c.committed >= 0 {
				b.c.Group("app").Commit(tp, broker.OffsetMeta{Offset: c.committed})
			}
			b.cfg.Inputs[0].Reset = c.reset
			j := restore.New(b.cfg)
			err := j.Run(context.Background())
			var none *restore.NoOffsetError
			if c.fails != errors.As(err, &none) || !c.fails && err != nil {
				t.Fatalf("error %v", err)
			}
			if got := j.Result().Start[tp]; !c.fails && got != c.want {
				t.Errorf("reading begins at %d, want %d", got, c.want)
			}
		})
	}
}

// A committed offset that is not in the log is told with the log's range, where reading goes on and why, and what that means.
func TestJob_offsetThatIsGoneIsTold(t *testing.T) {
	const rest = "task=0_0 topic=in partition=0 "
	for _, c := range []struct {
		name      string
		committed int64
		reset     restore.Reset
		stores    bool
		want      []string // nil: nothing is told
	}{
		{"in the log", 4, restore.Reset{}, true, nil},
		{"none", -1, restore.Reset{}, true, nil},
		{"beyond the end", 9, restore.Reset{}, true, []string{
			"level=WARN", "beyond the end of the log", "counts and sums take it twice", "reset the application (docs/reset.md)",
			rest + `committed=9 log_start=3 log_end=6 goes_on_at=3 reset_policy="earliest (auto.offset.reset)" stores=[s]`}},
		{"beyond the end, latest", 9, restore.Reset{Kind: restore.ResetLatest, Own: true}, true, []string{
			"beyond the end of the log", "the records that are in the log now are not processed", rest + `committed=9 log_start=3 log_end=6 goes_on_at=6 reset_policy="latest (of the source)" stores=[s]`}},
		{"beyond the end, no store", 9, restore.Reset{}, false, []string{"beyond the end of the log", "processed before are processed again", "stores=[]"}},
		{"below the start", 1, restore.Reset{}, true, []string{
			"below the start of the log", "deleted before they were processed", rest + "committed=1 log_start=3 log_end=6 goes_on_at=3"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			var text bytes.Buffer
			b.cfg.Logger = slog.New(slog.NewTextHandler(&text, nil))
			tp := brokertest.TP(in, 0)
			for i := range 6 {
				b.c.Append(tp, kv("k", fmt.Sprint(i)))
			}
			b.c.Truncate(tp, 3)
			if c.committed >= 0 {
				b.c.Group("app").Commit(tp, broker.OffsetMeta{Offset: c.committed})
			}
			if b.cfg.Inputs[0].Reset = c.reset; !c.stores {
				b.cfg.Logs = nil
			}
			b.restore()
			if c.want == nil && text.Len() > 0 {
				t.Errorf("told: %s", &text)
			}
			for _, want := range c.want {
				if !strings.Contains(text.String(), want) {
					t.Errorf("the log does not say %q:\n%s", want, &text)
				}
			}
		})
	}
}

// A job that fails, or is given up, closes what it has opened, and leaves alone what it was given.
func TestJob_close(t *testing.T) {
	b := newBench(t)
	b.c.Append(brokertest.TP(log, 0), kv("a", "1"))
	var opened *state.Set
	open := b.cfg.Open
	b.cfg.Open = func(id state.ChangelogIdentity) (*state.Set, error) {
		set, err := open(id)
		opened = set
		return set, err
	}
	b.c.Inject(brokertest.Fault{Op: brokertest.OpRead, Err: broker.ErrUnreachable})
	j := restore.New(b.cfg)
	if err := j.Run(context.Background()); !errors.Is(err, broker.ErrUnreachable) {
		t.Fatalf("error %v", err)
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
	if _, err := opened.KeyValue("s"); !errors.Is(err, state.ErrClosed) {
		t.Errorf("the set is open after a failure: %v", err)
	}
	r := b.restore()
	b.cfg.Set = r.Set
	b.c.Append(brokertest.TP(log, 0), kv("b", "2"))
	b.c.Inject(brokertest.Fault{Op: brokertest.OpRead, Err: broker.ErrUnreachable})
	j = restore.New(b.cfg)
	if err := j.Run(context.Background()); err == nil {
		t.Fatal("no error")
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
	b.want(b.restore(), map[string]string{"a": "1", "b": "2"}, 2)
}

func TestProgress_rate(t *testing.T) {
	p := restore.Progress{Start: 100, At: 300, End: 1100, Elapsed: 2e9}
	if p.Rate() != 100 || p.ETA().Seconds() != 8 {
		t.Errorf("rate %v, ETA %v", p.Rate(), p.ETA())
	}
	if p := (restore.Progress{At: 5, End: 5}); p.Rate() != 0 || p.ETA() != 0 {
		t.Errorf("rate %v, ETA %v", p.Rate(), p.ETA())
	}
}

// A changelog that held records and is empty now, although input was processed, is told (C078): the store has lost what it held.
// One that never held any is not.
func TestC078_emptyChangelogIsTold(t *testing.T) {
	for name, x := range map[string]struct {
		records   int
		deleted   int64
		committed int64
		told      bool
	}{
		"deleted by the broker":       {3, 3, 2, true},
		"deleted in part":             {3, 2, 2, false},
		"nothing was processed":       {3, 3, -1, false},
		"nothing was ever in the log": {0, 0, 2, false},
		"all of it is there":          {3, 0, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			var text bytes.Buffer
			b.cfg.Logger = slog.New(slog.NewTextHandler(&text, nil))
			tp := brokertest.TP(log, 0)
			for range x.records {
				b.c.Append(tp, kv("a", "1"))
			}
			if x.committed >= 0 {
				b.c.Append(brokertest.TP(in, 0), kv("a", "1"), kv("a", "2"))
				b.c.Group("app").Commit(brokertest.TP(in, 0), broker.OffsetMeta{Offset: x.committed})
			}
			b.c.Truncate(tp, x.deleted)
			b.restore()
			if told := strings.Contains(text.String(), "level=WARN msg=\"the changelog of a store held records"); told != x.told {
				t.Errorf("told %t, want %t: %s", told, x.told, &text)
			}
		})
	}
}
