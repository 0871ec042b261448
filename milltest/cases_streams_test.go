package milltest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

// numberText is a number as text behind a '#', another encoding of what serde.Int64 encodes.
var numberText = serde.Func(
	func(dst []byte, n int64) ([]byte, error) { return strconv.AppendInt(append(dst, '#'), n, 10), nil },
	func(src []byte) (int64, error) {
		digits, ok := strings.CutPrefix(string(src), "#")
		if !ok {
			return 0, errors.New("no #")
		}
		return strconv.ParseInt(digits, 10, 64)
	},
)

func TestC068_MergingStreamsWhoseTopicsAreEncodedDifferently(t *testing.T) {
	a := millrace.NewTopic("a", serde.String, serde.Int64)
	c := millrace.NewTopic("c", serde.String, numberText)
	parity := func(_ string, n int64) string { return map[int64]string{0: "even", 1: "odd"}[n%2] }
	add := func(x, y int64) int64 { return x + y }

	b := millrace.NewBuilder()
	merged := millrace.SelectKey(millrace.From(b, a).Merge(millrace.From(b, c)), parity)
	merged.GroupByKey(millrace.WithKey(serde.String), millrace.WithValue(serde.Int64)).Reduce(add, millrace.As("sum")).ToStream().To(countTopic)
	d := milltest.New(t, build(t, b))
	ina, inc, out := milltest.Input(d, a), milltest.Input(d, c), reader(d, countTopic)
	ina.PipeAt("k", 4, 1*ms)
	inc.PipeAt("k", 7, 2*ms)
	inc.PipeAt("k", 10, 3*ms)
	ina.PipeAt("k", 1, 4*ms)
	wantText(t, "sums", out(), "even=4@1 odd=7@2 even=14@3 odd=8@4")

	b = millrace.NewBuilder()
	merged = millrace.SelectKey(millrace.From(b, a).Merge(millrace.From(b, c)), parity)
	merged.GroupByKey(millrace.WithKey(serde.String)).Reduce(add, millrace.As("sum"))
	_, err := b.Build()
	if err == nil {
		t.Fatal("a merged stream was repartitioned without a serde for its values")
	}
	for _, part := range []string{"Merge", "sum-repartition", "WithValue", "cases_streams_test.go"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not name %q: %v", part, err)
		}
	}
}

// timed is a processor whose behaviour a test gives.
type timed[V any] struct {
	ctx     processor.Context[string, V]
	init    func(p *timed[V]) error
	process func(p *timed[V], r processor.Record[string, string]) error
}

func (p *timed[V]) Init(ctx processor.Context[string, V]) error {
	p.ctx = ctx
	if p.init == nil {
		return nil
	}
	return p.init(p)
}

func (p *timed[V]) Process(r processor.Record[string, string]) error {
	if p.process == nil {
		return nil
	}
	return p.process(p, r)
}

func (p *timed[V]) Close() error { return nil }

// every sets a timer that notes its calls.
func every(ctx processor.Context[string, string], interval time.Duration, kind processor.TimeKind, calls *[]string, name string) (processor.Cancel, error) {
	return ctx.Schedule(interval, kind, func(now time.Time) error {
		*calls = append(*calls, fmt.Sprint(name, now.UnixMilli()))
		return nil
	})
}

func withTimers(t *testing.T, init func(ctx processor.Context[string, string]) error) *milltest.Driver {
	t.Helper()
	b := millrace.NewBuilder()
	millrace.Process(millrace.From(b, strTopic), func() *timed[string] {
		return &timed[string]{init: func(p *timed[string]) error { return init(p.ctx) }}
	}, millrace.As("step"))
	return milltest.New(t, build(t, b))
}

func TestC104_StreamTimeTimers(t *testing.T) {
	var calls []string
	d := withTimers(t, func(ctx processor.Context[string, string]) error {
		_, err := every(ctx, 10*ms, processor.StreamTime, &calls, "")
		return err
	})
	for _, s := range []struct {
		at   int
		want string
	}{{5, "5"}, {12, "12"}, {14, ""}, {47, "47"}, {48, ""}, {50, "50"}, {31, ""}, {60, "60"}} {
		calls = nil
		pipe(t, d, "in", fmt.Sprintf("k=x@%d", s.at))
		wantText(t, fmt.Sprint("@", s.at), strings.Join(calls, " "), s.want)
	}
}

