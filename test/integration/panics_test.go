package integration_test

import (
	"errors"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// boom panics on the value "bad". What it returns is for functions that have to return something.
func boom(v string) string {
	if v == "bad" {
		panic("boom")
	}
	return v
}

// boomSerde panics on the value "bad" in one direction.
func boomSerde(encode bool) serde.Serde[string] {
	return serde.Func(
		func(dst []byte, v string) ([]byte, error) {
			if encode {
				boom(v)
			}
			return append(dst, v...), nil
		},
		func(src []byte) (string, error) {
			if !encode {
				boom(string(src))
			}
			return string(src), nil
		})
}

// boomProcessor panics where it is told to.
type boomProcessor struct {
	where string
	ctx   processor.Context[string, string]
}

func (p *boomProcessor) Init(ctx processor.Context[string, string]) error {
	p.ctx = ctx
	if p.where == "init" {
		panic("boom")
	}
	if p.where != "timer" {
		return nil
	}
	_, err := ctx.Schedule(time.Second, processor.StreamTime, func(time.Time) error { panic("boom") })
	return err
}

func (p *boomProcessor) Process(r processor.Record[string, string]) error {
	if p.where == "process" {
		boom(r.Value)
	}
	return p.ctx.Forward(r)
}

func (p *boomProcessor) Close() error { return nil }

// A panic of the user's code is an error of Run that says where it was, with the stack for whoever asks; and where a handler
// says so, it costs the one record.
func TestBadInput_panics(t *testing.T) {
	t.Parallel()
	b := kafkatest.Embedded(t)
	handled := []millrace.AppOption{
		millrace.OnDeserializationError(millrace.LogAndContinue()), millrace.OnProcessingError(millrace.LogAndContinue()),
		millrace.OnProductionError(millrace.LogAndContinue()),
	}
	type stream = millrace.Stream[string, string]
	process := func(where string) func(*millrace.Builder, string, string) {
		return func(bld *millrace.Builder, in, out string) {
			millrace.Process(millrace.From(bld, texts(in)), func() *boomProcessor { return &boomProcessor{where: where} }, millrace.As("bad")).
				To(texts(out))
		}
	}
	step := func(f func(stream) stream) func(*millrace.Builder, string, string) {
		return func(bld *millrace.Builder, in, out string) { f(millrace.From(bld, texts(in))).To(texts(out)) }
	}
	for name, c := range map[string]struct {
		build  func(bld *millrace.Builder, in, out string)
		stage  processor.Stage
		reason string // under which it is counted
		// kept is what is written if handlers say to go on; empty if the panic is none of a record's.
		kept string
	}{
		"decode": {func(bld *millrace.Builder, in, out string) {
			millrace.From(bld, millrace.NewTopic(in, serde.String, boomSerde(false)), millrace.NodeName("bad")).To(texts(out))
		}, processor.Deserializing, "deserialization", "k=a k=b"},
		"encode": {func(bld *millrace.Builder, in, out string) {
			millrace.From(bld, texts(in)).To(millrace.NewTopic(out, serde.String, boomSerde(true)), millrace.NodeName("bad"))
		}, processor.Serializing, "production", "k=a k=b"},
		"extractor": {func(bld *millrace.Builder, in, out string) {
			millrace.From(bld, texts(in), millrace.NodeName("bad"), millrace.Timestamps(
				func(r processor.Record[string, string], _ processor.Metadata, _ int64) (int64, error) {
					boom(r.Value)
					return r.TimestampMs, nil
				})).To(texts(out))
		}, processor.Deserializing, "deserialization", "k=a k=b"},
		"filter": {step(func(s stream) stream {
			return s.Filter(func(_, v string) bool { return boom(v) == v }, millrace.NodeName("bad"))
		}), processor.Processing, "processing", "k=a k=b"},
		"mapper": {step(func(s stream) stream {
			return millrace.MapValues(s, boom, millrace.NodeName("bad"))
		}), processor.Processing, "processing", "k=a k=b"},
		"key": {step(func(s stream) stream {
			return millrace.SelectKey(s, func(k, v string) string { boom(v); return k }, millrace.NodeName("bad"))
		}), processor.Processing, "processing", "k=a k=b"},
		"aggregator": {func(bld *millrace.Builder, in, out string) {
			agg := millrace.Aggregate(millrace.From(bld, texts(in)).GroupByKey(), func() string { return "" },
				func(_, v, agg string) string { return agg + boom(v) }, serde.String, millrace.As("bad"), millrace.WithoutCache())
			agg.ToStream().To(texts(out))
		}, processor.Processing, "processing", "k=a k=ab"},
		"windowed-reducer": {func(bld *millrace.Builder, in, out string) {
			w := millrace.From(bld, texts(in)).GroupByKey().WindowBy(window.Tumbling(time.Hour).Grace(0))
			reduced, _ := millrace.ReduceWindows(w, func(agg, v string) string { return agg + boom(v) }, millrace.As("bad"), millrace.WithoutCache())
			millrace.Map(reduced.ToStream(), func(k window.Key[string], v string) (string, string) { return k.Key, v }).To(texts(out))
		}, processor.Processing, "processing", "k=a k=ab"},
		"processor": {process("process"), processor.Processing, "processing", "k=a k=b"},
		"timer":     {process("timer"), processor.Processing, "processing", "k=a k=bad k=b"},
		"init":      {process("init"), processor.Processing, "processing", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := kafkatest.CreateTopic(t, b, name+"-in", 1)
			kafkatest.Load(t, b, in, at("k", "a", 1), at("k", "bad", 2), at("k", "b", 3))
			run := func(how string, opts ...millrace.AppOption) (*running, string) {
				out := kafkatest.CreateTopic(t, b, name+"-"+how, 1)
				bld := millrace.NewBuilder()
				c.build(bld, in, out)
				return start(t, b, b.Name(name+"-"+how), buildTopology(t, bld), opts...), out
			}
			r, out := run("fails")
			err := r.fails()
			var at *millrace.RecordError
			var p *millrace.PanicError
			if !errors.As(err, &p) || len(p.Stack) == 0 {
				t.Errorf("the error is no panic with its stack: %v", err)
			}
			says(t, err, "step bad", "panic: boom")
			if c.kept == "" {
				return
			}
			if !errors.As(err, &at) || at.Stage != c.stage {
				t.Errorf("the error is %v, want one of stage %v", err, c.stage)
			}
			if name != "timer" { // which belongs to no record
				says(t, err, in+"-0@1", "Continue")
				equal(t, "written before", shown(kafkatest.ReadAll(t, b, out, kafkatest.Committed)), "k=a")
			}

			r, out = run("continues", handled...)
			r.untilDone()
			r.stop()
			equal(t, "written", shown(kafkatest.ReadAll(t, b, out, kafkatest.Committed)), c.kept)
			equal(t, "drops", drops(r), "bad "+c.reason+" 1")
		})
	}
}
