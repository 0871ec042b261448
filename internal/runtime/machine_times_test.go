package runtime

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/broker/brokertest"
	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// closingTopology counts by key and windows of 10 ms without grace.
func closingTopology(t testing.TB, persistent bool) *topology.Topology {
	return build(t, func(b *topology.Builder) {
		spec := &op.TableSpec{Store: "counts"}
		b.AddSource(topology.Source{Name: "source", Topics: []string{"in"}, Op: op.NewSource(op.SourceSpec[string, string]{Key: serde.String, Value: serde.String})})
		b.AddProcessor(topology.Processor{Name: "count", Parents: []string{"source"}, Op: op.NewWindowAggregate(window.Tumbling(10*time.Millisecond),
			op.WindowAggregateSpec[string, string, int64]{
				Table: spec, Late: new(string),
				Fold: func(_ *processor.Record[string, string], n int64, _ bool) (int64, bool, error) {
					return n + 1, true, nil
				},
			})})
		b.AddStore(topology.Store{
			Name: "counts", Kind: topology.Window, Persistent: persistent, Logged: true, RetentionMs: 10, WindowSizeMs: 10, Def: spec,
			Op: &op.WindowFactory[string, int64]{Spec: op.StoreSpec{Name: "counts", Logged: true}, SizeMs: 10, Key: serde.String, Value: serde.Int64},
		}, "count")
	})
}

func at(key string, ms int64) broker.Record {
	return broker.Record{Key: []byte(key), Value: []byte("v"), TimestampMs: ms}
}

// late counts the records that came after the close of their window, over the lives of an instance.
func (s *stepper) late() int64 {
	return s.machine.cfg.Task.Metrics.Dropped("count", metrics.Late).Value()
}

func logged(b *bytes.Buffer) stepOption {
	return func(c *Config, _ *stepper) { c.Logger = slog.New(slog.NewTextHandler(b, nil)) }
}

// kill ends an instance as a crash does.
func (s *stepper) kill() {
	s.group.Expire(s.member)
	s.prod.Hold()
}

// A window that has closed stays closed: over a restart in another process, without state and with the state that is on disk,
// and where the task drops to its last commit in place. What was not committed before the crash is taken again, and is not late.
func TestTimes_closedWindowsStayClosed(t *testing.T) {
	for name, disk := range map[string]bool{"in memory": false, "on disk": true} {
		t.Run(name, func(t *testing.T) {
			guarantees(t, func(t *testing.T, eos bool) {
				fs := vfs.NewCrashableMem()
				var opts []stepOption
				if eos {
					opts = append(opts, transactional("app-x"))
				}
				c := cluster()
				topo := closingTopology(t, disk)
				start := func(extra ...stepOption) *stepper {
					all := append(append([]stepOption{}, opts...), extra...)
					if disk {
						fs = fs.CrashClone(vfs.CrashCloneCfg{}) // what was not synced is gone
						all = append(all, onDisk(t, fs, nil))
					}
					return newStepper(t, c, topo, all...)
				}
				s := start()
				s.settle()
				s.assign(t0)
				c.Append(tp("in", 0), at("a", 5), at("a", 25)) // [0,10) is closed
				s.settle()
				s.advance(100 * time.Millisecond)
				s.wantCommitted(2)
				c.Append(tp("in", 0), at("b", 99), at("a", 26)) // the second is late, after the first
				s.settle()
				if n := s.late(); n != 1 {
					t.Fatalf("%d records are late before the crash, want 1", n)
				}
				s.kill()

				var log bytes.Buffer
				s = start(logged(&log))
				s.settle()
				s.assign(t0)
				c.Append(tp("in", 0), at("a", 6))
				s.settle()
				s.advance(100 * time.Millisecond)
				s.wantCommitted(5)
				if n := s.late(); n != 2 {
					t.Errorf("%d records are late after the crash, want those at 26 and 6", n)
				}
				if strings.Contains(log.String(), "by hand") {
					t.Errorf("the log says:\n%s", &log)
				}

				// In place: the commit fails for good, and the task begins again from its last one.
				op := brokertest.OpCommitOffsets
				if eos {
					op = brokertest.OpTxnOffsets
				}
				c.Inject(brokertest.Fault{Op: op, Err: broker.CodeOffsetMetadataTooLarge})
				c.Append(tp("in", 0), at("c", 120), at("a", 98))
				s.settle()
				s.advance(100 * time.Millisecond)
				s.advance(time.Second)
				s.advance(100 * time.Millisecond)
				s.wantCommitted(7)
				if n := s.late(); n != 4 { // the record at 98 twice
					t.Errorf("%d records are late after the failed commit, want 4", n)
				}
			})
		})
	}
}

