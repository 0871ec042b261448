package task

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/state"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// bench is a task under test with its clock.
type bench struct {
	*testing.T
	task    *Task
	nowMs   int64
	metrics *metrics.Registry
	cfg     Config
}

func in(topic string) broker.TopicPartition { return broker.TopicPartition{Topic: topic} }

// text is a source of text that skips negative timestamps and values "bad".
func text() op.Factory {
	return op.NewSource(op.SourceSpec[string, string]{
		Key: serde.String,
		Value: serde.Func(
			func(dst []byte, v string) ([]byte, error) { return append(dst, v...), nil },
			func(src []byte) (string, error) {
				if string(src) == "bad" {
					return "", errors.New("bad value")
				}
				return string(src), nil
			}),
		Extract: func(r *processor.Record[string, string], _ processor.Metadata, partitionTimeMs int64) (int64, error) {
			if r.Value == "partition time" {
				return partitionTimeMs, nil
			}
			return r.TimestampMs, nil
		},
	})
}

func sink() op.Factory {
	return op.NewSink(op.SinkSpec[string, string]{Topic: "out", Key: serde.String, Value: serde.String})
}

// copying is a topology that writes several topics into one.
func copying(topics ...string) *topology.Builder {
	b := topology.NewBuilder()
	var sources []string
	for _, name := range topics {
		b.AddSource(topology.Source{Name: "source-" + name, Topics: []string{name}, Op: text()})
		sources = append(sources, "source-"+name)
	}
	b.AddSink(topology.Sink{Name: "sink", Topic: "out", Parents: sources, Op: sink()})
	return b
}

// counting is a topology that counts in tumbling windows of 10 ms.
func counting() *topology.Builder {
	b := topology.NewBuilder()
	w := window.Tumbling(10 * time.Millisecond)
	spec := &op.TableSpec{Store: "counts"}
	b.AddSource(topology.Source{Name: "source", Topics: []string{"a"}, Op: text()})
	b.AddProcessor(topology.Processor{Name: "count", Parents: []string{"source"}, Op: op.NewWindowAggregate(w, op.WindowAggregateSpec[string, string, int64]{
		Table: spec, Late: new(string),
		Fold: func(_ *processor.Record[string, string], n int64, _ bool) (int64, bool, error) {
			return n + 1, true, nil
		},
	})})
	b.AddStore(topology.Store{
		Name: "counts", Kind: topology.Window, Logged: true, RetentionMs: 10, WindowSizeMs: 10, Def: spec,
		Op: &op.WindowFactory[string, int64]{Spec: op.StoreSpec{Name: "counts", Logged: true}, SizeMs: 10, Key: serde.String, Value: serde.Int64},
	}, "count")
	return b
}

