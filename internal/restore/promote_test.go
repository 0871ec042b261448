package restore_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/broker/brokertest"
	"github.com/millrace-io/millrace/internal/restore"
)

// Who takes stores over that are open, those of a copy or those of a task that begins again, finds out whether they still belong to
// the changelog that is there: in memory as on disk.
func TestJob_checksOpenStores(t *testing.T) {
	tp := brokertest.TP(log, 0)
	for name, c := range map[string]struct {
		change func(b *bench)
		rows   map[string]string
		at     int64
	}{
		"the changelog was made anew": {func(b *bench) {
			b.c.DeleteTopic(log)
			b.c.AddTopic(log, 1)
			b.c.Append(tp, kv("c", "3"), kv("d", "4"), kv("d", ""))
		}, map[string]string{"c": "3"}, 3},
		"it was truncated and has grown again": {func(b *bench) {
			b.c.CutEnd(tp, 1)
			b.c.MoveLeader(tp)
			b.c.Append(tp, kv("c", "3"), kv("d", "4"))
		}, map[string]string{"a": "1", "c": "3", "d": "4"}, 3},
		"nobody looked for as long as deletions are kept": {func(b *bench) {
			b.c.Append(tp, kv("a", ""), kv("c", "3"))
			b.c.Remove(tp, 0, 2) // as compaction does
			b.nowMs += 2_000_000
		}, map[string]string{"b": "2", "c": "3"}, 4},
	} {
		for _, where := range []string{"in memory", "on disk"} {
			t.Run(name+" "+where, func(t *testing.T) {
				b := newBench(t)
				b.c.SetConfig(log, "cleanup.policy", "compact")
				b.c.SetConfig(log, "delete.retention.ms", "2000000")
				b.c.Append(tp, kv("a", "1"), kv("b", "2"))
				if where == "on disk" {
					defer b.disk(vfs.NewMem())()
				}
				s := b.standby()
				b.follow(s)
				b.cfg.Set = b.release(s)
				c.change(b)
				b.want(b.restore(), c.rows, c.at)
			})
		}
	}
}

// A copy that was not looked at for as long as its changelog keeps deletions says so, and the next one begins anew.
func TestStandby_stoodStill(t *testing.T) {
	b := newBench(t)
	b.c.SetConfig(log, "cleanup.policy", "compact")
	b.c.SetConfig(log, "delete.retention.ms", "2000000")
	defer b.disk(vfs.NewMem())()
	tp := brokertest.TP(log, 0)
	b.c.Append(tp, kv("a", "1"), kv("b", "2"))
	s := b.standby()
	b.follow(s)
	b.c.Append(tp, kv("a", ""), kv("c", "3"))
	b.c.Remove(tp, 0, 2)
	b.nowMs += 2_000_000
	if err := b.look(s); err == nil {
		t.Fatal("it goes on as if it had missed nothing")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = b.standby()
	b.follow(s)
	b.want(restore.Result{Set: b.release(s)}, map[string]string{"b": "2", "c": "3"}, 4)
}

// A restore that is interrupted and goes on where it was, in another process too, still knows the highest timestamp of all records.
func TestJob_interruptedKnowsTimestamps(t *testing.T) {
	fs := vfs.NewMem()
	b := newBench(t)
	tp := brokertest.TP(log, 0)
	late := kv("a", "1")
	late.TimestampMs = 900
	b.c.Append(tp, late)
	done := b.disk(fs)
	s := b.standby()
	b.follow(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	done()
	defer b.disk(fs)()
	b.c.Append(tp, broker.Record{Key: []byte("b"), Value: []byte("2"), TimestampMs: 800})
	if got := b.restore().HighestTimestampMs["s"]; got != 900 {
		t.Errorf("the highest timestamp is %d, and the changelog holds 900", got)
	}
}