func TestC106_CancellingFromInsideAndSeveralSchedules(t *testing.T) {
	var calls []string
	t.Run("cancel", func(t *testing.T) {
		d := withTimers(t, func(ctx processor.Context[string, string]) (err error) {
			var cancel processor.Cancel
			cancel, err = ctx.Schedule(10*ms, processor.StreamTime, func(now time.Time) error {
				calls = append(calls, fmt.Sprint(now.UnixMilli()))
				if len(calls) == 2 {
					cancel()
					cancel() // a second time changes nothing
				}
				return nil
			})
			return err
		})
		for _, at := range []int{0, 10, 20, 30} {
			pipe(t, d, "in", fmt.Sprintf("k=x@%d", at))
		}
		wantText(t, "calls", strings.Join(calls, " "), "0 10")
	})
	t.Run("two", func(t *testing.T) {
		d := withTimers(t, func(ctx processor.Context[string, string]) error {
			_, err := every(ctx, 10*ms, processor.StreamTime, &calls, "A")
			_, err2 := every(ctx, 15*ms, processor.StreamTime, &calls, "B")
			return errors.Join(err, err2)
		})
		for _, s := range []struct {
			at   int
			want string
		}{{0, "A0 B0"}, {10, "A10"}, {15, "B15"}, {31, "A31 B31"}} {
			calls = nil
			pipe(t, d, "in", fmt.Sprintf("k=x@%d", s.at))
			wantText(t, fmt.Sprint("@", s.at), strings.Join(calls, " "), s.want)
		}
	})
}

// A timer of stream time that a step sets while time stands still fires at once, as in Kafka Streams.
func TestTimer_setInsideProcess(t *testing.T) {
	var calls []string
	b := millrace.NewBuilder()
	millrace.Process(millrace.From(b, strTopic), func() *timed[string] {
		return &timed[string]{process: func(p *timed[string], r processor.Record[string, string]) error {
			if r.Value != "set" {
				return nil
			}
			_, err := every(p.ctx, 10*ms, processor.StreamTime, &calls, "")
			return err
		}}
	}, millrace.As("step"))
	d := milltest.New(t, build(t, b))
	for _, s := range []struct{ record, want string }{
		{"k=x@5", ""}, {"k=set@5", "5"}, {"k=x@5", ""}, {"k=set@3", "5"}, {"k=x@12", "12 12"},
	} {
		calls = nil
		pipe(t, d, "in", s.record)
		wantText(t, s.record, strings.Join(calls, " "), s.want)
	}
}

func TestTimer_wallClock(t *testing.T) {
	var calls []string
	d := withTimers(t, func(ctx processor.Context[string, string]) error {
		_, err := every(ctx, 10*ms, processor.WallClock, &calls, "")
		return err
	})
	pipe(t, d, "in", "k=x@1000")
	d.AdvanceTime(25 * ms)
	wantText(t, "on its cadence", strings.Join(calls, " "), "10 20")
	calls = nil
	d.JumpTime(100 * ms)
	wantText(t, "after a stand-still", strings.Join(calls, " "), "125")
	calls = nil
	d.AdvanceTime(10 * ms)
	wantText(t, "back on the grid", strings.Join(calls, " "), "130")
}