// open makes a task of a topology. change may change its configuration first.
func open(t *testing.T, b *topology.Builder, change func(*Config), inputs ...string) *bench {
	t.Helper()
	built, err := b.Build(topology.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	x := &bench{T: t, nowMs: 1000, metrics: metrics.New()}
	sub := built.Subtopologies()[0]
	specs, err := StoreSpecs(sub)
	if err != nil {
		t.Fatal(err)
	}
	set, err := state.NewMemorySet(specs)
	if err != nil {
		t.Fatal(err)
	}
	x.cfg = Config{
		Sub: sub, Set: set, Ctx: context.Background(), NowMs: func() int64 { return x.nowMs }, Metrics: x.metrics,
		Partitions: func(string) (int32, error) { return 1, nil },
		TopicName:  func(name string) string { return topology.DecoratedTopic("app", name) },
	}
	for _, name := range inputs {
		x.cfg.Inputs = append(x.cfg.Inputs, in(name))
	}
	if change != nil {
		change(&x.cfg)
	}
	if x.task, err = New(x.cfg); err != nil {
		t.Fatal(err)
	}
	return x
}

func record(offset int64, value string, tsMs int64) broker.Record {
	return broker.Record{Offset: offset, Key: []byte("k"), Value: []byte(value), TimestampMs: tsMs}
}

// add hands over records of an input whose log ends behind them.
func (x *bench) add(topic string, records ...broker.Record) {
	x.Helper()
	end := records[len(records)-1].Offset + 1
	x.addBatch(broker.Batch{TopicPartition: in(topic), Records: records, Position: end, HighWater: end, StableEnd: end})
}

func (x *bench) addBatch(b broker.Batch) {
	x.Helper()
	if err := x.task.Add(b); err != nil {
		x.Fatal(err)
	}
}

// process takes all that may be taken and returns the values that came out.
func (x *bench) process() string {
	x.Helper()
	if _, err := x.task.Process(100); err != nil {
		x.Fatal(err)
	}
	var out []string
	for _, o := range x.task.TakeOutputs() {
		if o.Topic == "out" {
			out = append(out, string(o.Value))
		}
	}
	return strings.Join(out, " ")
}

func (x *bench) want(what, got, want string) {
	x.Helper()
	if got != want {
		x.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// offset returns what a unit commits for an input, as "offset metadata".
func (x *bench) offset(topic string) string {
	x.Helper()
	u, err := x.task.HandOver()
	if err != nil {
		x.Fatal(err)
	}
	if u == nil {
		return "nothing"
	}
	o, ok := u.Offsets[in(topic)]
	if !ok {
		return "none"
	}
	return fmt.Sprintf("%d %s", o.Offset, o.Metadata)
}

func TestC131_MetadataOfCommittedOffsets(t *testing.T) {
	for tsMs, want := range map[int64]string{5: "1 AgAAAAAAAAAF", 100: "1 AgAAAAAAAABk"} {
		x := open(t, copying("a"), nil, "a")
		x.add("a", record(0, "v", tsMs))
		x.process()
		x.want("committed", x.offset("a"), want)
		x.want("without anything new", x.offset("a"), "nothing")
	}
	// The time of a partition is its own, that of the task stands beside it where it is higher.
	x := open(t, copying("a", "b"), nil, "a", "b")
	x.add("a", record(0, "v", 5))
	x.add("b", record(0, "v", 9))
	x.process()
	u, err := x.task.HandOver()
	if err != nil {
		t.Fatal(err)
	}
	x.want("b", u.Offsets[in("b")].Metadata, "AgAAAAAAAAAJ")
	m, ok := codec.ParseOffsetMetadata(u.Offsets[in("a")].Metadata)
	if !ok || m.PartitionTimeMs != 5 || m.StreamTimeMs != 9 {
		t.Errorf("metadata of a: %+v", m)
	}
}

func TestProcess_takesTheSmallestTimestamp(t *testing.T) {
	x := open(t, copying("b", "a"), nil, "b", "a")
	x.add("b", record(0, "b1", 1), record(1, "b5", 5), record(2, "b2", 2), record(3, "b9", 9))
	x.add("a", record(0, "a1", 1), record(1, "a3", 3), record(2, "a9", 9), record(3, "a8", 8))
	// Each partition keeps its order; ties go by topic.
	x.want("out", x.process(), "a1 b1 a3 b5 b2 a9 a8 b9")
	if ms := x.task.StreamTimeMs(); ms != 9 {
		t.Errorf("stream time %d, want 9", ms)
	}
}

func TestProcess_waitsForAnEmptyInput(t *testing.T) {
	start := func(idleMs int64) *bench {
		x := open(t, copying("a", "b"), func(c *Config) { c.MaxIdleMs = idleMs }, "a", "b")
		x.add("a", record(0, "a1", 1))
		return x
	}
	enforced := func(x *bench) int64 { return x.metrics.Counter(metrics.EnforcedProcessing, x.task.ID()).Value() }

	// The end of b is not known: its records may be older.
	x := start(0)
	x.want("end unknown", x.process(), "")
	if idle := x.task.Idle(); idle.Waiting != in("b") || idle.UntilMs != 0 {
		t.Errorf("idle: %+v", idle)
	}
	// It has records that have not come yet.
	x.task.SetPosition(in("b"), 0, 1)
	x.want("behind", x.process(), "")
	x.add("b", record(0, "b0", 0))
	x.want("caught up", x.process(), "b0 a1")
	if n := enforced(x); n != 1 {
		t.Errorf("%d records taken beside an empty input, want 1", n)
	}

	// b is empty: with an idle time the task waits it out, from when it first saw that.
	x = start(50)
	x.task.SetPosition(in("b"), 0, 0)
	x.want("at first", x.process(), "")
	if idle := x.task.Idle(); idle.UntilMs != 1050 {
		t.Errorf("idle: %+v", idle)
	}
	x.nowMs = 1049
	x.want("a millisecond too early", x.process(), "")
	x.nowMs = 1050
	x.want("in time", x.process(), "a1")
	// A record of b ends the wait, and the next one starts anew.
	x.add("b", record(0, "b2", 2))
	x.want("nothing of a", x.process(), "")
	x.add("a", record(1, "a3", 3))
	x.want("both", x.process(), "b2")
	x.nowMs = 1099
	x.want("waits again", x.process(), "")
	x.nowMs = 1100
	x.want("and again in time", x.process(), "a3")

	// -1 waits for nothing, not even for records that are known to be there.
	x = start(-1)
	x.task.SetPosition(in("b"), 0, 5)
	x.want("never waits", x.process(), "a1")

	// No input has a record.
	x = open(t, copying("a"), nil, "a")
	x.want("empty", x.process(), "")
	if !x.task.Idle().Empty {
		t.Errorf("idle: %+v", x.task.Idle())
	}
}

func TestOffsets(t *testing.T) {
	x := open(t, copying("a"), nil, "a")
	x.want("nothing fetched", x.offset("a"), "nothing")
	// Offsets have gaps where records were compacted away, and transactions leave markers behind the last record.
	x.addBatch(broker.Batch{TopicPartition: in("a"), Records: []broker.Record{record(3, "v3", 3), record(7, "v7", 7)}, Position: 10, StableEnd: 10, HighWater: 12})
	if lag, known := x.task.Lag(); lag != 2 || !known {
		t.Errorf("lag %d, known %v, want the two records", lag, known)
	}
	if _, err := x.task.Process(1); err != nil {
		t.Fatal(err)
	}
	x.want("the first record not taken", strings.Fields(x.offset("a"))[0], "7")
	x.process()
	x.want("behind the markers", strings.Fields(x.offset("a"))[0], "10")
	// A batch without records moves the position too.
	x.addBatch(broker.Batch{TopicPartition: in("a"), Position: 12, StableEnd: 12, HighWater: 12})
	x.want("behind an empty batch", strings.Fields(x.offset("a"))[0], "12")
	if err := x.task.Add(broker.Batch{TopicPartition: in("zzz")}); err == nil {
		t.Error("records of a foreign partition were taken")
	}
}

func TestSkippedRecords(t *testing.T) {
	x := open(t, copying("a"), func(c *Config) {
		c.Handlers.Deserialization = func(processor.Failure) processor.Response { return processor.Response{Action: processor.Continue} }
	}, "a")
	x.add("a", record(0, "v", 5), record(1, "bad", 6), record(2, "v", -1))
	x.want("out", x.process(), "v")
	// What is skipped moves the offset, and no time.
	x.want("committed", x.offset("a"), "3 AgAAAAAAAAAF")
	x.add("a", record(3, "partition time", 1))
	x.process()
	x.want("committed", x.offset("a"), "4 AgAAAAAAAAAF")
	for reason, want := range map[metrics.Reason]int64{metrics.Deserialization: 1, metrics.NegativeTimestamp: 1} {
		if n := x.metrics.Dropped("source-a", reason).Value(); n != want {
			t.Errorf("%d dropped for %s, want %d", n, reason, want)
		}
	}
}

func TestTimesFromTheCommittedOffset(t *testing.T) {
	committed := func(text string) func(*Config) {
		return func(c *Config) {
			c.Committed = map[broker.TopicPartition]broker.OffsetMeta{in("a"): {Offset: 4, Metadata: text}}
		}
	}
	encode := func(m codec.OffsetMetadata) string {
		text, _ := codec.AppendOffsetMetadata(nil, m)
		return string(text)
	}
	late := func(x *bench) int64 { return x.metrics.Dropped("count", metrics.Late).Value() }

	// The operator's own time comes back: the window of a record at 2 has closed.
	x := open(t, counting(), committed(encode(codec.OffsetMetadata{PartitionTimeMs: 7, StreamTimeMs: 100, Observed: map[string]int64{"counts": 100}})), "a")
	if ms := x.task.StreamTimeMs(); ms != 100 {
		t.Errorf("stream time %d, want 100", ms)
	}
	x.add("a", record(4, "v", 2))
	x.process()
	if late(x) != 1 {
		t.Error("the observed time was forgotten")
	}
	m, _ := codec.ParseOffsetMetadata(strings.Fields(x.offset("a"))[1])
	if m.PartitionTimeMs != 7 || m.StreamTimeMs != 100 || m.Observed["counts"] != 100 {
		t.Errorf("committed again as %+v", m)
	}

	// An offset that was set by hand: nothing is known of the time.
	x = open(t, counting(), committed(""), "a")
	if ms := x.task.StreamTimeMs(); ms != codec.NoTime {
		t.Errorf("stream time %d after an offset was set by hand", ms)
	}
	x.add("a", record(4, "v", 2))
	x.process()
	if late(x) != 0 {
		t.Error("a record was late without a known time")
	}

	// One that is not in the log any more, so that reading begins before it.
	x = open(t, counting(), func(c *Config) {
		committed(encode(codec.OffsetMetadata{PartitionTimeMs: 7, StreamTimeMs: 100}))(c)
		c.Starts = map[broker.TopicPartition]int64{in("a"): 1}
	}, "a")
	if ms := x.task.StreamTimeMs(); ms != codec.NoTime {
		t.Errorf("stream time %d where reading begins anew", ms)
	}
	if by := x.task.OffsetsByHand(); len(by) != 1 || !by[0].Gone || by[0].String() != "a-0: committed 4, goes on at 1" {
		t.Errorf("told: %v", by)
	}
	// Behind records that were deleted the times go on.
	x = open(t, counting(), func(c *Config) {
		committed(encode(codec.OffsetMetadata{PartitionTimeMs: 7, StreamTimeMs: 100}))(c)
		c.Starts = map[broker.TopicPartition]int64{in("a"): 6}
	}, "a")
	if ms := x.task.StreamTimeMs(); ms != 100 || len(x.task.OffsetsByHand()) > 0 {
		t.Errorf("stream time %d behind records that were deleted, told: %v", ms, x.task.OffsetsByHand())
	}

	// A Java application does not write the operator's time. What the changelog says counts, but not beyond the task's own.
	for restored, want := range map[int64]int64{60: 60, 500: 100} {
		x = open(t, counting(), func(c *Config) {
			committed(encode(codec.OffsetMetadata{PartitionTimeMs: 100, StreamTimeMs: 100}))(c)
			c.RestoredTimeMs = map[string]int64{"counts": restored}
		}, "a")
		x.add("a", record(4, "v", want-1))
		x.process()
		m, _ := codec.ParseOffsetMetadata(strings.Fields(x.offset("a"))[1])
		if m.Observed["counts"] != want {
			t.Errorf("changelog up to %d: observed time %d, want %d", restored, m.Observed["counts"], want)
		}
	}
}

func TestClosed(t *testing.T) {
	x := open(t, copying("a"), nil, "a")
	x.add("a", record(0, "v", 5))
	for range 2 {
		if err := x.task.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := x.task.Process(1); !errors.Is(err, ErrClosed) {
		t.Errorf("Process returned %v", err)
	}
	if _, err := x.task.HandOver(); !errors.Is(err, ErrClosed) {
		t.Errorf("HandOver returned %v", err)
	}
	if err := x.task.Punctuate(0); !errors.Is(err, ErrClosed) {
		t.Errorf("Punctuate returned %v", err)
	}
}

// State that is gone ends the task, whatever the handlers say: no record is to blame for it.
func TestAbandonedState(t *testing.T) {
	x := open(t, counting(), func(c *Config) {
		c.Handlers.Processing = func(processor.Failure) processor.Response { return processor.Response{Action: processor.Continue} }
	}, "a")
	x.add("a", record(0, "v", 5))
	x.cfg.Set.Abandon()
	_, err := x.task.Process(1)
	var fatal *op.FatalError
	if !errors.Is(err, state.ErrClosed) || !errors.As(err, &fatal) || fatal.Origin.Topic != "a" {
		t.Errorf("Process returned %v", err)
	}
	if n := x.metrics.Dropped("count", metrics.Processing).Value(); n != 0 {
		t.Errorf("%d records counted as dropped", n)
	}
}

func TestBuffered(t *testing.T) {
	x := open(t, copying("a"), nil, "a")
	x.add("a", record(0, "v", 5), record(1, "v", 6))
	n, bytes := x.task.Buffered(in("a"))
	if n != 2 || bytes <= 4 || bytes != x.task.BufferedBytes() {
		t.Errorf("%d records of %d bytes buffered", n, bytes)
	}
	x.process()
	if n, bytes := x.task.Buffered(in("a")); n != 0 || bytes != 0 {
		t.Errorf("%d records of %d bytes left", n, bytes)
	}
}