// Another application has committed before: what it wrote of the time, and what is in the changelog, count. Where the changelog
// is behind an open end, as under at-least-once, the task's own time does.
func TestTimes_takeover(t *testing.T) {
	guarantees(t, func(t *testing.T, eos bool) {
		for name, x := range map[string]struct {
			streamMs int64
			late     int64
		}{"the changelog is level": {30, 1}, "the changelog is ahead": {9, 0}} {
			t.Run(name, func(t *testing.T) {
				var opts []stepOption
				if eos {
					opts = append(opts, transactional("app-x"))
				}
				c := cluster()
				first := newStepper(t, c, closingTopology(t, false), opts...)
				first.settle()
				first.assign(t0)
				c.Append(tp("in", 0), at("a", 5), at("a", 25))
				first.settle()
				first.advance(100 * time.Millisecond)
				first.step(Stop{})
				first.settle()
				// Kafka Streams writes the partition's time alone.
				text, _ := codec.AppendOffsetMetadata(nil, codec.OffsetMetadata{PartitionTimeMs: x.streamMs, StreamTimeMs: x.streamMs})
				c.Group("app").Commit(tp("in", 0), broker.OffsetMeta{Offset: 2, Metadata: string(text), Epoch: -1})
				s := newStepper(t, c, closingTopology(t, false), opts...)
				s.settle()
				s.assign(t0)
				c.Append(tp("in", 0), at("a", 6))
				s.settle()
				s.advance(100 * time.Millisecond)
				s.wantCommitted(3)
				if n := s.late(); n != x.late {
					t.Errorf("%d records are late, want %d", n, x.late)
				}
			})
		}
	})
}

// An offset that was set by hand lets all times start unset, and the log says so: without metadata, as tools set it, and below
// the offset that the state on disk stands for, whatever its metadata says. So does one that was deleted.
func TestTimes_offsetSetByHand(t *testing.T) {
	guarantees(t, func(t *testing.T, eos bool) {
		var opts []stepOption
		if eos {
			opts = append(opts, transactional("app-x"))
		}
		for name, x := range map[string]struct {
			offset int64
			keep   bool // the metadata
			want   string
			late   int64
		}{
			"without metadata": {2, false, "inputs=\"[in-0: committed 2, processed to 2]\" stores=[counts]", 0},
			"rewound":          {1, true, "inputs=\"[in-0: committed 1, processed to 2]\" stores=[counts]", 0},
			"deleted":          {-1, false, "inputs=\"[in-0: committed none, goes on at 0, processed to 2]\" stores=[counts]", 1}, // the state keeps no window as old as the first record's
		} {
			t.Run(name, func(t *testing.T) {
				fs := vfs.NewMem()
				c := cluster()
				s := newStepper(t, c, closingTopology(t, true), append(opts, onDisk(t, fs, nil))...)
				s.settle()
				s.assign(t0)
				c.Append(tp("in", 0), at("a", 5), at("a", 25))
				s.settle()
				s.advance(100 * time.Millisecond)
				s.step(Stop{})
				s.settle()
				if err := s.db.Close(); err != nil {
					t.Fatal(err)
				}
				o := c.Group("app").Committed(tp("in", 0))
				if o.Offset = x.offset; !x.keep {
					o.Metadata = ""
				}
				c.Group("app").Commit(tp("in", 0), o)
				var log bytes.Buffer
				s = newStepper(t, c, closingTopology(t, true), append(opts, onDisk(t, fs, nil), logged(&log))...)
				s.settle()
				s.assign(t0)
				c.Append(tp("in", 0), at("a", 26))
				s.settle()
				s.advance(100 * time.Millisecond)
				s.wantCommitted(3)
				if n := s.late(); n != x.late {
					t.Errorf("%d records are late, want %d: no time is known", n, x.late)
				}
				if text := log.String(); !strings.Contains(text, "set by hand") || !strings.Contains(text, x.want) || !strings.Contains(text, "task=0_0") {
					t.Errorf("the log does not say %q:\n%s", x.want, text)
				}
			})
		}
	})
}