func TestC108_RecordsWithAnInvalidTimestamp(t *testing.T) {
	run := func(t *testing.T, opts ...millrace.StepOption) (*milltest.Driver, func() string) {
		t.Helper()
		b := millrace.NewBuilder()
		millrace.From(b, strTopic, append(opts, millrace.As("src"))...).To(outTopic)
		d := milltest.New(t, build(t, b))
		return d, reader(d, outTopic)
	}
	extract := func(f func(tsMs, partitionTimeMs int64) (int64, error)) millrace.StepOption {
		return millrace.Timestamps(func(r processor.Record[string, string], _ processor.Metadata, partitionTimeMs int64) (int64, error) {
			return f(r.TimestampMs, partitionTimeMs)
		})
	}
	t.Run("fail", func(t *testing.T) {
		d, _ := run(t)
		err := tryPipe(d, "in", "k=x@-1")
		if err == nil || !strings.Contains(err.Error(), "negative timestamp") || !strings.Contains(err.Error(), "in-0@0") {
			t.Errorf("a record at -1 gave %v, want an error that names it", err)
		}
	})
	t.Run("skip", func(t *testing.T) {
		d, out := run(t, extract(func(ts, _ int64) (int64, error) { return ts, nil }))
		steps{{"in", "k=ok@5", "k=ok@5"}, {"in", "k=x@-1", ""}, {"in", "k=y@-1", ""}}.run(t, d, out)
		wantDropped(t, d, "src", millrace.DroppedNegativeTimestamp, 2)
		// What was skipped is not read again.
		restart(t, d)
		wantText(t, "after a restart", out(), "")
		wantDropped(t, d, "src", millrace.DroppedNegativeTimestamp, 2)
	})
	t.Run("partition time", func(t *testing.T) {
		option := extract(func(ts, partitionTimeMs int64) (int64, error) {
			if ts < 0 && partitionTimeMs < 0 {
				return 0, errors.New("no time is known yet")
			}
			if ts < 0 {
				return partitionTimeMs, nil
			}
			return ts, nil
		})
		d, out := run(t, option)
		steps{{"in", "k=ok@77", "k=ok@77"}, {"in", "k=x@-1", "k=x@77"}}.run(t, d, out)
		d, _ = run(t, option)
		if err := tryPipe(d, "in", "k=x@-1"); err == nil || !strings.Contains(err.Error(), "no time is known yet") {
			t.Errorf("without a known time: %v", err)
		}
	})
	t.Run("forward", func(t *testing.T) {
		b := millrace.NewBuilder()
		var atCall error
		millrace.Process(millrace.From(b, strTopic), func() *timed[string] {
			return &timed[string]{process: func(p *timed[string], r processor.Record[string, string]) error {
				r.TimestampMs = -1
				atCall = p.ctx.Forward(r)
				return atCall
			}}
		}, millrace.As("step")).To(outTopic)
		d := milltest.New(t, build(t, b))
		err := tryPipe(d, "in", "k=x@5")
		if atCall == nil || err == nil || !strings.Contains(err.Error(), "step step") || !strings.Contains(err.Error(), "negative timestamp -1") {
			t.Errorf("forwarding -1 gave %v at the call and %v at the record", atCall, err)
		}
	})
}

func TestC110_PoisonPill(t *testing.T) {
	in := millrace.NewTopic("in", serde.String, serde.Int64)
	run := func(t *testing.T, h processor.Handler) (*milltest.Driver, func() string) {
		b := millrace.NewBuilder()
		sum := millrace.From(b, in, millrace.As("src")).GroupByKey().Reduce(func(x, y int64) int64 { return x + y }, millrace.As("sum"))
		sum.ToStream().To(countTopic)
		d := milltest.New(t, build(t, b), milltest.OnDeserializationError(h))
		return d, reader(d, countTopic)
	}
	bytes := func(n byte) []byte { return []byte{0, 0, 0, 0, 0, 0, 0, n} }
	inputs := []struct {
		value []byte
		want  string
	}{{bytes(4), "k=4@1"}, {[]byte{1, 2, 3}, ""}, {bytes(5), "k=9@3"}, {nil, ""}}

	d, out := run(t, millrace.LogAndContinue())
	for i, r := range inputs {
		if err := d.PipeRaw("in", 0, []byte("k"), r.value, nil, time.Duration(i+1)*ms); err != nil {
			t.Fatal(err)
		}
		wantText(t, fmt.Sprintf("%x", r.value), out(), r.want)
	}
	wantDropped(t, d, "src", millrace.DroppedDeserialization, 1)
	wantDropped(t, d, "sum", millrace.DroppedNullValue, 1)

	d, out = run(t, millrace.LogAndFail())
	if err := d.PipeRaw("in", 0, []byte("k"), inputs[0].value, nil, 1*ms); err != nil {
		t.Fatal(err)
	}
	wantText(t, "first", out(), "k=4@1")
	err := d.PipeRaw("in", 0, []byte("k"), inputs[1].value, nil, 2*ms)
	if err == nil || !strings.Contains(err.Error(), "in-0@1") || !strings.Contains(err.Error(), "src") {
		t.Errorf("bad bytes gave %v, want an error that names record and source", err)
	}
}

// unref decodes nothing, and takes the header ref away while it tries.
type unref struct{ serde.Serde[string] }

func (unref) DecodeWithHeaders(src []byte, headers *serde.Headers) (string, error) {
	for i := range *headers { // in place as well: what it is given is its own
		(*headers)[i].Value[0] = 'x'
	}
	*headers = headers.Without("ref")
	return "", fmt.Errorf("%x is no good", src)
}

