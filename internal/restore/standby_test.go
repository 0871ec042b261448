package restore_test

import (
	"context"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/broker/brokertest"
	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/internal/restore"
	"github.com/millrace-io/millrace/internal/state"
)

// standby opens one over the bench's cluster.
func (b *bench) standby() *restore.Standby {
	b.Helper()
	s := restore.NewStandby(b.cfg)
	if err := s.Open(context.Background()); err != nil {
		b.Fatal(err)
	}
	return s
}

// follow looks once and reads until the standby is level.
func (b *bench) follow(s *restore.Standby) {
	b.Helper()
	if err := b.look(s); err != nil {
		b.Fatal(err)
	}
	for range 100 {
		more, err := s.Read(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		if !more {
			return
		}
	}
	b.Fatal("the standby does not get level")
}

func (b *bench) look(s *restore.Standby) error {
	b.Helper()
	logs, inputs := s.Asks()
	ends, err := b.cfg.Admin.ListOffsets(context.Background(), broker.StableEnd, logs...)
	if err != nil {
		b.Fatal(err)
	}
	committed, err := b.cfg.Admin.CommittedOffsets(context.Background(), "app", inputs...)
	if err != nil {
		b.Fatal(err)
	}
	return s.Look(b.nowMs, ends, committed)
}

func (b *bench) release(s *restore.Standby) *state.Set {
	b.Helper()
	r, err := s.Release()
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// A standby follows its changelog, and who takes the task over reads only what came since.
func TestStandby_isTakenOver(t *testing.T) {
	b := newBench(t)
	tp := brokertest.TP(log, 0)
	b.c.Append(tp, kv("a", "1"), kv("b", "2"))
	s := b.standby()
	b.follow(s)
	if s.Behind() != 0 || s.Position() != 2 {
		t.Fatalf("behind %d at %d", s.Behind(), s.Position())
	}
	b.c.Append(tp, kv("a", "3"), kv("b", ""))
	if err := b.look(s); err != nil {
		t.Fatal(err)
	}
	if s.Behind() != 2 {
		t.Errorf("behind %d, two records have come", s.Behind())
	}
	b.follow(s)
	b.c.Append(tp, kv("c", "4"))
	r := b.release(s)
	b.cfg.Set, b.told = r, nil
	res := b.restore()
	b.want(res, map[string]string{"a": "3", "c": "4"}, 5)
	if last := b.told[len(b.told)-1]; last.Records != 1 || last.Start != 4 {
		t.Errorf("progress %+v, want the one record that came after the release", last)
	}
}

// What the standby has seen counts for the task, though the task's own replay reads nothing.
func TestStandby_passesTimestampsOn(t *testing.T) {
	b := newBench(t)
	b.c.Append(brokertest.TP(log, 0), kv("a", "1"))
	s := b.standby()
	b.follow(s)
	r := b.release(s)
	b.cfg.Set = r
	if d := cmp.Diff(map[string]int64{"s": 7}, b.restore().HighestTimestampMs); d != "" {
		t.Errorf("highest timestamps (-want +got):\n%s", d)
	}
}

// Nothing of an open transaction is taken, and nothing of one that is aborted.
func TestStandby_readsWhatIsDecided(t *testing.T) {
	b := newBench(t)
	tp := brokertest.TP(log, 0)
	b.c.Append(tp, kv("a", "1"))
	b.c.AppendTxn("t", tp, kv("b", "2"))
	s := b.standby()
	b.follow(s)
	if s.Position() != 1 || s.Behind() != 0 {
		t.Errorf("at %d, %d behind, before the end of a transaction", s.Position(), s.Behind())
	}
	b.c.EndTxn("t", false)
	b.c.Append(tp, kv("c", "3"))
	b.follow(s)
	r := b.release(s)
	b.want(restore.Result{Set: r}, map[string]string{"a": "1", "c": "3"}, 4)
}

// A store that is restored from an input follows the committed offset.
func TestStandby_ofAnInput(t *testing.T) {
	b := newBench(t)
	tp := brokertest.TP(in, 0)
	b.cfg.Logs = []restore.Log{{TopicPartition: tp, Store: "s", Kind: state.KeyValue, Reused: true}}
	b.c.Append(tp, kv("a", "1"), kv("b", "2"), kv("a", "3"))
	s := b.standby()
	b.follow(s)
	if s.Position() != 0 {
		t.Errorf("at %d, and nothing is committed", s.Position())
	}
	b.c.Group("app").Commit(tp, broker.OffsetMeta{Offset: 2})
	b.follow(s)
	b.want(restore.Result{Set: b.release(s)}, map[string]string{"a": "1", "b": "2"}, 2)
}

// What expires in a copy goes by the time that stands with the committed offset, not by the changelog, which runs ahead of it.
func TestStandby_expiresByCommittedTime(t *testing.T) {
	b := newBench(t)
	tp := brokertest.TP(log, 0)
	spec := state.Spec{Name: "s", Kind: state.Window, Logged: true, RetentionMs: 100, SegmentMs: 50}
	b.cfg.Logs[0].Kind = state.Window
	b.cfg.Open = func(state.ChangelogIdentity) (*state.Set, error) { return state.NewMemorySet([]state.Spec{spec}) }
	row := func(startMs int64) broker.Record {
		return broker.Record{Key: codec.AppendWindowKey(nil, []byte("k"), startMs, 0), Value: []byte("v"), TimestampMs: startMs}
	}
	commit := func(observedMs int64) {
		text, _ := codec.AppendOffsetMetadata(nil, codec.OffsetMetadata{PartitionTimeMs: observedMs, StreamTimeMs: observedMs, Observed: map[string]int64{"s": observedMs}})
		b.c.Group("app").Commit(brokertest.TP(in, 0), broker.OffsetMeta{Offset: 1, Metadata: string(text)})
	}
	starts := func(s *restore.Standby) (out []int64) {
		set := b.release(s)
		b.cfg.Set = set
		w, err := set.Window("s")
		if err != nil {
			t.Fatal(err)
		}
		it, err := w.Fetch([]byte("k"), 0, 10_000, false)
		if err != nil {
			t.Fatal(err)
		}
		defer it.Close()
		for it.Next() {
			out = append(out, it.StartMs())
		}
		return out
	}
	commit(1000)
	b.c.Append(tp, row(990), row(5000))
	s := b.standby()
	b.follow(s)
	if d := cmp.Diff([]int64{990}, starts(s)); d != "" {
		t.Errorf("the input is at 1000: rows (-want +got):\n%s", d)
	}
	s = b.standby()
	b.follow(s)
	commit(5000) // nothing more comes in the changelog
	b.follow(s)
	if d := cmp.Diff([]int64{5000}, starts(s)); d != "" {
		t.Errorf("the input is at 5000: rows (-want +got):\n%s", d)
	}
}

// A crash costs what was not written; a standby to which nothing comes is not taken for old.
func TestStandby_onDisk(t *testing.T) {
	fs := vfs.NewMem()
	b := newBench(t)
	b.c.SetConfig(log, "cleanup.policy", "compact")
	b.c.SetConfig(log, "delete.retention.ms", "2000000")
	tp := brokertest.TP(log, 0)
	b.c.Append(tp, kv("a", "1"), kv("b", "2"))
	done := b.disk(fs)
	s := b.standby()
	b.follow(s)
	b.nowMs += 900_000
	b.follow(s)
	b.nowMs += 900_000 // more than half of the retention since it was opened, less since it was last known to be level
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	done()
	done = b.disk(fs)
	defer done()
	b.told = nil
	r := b.restore()
	if last := b.told[len(b.told)-1]; last.Records != 0 {
		t.Errorf("%d records were read again", last.Records)
	}
	b.want(r, map[string]string{"a": "1", "b": "2"}, 2)
}

// A changelog that was truncated is told, and the next standby does without what is gone.
func TestStandby_truncated(t *testing.T) {
	b := newBench(t)
	tp := brokertest.TP(log, 0)
	b.c.Append(tp, kv("a", "1"), kv("b", "2"), kv("c", "3"))
	s := b.standby()
	b.follow(s)
	b.c.CutEnd(tp, 1)
	if err := b.look(s); err == nil {
		t.Fatal("a truncated changelog was not told")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = b.standby()
	b.follow(s)
	b.want(restore.Result{Set: b.release(s)}, map[string]string{"a": "1"}, 1)
}