// Offsets that are gone while the changelog is kept double what the stores hold, and the log says so: where they were deleted and
// the state comes from the changelog, and where the topic was made anew and is read from its beginning by the reset policy.
func TestTimes_offsetsGoneWithTheChangelogKept(t *testing.T) {
	guarantees(t, func(t *testing.T, eos bool) {
		for name, x := range map[string]struct {
			change func(c *brokertest.Cluster)
			want   string
			never  string
		}{
			"deleted": {
				func(c *brokertest.Cluster) { c.Group("app").Commit(tp("in", 0), broker.OffsetMeta{Offset: -1}) },
				`offsets were set by hand or deleted, but the stores were kept`, "beyond the end",
			},
			"topic made anew": {
				func(c *brokertest.Cluster) {
					c.DeleteTopic("in")
					c.AddTopic("in", 2)
					c.Append(tp("in", 0), at("a", 5))
				},
				"committed=2 log_start=0 log_end=1 goes_on_at=0", "set by hand",
			},
		} {
			t.Run(name, func(t *testing.T) {
				var log bytes.Buffer
				opts := []stepOption{logged(&log), func(c *Config, _ *stepper) { c.Restore.Logger = c.Logger }}
				if eos {
					opts = append(opts, transactional("app-x"))
				}
				c := cluster()
				run := func(committed int64) {
					s := newStepper(t, c, closingTopology(t, false), opts...)
					s.settle()
					s.assign(t0)
					s.settle()
					s.advance(100 * time.Millisecond)
					s.wantCommitted(committed)
					s.step(Stop{})
					s.settle()
				}
				c.Append(tp("in", 0), at("a", 5), at("a", 9))
				run(2)
				if strings.Contains(log.String(), "WARN") {
					t.Fatalf("before anything has happened: %s", &log)
				}
				x.change(c)
				run(int64(len(c.Records(tp("in", 0)))))
				if text := log.String(); strings.Count(text, x.want) != 1 || strings.Contains(text, x.never) {
					t.Errorf("the log does not say %q once, or says %q:\n%s", x.want, x.never, text)
				}
			})
		}
	})
}

// Offsets that were reset together with the changelogs, with the state directory left in place: the store starts empty, and nothing
// can be taken twice. The log does not say that it can.
func TestTimes_offsetsResetWithTheChangelog(t *testing.T) {
	guarantees(t, func(t *testing.T, eos bool) {
		for name, o := range map[string]broker.OffsetMeta{"deleted": {Offset: -1}, "set to the beginning": {Offset: 0, Epoch: -1}} {
			t.Run(name, func(t *testing.T) {
				var opts []stepOption
				if eos {
					opts = append(opts, transactional("app-x"))
				}
				fs := vfs.NewMem()
				c := cluster()
				run := func(log *bytes.Buffer) {
					s := newStepper(t, c, closingTopology(t, true), append(opts, onDisk(t, fs, nil), logged(log))...)
					s.settle()
					s.assign(t0)
					s.settle()
					s.advance(100 * time.Millisecond)
					s.wantCommitted(2)
					s.step(Stop{})
					s.settle()
					if err := s.db.Close(); err != nil {
						t.Fatal(err)
					}
				}
				c.Append(tp("in", 0), at("a", 5), at("a", 9))
				run(new(bytes.Buffer))
				c.Group("app").Commit(tp("in", 0), o)
				changelog := "app-counts-changelog"
				c.DeleteTopic(changelog)
				c.AddTopic(changelog, 2)
				var log bytes.Buffer
				run(&log)
				if n := len(c.Records(tp(changelog, 0))); n == 0 {
					t.Error("nothing was processed again")
				}
				if strings.Contains(log.String(), "stores were kept") {
					t.Errorf("the store was not kept:\n%s", &log)
				}
			})
		}
	})
}