func TestC116_DeadLettersCarryTheOriginalBytesAndHeaders(t *testing.T) {
	in := millrace.NewTopic("in", serde.String, serde.Serde[string](unref{serde.String}))
	b := millrace.NewBuilder()
	millrace.From(b, in).To(outTopic)
	var seen processor.Failure
	d := milltest.New(t, build(t, b), milltest.OnDeserializationError(func(f processor.Failure) processor.Response {
		seen = f
		return processor.Response{Action: processor.Continue, DeadLetters: []processor.DeadLetter{
			{Topic: "dead", Key: f.Key, Value: f.Value, Headers: f.Headers},
		}}
	}))
	headers := serde.Headers{{Key: "ref", Value: []byte("7")}, {Key: "tr", Value: []byte("9")}}
	if err := d.PipeRaw("in", 0, []byte("k"), []byte{1, 2}, headers, 5*ms); err != nil {
		t.Fatal(err)
	}
	const want = "k 0102 ref=7,tr=9"
	wantText(t, "handler", fmt.Sprintf("%s %x %s", seen.Key, seen.Value, headersText(seen.Headers)), want)
	dead := d.ReadRaw("dead")
	if len(dead) != 1 {
		t.Fatalf("%d dead letters, want one", len(dead))
	}
	wantText(t, "dead letter", fmt.Sprintf("%s %x %s", dead[0].Key, dead[0].Value, headersText(dead[0].Headers)), want)
	if dead[0].TimestampMs != 5 {
		t.Errorf("the dead letter has the time %d, want that of the record, 5", dead[0].TimestampMs)
	}
}

func headersText(h serde.Headers) string {
	var out []string
	for _, x := range h {
		out = append(out, x.Key+"="+string(x.Value))
	}
	return strings.Join(out, ",")
}

// pipeWith writes a record of text with headers, given as "a=1,b=2".
func pipeWith(t *testing.T, d *milltest.Driver, topic, key, value string, at time.Duration, headers string) {
	t.Helper()
	var h serde.Headers
	for _, x := range strings.FieldsFunc(headers, func(r rune) bool { return r == ',' }) {
		k, v, _ := strings.Cut(x, "=")
		h = append(h, serde.Header{Key: k, Value: []byte(v)})
	}
	if err := d.PipeRaw(topic, 0, []byte(key), []byte(value), h, at); err != nil {
		t.Fatal(err)
	}
}

func headersOf(d *milltest.Driver, topic string) string {
	var out []string
	for _, r := range d.ReadRaw(topic) {
		out = append(out, "["+headersText(r.Headers)+"]")
	}
	return strings.Join(out, " ")
}

func TestC117_WhoseHeadersAResultCarries(t *testing.T) {
	t.Run("repartition", func(t *testing.T) {
		b := millrace.NewBuilder()
		s := millrace.MapValues(millrace.From(b, strTopic).Filter(func(string, string) bool { return true }), func(v string) string { return v })
		millrace.SelectKey(s, func(_, v string) string { return v }).
			Repartition(millrace.As("r"), millrace.WithKey(serde.String), millrace.WithValue(serde.String)).To(outTopic)
		d := milltest.New(t, build(t, b))
		pipeWith(t, d, "in", "k", "a", 1*ms, "tr=77,lang=de")
		wantText(t, "repartition topic", headersOf(d, "test-r-repartition"), "[tr=77,lang=de]")
		wantText(t, "out", headersOf(d, "out"), "[tr=77,lang=de]")
	})
	t.Run("count", func(t *testing.T) {
		for _, cache := range []int64{0, 1 << 20} {
			b := millrace.NewBuilder()
			millrace.Count(millrace.From(b, strTopic).GroupByKey(), millrace.As("c")).ToStream().To(countTopic)
			d := milltest.New(t, build(t, b), milltest.CacheBytes(cache))
			pipeWith(t, d, "in", "k", "a", 1*ms, "tr=1")
			pipeWith(t, d, "in", "k", "b", 2*ms, "")
			pipeWith(t, d, "in", "k", "c", 3*ms, "tr=3")
			wantText(t, "out", headersOf(d, "out"), "[tr=1] [] [tr=3]")
			wantText(t, "changelog", headersOf(d, "test-c-changelog"), "[] [] []")
		}
	})
	t.Run("stream-table", func(t *testing.T) {
		d, _ := streamTable(t, false, func(l, r string) string { return l + r })
		pipeWith(t, d, "T", "k", "t", 1*ms, "h=tab")
		pipeWith(t, d, "S", "k", "s", 2*ms, "h=str")
		wantText(t, "out", headersOf(d, "out"), "[h=str]")
	})
}

func TestC118_ABranchThatChangesHeaders(t *testing.T) {
	b := millrace.NewBuilder()
	s := millrace.From(b, strTopic)
	add := func(name string, change func(serde.Headers) serde.Headers) {
		millrace.Process(s, func() *timed[string] {
			return &timed[string]{process: func(p *timed[string], r processor.Record[string, string]) error {
				r.Headers = change(r.Headers)
				return p.ctx.Forward(r)
			}}
		}, millrace.As(name)).To(millrace.NewTopic(name+"-out", serde.String, serde.String))
	}
	add("first", func(h serde.Headers) serde.Headers { return h.With("mut", []byte("1")) })
	add("second", func(h serde.Headers) serde.Headers { return h })
	add("third", func(h serde.Headers) serde.Headers { return h.Without("tr") })
	d := milltest.New(t, build(t, b))
	pipeWith(t, d, "in", "k", "a", 1*ms, "tr=x")
	wantText(t, "first", headersOf(d, "first-out"), "[tr=x,mut=1]")
	wantText(t, "second", headersOf(d, "second-out"), "[tr=x]")
	wantText(t, "third", headersOf(d, "third-out"), "[]")
}

func TestC133_OutputOrderWithInternalTopics(t *testing.T) {
	t.Run("repartition", func(t *testing.T) {
		b := millrace.NewBuilder()
		s := millrace.FlatMapValues(millrace.From(b, strTopic), func(v string, emit func(string)) {
			emit(v + "1")
			emit(v + "2")
		})
		mark := func(s millrace.Stream[string, string], prefix string) {
			millrace.MapValues(s, func(v string) string { return prefix + v }).To(outTopic)
		}
		mark(millrace.SelectKey(s, func(k, _ string) string { return k }).
			Repartition(millrace.As("r"), millrace.WithKey(serde.String), millrace.WithValue(serde.String)), "R")
		mark(s, "D")
		d := milltest.New(t, build(t, b))
		pipe(t, d, "in", "k=a@1")
		wantText(t, "out", strings.Join(milltest.Output(d, outTopic).ReadValues(), ", "), "Da1, Da2, Ra1, Ra2")
	})
	t.Run("loop", func(t *testing.T) {
		loop := millrace.NewTopic("loop", serde.String, serde.String)
		b := millrace.NewBuilder()
		s := millrace.From(b, loop)
		s.To(outTopic)
		millrace.FlatMapValues(s.Filter(func(_, v string) bool { return len(v) < 3 }), func(v string, emit func(string)) {
			emit(v + "x")
			emit(v + "y")
		}).To(loop)
		d := milltest.New(t, build(t, b))
		pipe(t, d, "loop", "k=a@1")
		got := milltest.Output(d, outTopic).ReadValues()
		wantText(t, "out", strings.Join(got, " "), "a ax ay axx axy ayx ayy")
		if !slices.IsSortedFunc(got, func(a, b string) int { return len(a) - len(b) }) {
			t.Error("a generation came before the one before it was through")
		}
	})
}

// A grouping function that fails is judged by the processing handler, for that record alone.
func TestTryGroupBy(t *testing.T) {
	b := millrace.NewBuilder()
	byFirst := millrace.TryGroupBy(millrace.From(b, strTopic), func(_ context.Context, _, v string) (string, error) {
		if v == "" {
			return "", errors.New("no first letter")
		}
		return v[:1], nil
	}, millrace.WithKey(serde.String))
	millrace.Count(byFirst, millrace.As("counts"), millrace.NodeName("count")).ToStream().ForEach(func(string, int64) {})
	d := milltest.New(t, build(t, b), milltest.OnProcessingError(skipBad))
	for _, r := range []string{"k=apple@1", "k=@2", "k=ash@3"} {
		pipe(t, d, "in", r)
	}
	if n, ok, err := milltest.KeyValue[string, int64](d, "counts", 0).Get("a"); n != 2 || !ok || err != nil {
		t.Errorf("a: %d, %v, %v", n, ok, err)
	}
	wantDropped(t, d, "KSTREAM-KEY-SELECT-0000000001", millrace.DroppedProcessing, 1)
}
