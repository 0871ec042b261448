package millrace_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

const ms = time.Millisecond

var errOops = errors.New("oops")

// trial is what the user function under test does, and what it has seen.
type trial struct {
	do    func(calls int) error // calls counts from 1
	calls int
	ctx   context.Context // of the last call, where the function gets one
}

func (f *trial) call() error {
	f.calls++
	return f.do(f.calls)
}

// fallible are the steps with a user function that can fail: each calls the trial for a value "x" and lets all other
// records through to the topic out. The step is called "step".
var fallible = map[string]func(b *millrace.Builder, f *trial){
	"TryFilter": func(b *millrace.Builder, f *trial) {
		to(from(b, "in").TryFilter(func(ctx context.Context, _, v string) (bool, error) { return true, f.on(ctx, v) }, step), "out")
	},
	"TryForEach": func(b *millrace.Builder, f *trial) {
		s := from(b, "in")
		s.TryForEach(func(ctx context.Context, _, v string) error { return f.on(ctx, v) }, step)
		to(s, "out")
	},
	"TryMap": func(b *millrace.Builder, f *trial) {
		to(millrace.TryMap(from(b, "in"), func(ctx context.Context, k, v string) (string, string, error) { return k, v, f.on(ctx, v) }, step), "out")
	},
	"TryMapValues": func(b *millrace.Builder, f *trial) {
		to(millrace.TryMapValues(from(b, "in"), func(ctx context.Context, v string) (string, error) { return v, f.on(ctx, v) }, step), "out")
	},
	"TryFlatMap": func(b *millrace.Builder, f *trial) {
		to(millrace.TryFlatMap(from(b, "in"), func(ctx context.Context, k, v string, emit func(string, string)) error {
			emit(k, v) // not sent if the function fails afterwards
			return f.on(ctx, v)
		}, step), "out")
	},
	"TryFlatMapValues": func(b *millrace.Builder, f *trial) {
		to(millrace.TryFlatMapValues(from(b, "in"), func(ctx context.Context, v string, emit func(string)) error {
			emit(v)
			return f.on(ctx, v)
		}, step), "out")
	},
	"TrySelectKey": func(b *millrace.Builder, f *trial) {
		to(millrace.TrySelectKey(from(b, "in"), func(ctx context.Context, k, v string) (string, error) { return k, f.on(ctx, v) }, step), "out")
	},
	"TryMapTableValues": func(b *millrace.Builder, f *trial) {
		mapped := millrace.TryMapTableValues(tableOf(b, "in"), func(ctx context.Context, v string) (string, error) { return v, f.on(ctx, v) }, millrace.NodeName("step"))
		to(mapped.ToStream(), "out")
	},
	"TryReduce": func(b *millrace.Builder, f *trial) {
		// The first value of a key is taken without a call, so each record has a predecessor.
		both := millrace.FlatMapValues(from(b, "in"), func(v string, emit func(string)) {
			emit("")
			emit(v)
		})
		r := both.GroupByKey(textValue).TryReduce(func(_, v string) (string, error) { return v, f.plain(v) }, millrace.As("step"))
		to(r.ToStream().Filter(func(_, v string) bool { return v != "" }), "out")
	},
	"TryAggregate": func(b *millrace.Builder, f *trial) {
		a := millrace.TryAggregate(from(b, "in").GroupByKey(), noText, func(_, v, _ string) (string, error) { return v, f.plain(v) }, serde.String, millrace.As("step"))
		to(a.ToStream(), "out")
	},
	"TryAggregateWindows": func(b *millrace.Builder, f *trial) {
		a := table(millrace.TryAggregateWindows(windowed(from(b, "in")), noText, func(_, v, _ string) (string, error) { return v, f.plain(v) }, serde.String, millrace.As("step")))
		toWindowed(a.ToStream(), "out")
	},
	"TryJoinTable": func(b *millrace.Builder, f *trial) {
		s := from(b, "in")
		t := s.ToTable(millrace.As("table")) // so that each record has a row
		to(millrace.TryJoinTable(s, t, func(ctx context.Context, v, _ string) (string, error) { return v, f.on(ctx, v) }, step), "out")
	},
	"TryLeftJoinTable": func(b *millrace.Builder, f *trial) {
		t := tableOf(b, "table", millrace.As("table"))
		to(millrace.TryLeftJoinTable(from(b, "in"), t, func(ctx context.Context, v, _ string, _ bool) (string, error) { return v, f.on(ctx, v) }, step), "out")
	},
	"TryLeftJoinGlobal": func(b *millrace.Builder, f *trial) {
		g := millrace.GlobalTableFrom(b, topicOf("table"), millrace.As("table"))
		to(millrace.TryLeftJoinGlobal(from(b, "in"), g, byValue, func(ctx context.Context, v, _ string, _ bool) (string, error) { return v, f.on(ctx, v) }, step), "out")
	},
	"Process": func(b *millrace.Builder, f *trial) {
		to(millrace.Process(from(b, "in"), func() *trying { return &trying{trial: f} }, step), "out")
	},
	"ProcessValues": func(b *millrace.Builder, f *trial) {
		to(millrace.ProcessValues(from(b, "in"), func() *tryingValues { return &tryingValues{trial: f} }, step), "out")
	},
	"TryReduceWindows": func(b *millrace.Builder, f *trial) {
		both := millrace.FlatMapValues(from(b, "in"), func(v string, emit func(string)) {
			emit("")
			emit(v)
		})
		w := both.GroupByKey(textValue).WindowBy(tenMs)
		r := table(millrace.TryReduceWindows(w, func(_, v string) (string, error) { return v, f.plain(v) }, millrace.As("step")))
		toWindowed(millrace.MapTableValues(r, same).ToStream().Filter(func(_ windowKey, v string) bool { return v != "" }), "out")
	},
	"TryJoinGlobal": func(b *millrace.Builder, f *trial) {
		g := millrace.GlobalTableFrom(b, topicOf("in-global"), millrace.As("table"))
		to(millrace.TryJoinGlobal(from(b, "in"), g, func(k, _ string) string { return k }, func(ctx context.Context, v, _ string) (string, error) { return v, f.on(ctx, v) }, step), "out")
	},
}

// panicking are steps whose function cannot return an error: it can panic only.
var panicking = map[string]func(b *millrace.Builder, f *trial){
	"Filter": func(b *millrace.Builder, f *trial) {
		to(from(b, "in").Filter(func(_, v string) bool { return f.plain(v) == nil }, step), "out")
	},
	"Peek": func(b *millrace.Builder, f *trial) {
		to(from(b, "in").Peek(func(_, v string) { _ = f.plain(v) }, step), "out")
	},
	"Map": func(b *millrace.Builder, f *trial) {
		to(millrace.Map(from(b, "in"), func(k, v string) (string, string) { _ = f.plain(v); return k, v }, step), "out")
	},
	"Branch": func(b *millrace.Builder, f *trial) {
		s := from(b, "in").Split(step)
		to(s.Branch(func(_, v string) bool { return f.plain(v) == nil }), "out")
		s.NoDefault()
	},
	"Aggregate": func(b *millrace.Builder, f *trial) {
		a := millrace.Aggregate(from(b, "in").GroupByKey(), noText, func(_, v, _ string) string { _ = f.plain(v); return v }, serde.String, millrace.As("step"))
		to(a.ToStream(), "out")
	},
	"Aggregate's init": func(b *millrace.Builder, f *trial) {
		init := func() string { _ = f.call(); return "" }
		// Each record has a key of its own.
		s := millrace.SelectKey(from(b, "in"), byValue).Repartition(millrace.As("r"), textKey)
		a := millrace.Aggregate(s.GroupByKey(), init, func(_, v, _ string) string { return v }, serde.String, millrace.As("step"))
		to(a.ToStream(), "out")
	},
	"Table.Filter": func(b *millrace.Builder, f *trial) {
		to(tableOf(b, "in").Filter(func(_, v string) bool { return f.plain(v) == nil }, millrace.NodeName("step")).ToStream(), "out")
	},
	"JoinGlobal's key": func(b *millrace.Builder, f *trial) {
		g := millrace.GlobalTableFrom(b, topicOf("table"), millrace.As("table"))
		key := func(_, v string) string { _ = f.plain(v); return v }
		to(millrace.LeftJoinGlobal(from(b, "in"), g, key, firstOf, step), "out")
	},
	"Sum": func(b *millrace.Builder, f *trial) {
		sum := millrace.Sum(from(b, "in").GroupByKey(), func(v string) int64 { _ = f.plain(v); return 1 }, serde.Int64, millrace.As("step"))
		to(sum.ToStream(), "out")
	},
	"ToChosen": func(b *millrace.Builder, f *trial) {
		choose := func(_, v string, _ processor.Metadata) string { _ = f.plain(v); return "out" }
		from(b, "in").ToChosen(choose, serde.String, serde.String, step)
	},
}

var step = millrace.As("step")

// plain calls the trial for the value "x".
func (f *trial) plain(v string) error {
	if v != "x" {
		return nil
	}
	return f.call()
}

// on is plain for a function that gets a context.
func (f *trial) on(ctx context.Context, v string) error {
	f.ctx = ctx
	return f.plain(v)
}

type trying struct {
	forwarder
	*trial
}

func (p *trying) Process(r processor.Record[string, string]) error {
	if err := p.plain(r.Value); err != nil {
		return err
	}
	return p.forwarder.Process(r)
}

type tryingValues struct {
	valueForwarder
	*trial
}

func (p *tryingValues) Process(r processor.Record[string, string]) error {
	if err := p.plain(r.Value); err != nil {
		return err
	}
	return p.valueForwarder.Process(r)
}

// run pipes the records a, x and b, each under a key of its own, and returns the driver and what piping x returned.
func (f *trial) run(t *testing.T, declare func(*millrace.Builder, *trial), h processor.Handler, opts ...milltest.Option) (d *milltest.Driver, atX error) {
	t.Helper()
	topology := built(t, func(b *millrace.Builder) { declare(b, f) })
	d = milltest.New(t, topology, append(opts, milltest.OnProcessingError(h))...)
	pipe := func(key, value string, at time.Duration) error {
		return d.PipeRaw("in", 0, []byte(key), []byte(value), serde.Headers{{Key: "h", Value: []byte(value)}}, at)
	}
	for _, g := range topology.Internal().Globals() {
		for _, key := range []string{"ka", "kx", "kb"} {
			if err := d.PipeRaw(g.Topic(), 0, []byte(key), []byte("row"), nil, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := pipe("ka", "a", 1*ms); err != nil {
		t.Fatal(err)
	}
	atX = pipe("kx", "x", 2*ms)
	if atX == nil {
		if err := pipe("kb", "b", 3*ms); err != nil {
			t.Fatal(err)
		}
	}
	return d, atX
}

// keys returns the keys of what came out.
func keys(d *milltest.Driver) string {
	var out []string
	for _, r := range d.ReadRaw("out") {
		out = append(out, string(r.Key[:min(2, len(r.Key))]))
	}
	return strings.Join(out, " ")
}

func eachStep(t *testing.T, steps map[string]func(*millrace.Builder, *trial), test func(t *testing.T, declare func(*millrace.Builder, *trial))) {
	for _, name := range sorted(steps) {
		t.Run(name, func(t *testing.T) { test(t, steps[name]) })
	}
}

func TestProcessingError_fails(t *testing.T) {
	eachStep(t, fallible, func(t *testing.T, declare func(*millrace.Builder, *trial)) {
		for name, h := range map[string]processor.Handler{"no handler": nil, "fail": millrace.LogAndFail()} {
			f := &trial{do: func(int) error { return errOops }}
			d, err := f.run(t, declare, h)
			if !errors.Is(err, errOops) {
				t.Fatalf("%s: piping returned %v", name, err)
			}
			for _, part := range []string{"millrace: processing", "task ", "step step", "@1", "oops"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%s: the error does not name %q: %v", name, part, err)
				}
			}
			if f.calls != 1 {
				t.Errorf("%s: %d calls", name, f.calls)
			}
			if err := d.PipeRaw("in", 0, []byte("k"), []byte("b"), nil, 0); !errors.Is(err, errOops) {
				t.Errorf("%s: a record after the failure gave %v", name, err)
			}
		}
	})
}

func TestProcessingError_continues(t *testing.T) {
	eachStep(t, fallible, func(t *testing.T, declare func(*millrace.Builder, *trial)) {
		var seen []processor.Failure
		f := &trial{do: func(int) error { return errOops }}
		d, err := f.run(t, declare, func(fail processor.Failure) processor.Response {
			seen = append(seen, fail)
			return processor.Response{Action: processor.Continue}
		})
		if err != nil {
			t.Fatal(err)
		}
		want := "ka kb"
		if strings.HasSuffix(t.Name(), "/TryForEach") {
			want = "ka kx kb" // the sibling has them all
		}
		if got := keys(d); got != want {
			t.Errorf("out: %s, want %s", got, want)
		}
		if n := d.Dropped("step", millrace.DroppedProcessing); n != 1 {
			t.Errorf("%d records counted as dropped, want 1", n)
		}
		if len(seen) != 1 {
			t.Fatalf("the handler was called %d times", len(seen))
		}
		s := seen[0]
		got := fmt.Sprintf("%s %s %v@%d %d %s %s %d", s.Stage, s.Step, s.Origin.Topic, s.Origin.Offset, s.TimestampMs, s.Key, s.Value, s.Attempt)
		if want := "processing step in@1 2 kx x 1"; got != want || !errors.Is(s.Err, errOops) || len(s.Headers) != 1 {
			t.Errorf("the handler saw %q, headers %v, error %v; want %q", got, s.Headers, s.Err, want)
		}
		if f.ctx != nil {
			if f.ctx.Err() != nil {
				t.Errorf("the context has ended: %v", f.ctx.Err())
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
			if f.ctx.Err() == nil {
				t.Error("the context has not ended with the application")
			}
		} else if strings.HasPrefix(t.Name(), "TestProcessingError_continues/Try") && !strings.Contains(t.Name(), "Reduce") && !strings.Contains(t.Name(), "Aggregate") {
			t.Error("the function got no context")
		}
	})
}

func TestProcessingError_retries(t *testing.T) {
	eachStep(t, fallible, func(t *testing.T, declare func(*millrace.Builder, *trial)) {
		var attempts []int
		f := &trial{do: func(calls int) error {
			if calls < 3 {
				return errOops
			}
			return nil
		}}
		d, err := f.run(t, declare, func(fail processor.Failure) processor.Response {
			attempts = append(attempts, fail.Attempt)
			return processor.Response{Action: processor.Retry}
		})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := keys(d), "ka kx kb"; got != want {
			t.Errorf("out: %s, want %s", got, want)
		}
		if fmt.Sprint(attempts) != "[1 2]" {
			t.Errorf("attempts %v, want 1 and 2", attempts)
		}
		if n := d.Dropped("step", millrace.DroppedProcessing); n != 0 {
			t.Errorf("%d records counted as dropped", n)
		}
	})
}

func TestPanic(t *testing.T) {
	all := make(map[string]func(*millrace.Builder, *trial))
	for name, declare := range fallible {
		all[name] = declare
	}
	for name, declare := range panicking {
		all[name] = declare
	}
	eachStep(t, all, func(t *testing.T, declare func(*millrace.Builder, *trial)) {
		isInit := strings.Contains(t.Name(), "init")
		boom := func(calls int) error {
			if !isInit || calls == 2 {
				panic("boom")
			}
			return nil
		}
		f := &trial{do: boom}
		_, err := f.run(t, declare, nil)
		if err == nil || !strings.Contains(err.Error(), "panic: boom") || !strings.Contains(err.Error(), "step step") {
			t.Errorf("piping returned %v", err)
		}
		f = &trial{do: boom}
		d, err := f.run(t, declare, millrace.LogAndContinue())
		if err != nil {
			t.Fatal(err)
		}
		want := "ka kb"
		switch {
		case strings.HasSuffix(t.Name(), "/TryForEach"):
			want = "ka kx kb"
		case isInit:
			want = "a b"
		}
		if got := keys(d); got != want {
			t.Errorf("out: %s, want %s", got, want)
		}
		if n := d.Dropped("step", millrace.DroppedProcessing); n != 1 {
			t.Errorf("%d records counted as dropped, want 1", n)
		}
	})
}

func TestHandlerThatPanics(t *testing.T) {
	f := &trial{do: func(int) error { return errOops }}
	_, err := f.run(t, fallible["TryMapValues"], func(processor.Failure) processor.Response { panic("handler down") })
	if !errors.Is(err, errOops) || !strings.Contains(err.Error(), "handler down") {
		t.Errorf("piping returned %v, want both causes", err)
	}
	_, err = f.run(t, fallible["TryMapValues"], func(processor.Failure) processor.Response {
		return processor.Response{Action: 77}
	})
	if !errors.Is(err, errOops) {
		t.Errorf("an action that does not exist gave %v, want a failure", err)
	}
}

// A dead letter goes the way of the task's own output, in order with it, whatever becomes of the record.
func TestDeadLetter(t *testing.T) {
	f := &trial{do: func(calls int) error {
		if calls == 1 {
			return errOops
		}
		return nil
	}}
	for action, want := range map[processor.Action]string{processor.Continue: "ka kb", processor.Retry: "ka kx kb"} {
		f.calls = 0
		d, err := f.run(t, fallible["TryMapValues"], func(fail processor.Failure) processor.Response {
			return processor.Response{Action: action, DeadLetters: []processor.DeadLetter{
				{Topic: "dead", Key: fail.Key, Value: fail.Value, Headers: fail.Headers.With("why", []byte(fail.Err.Error()))},
			}}
		}, milltest.ManualCommit())
		if err != nil {
			t.Fatal(err)
		}
		if got := keys(d); got != want {
			t.Errorf("out: %s, want %s", got, want)
		}
		dead := d.ReadRaw("dead")
		if len(dead) != 1 {
			t.Fatalf("%d dead letters", len(dead))
		}
		got := fmt.Sprintf("%s=%s@%d %s %s", dead[0].Key, dead[0].Value, dead[0].TimestampMs, dead[0].Headers[0].Value, dead[0].Headers[1].Value)
		if want := "kx=x@2 x oops"; got != want {
			t.Errorf("dead letter %q, want %q", got, want)
		}
		if n := d.Dropped("step", millrace.DeadLettered); n != 1 {
			t.Errorf("%d dead letters counted", n)
		}
	}
}

// A failure further down is that of the step further down, also where a user-written step forwards.
func TestProcessingError_ofALaterStep(t *testing.T) {
	f := &trial{do: func(int) error { return errOops }}
	var steps []string
	declare := func(b *millrace.Builder, f *trial) {
		s := millrace.Process(millrace.MapValues(from(b, "in"), same, millrace.As("before")), newForwarder, millrace.As("forwards"))
		to(millrace.TryMapValues(s, func(ctx context.Context, v string) (string, error) { return v, f.on(ctx, v) }, step), "out")
	}
	d, err := f.run(t, declare, func(fail processor.Failure) processor.Response {
		steps = append(steps, fail.Step)
		return processor.Response{Action: processor.Fail}
	})
	if err == nil || !strings.Contains(err.Error(), "step step") || fmt.Sprint(steps) != "[step]" {
		t.Errorf("piping returned %v, the handler was asked about %v", err, steps)
	}
	for _, other := range []string{"before", "forwards"} {
		if n := d.Dropped(other, millrace.DroppedProcessing); n != 0 {
			t.Errorf("step %s counts %d failures", other, n)
		}
	}
}

// unfit is a serde that does not take the value "x".
var unfit = serde.Func(
	func(dst []byte, v string) ([]byte, error) {
		if v == "x" {
			return append(dst, "half"...), errOops
		}
		return append(dst, v...), nil
	},
	func(src []byte) (string, error) { return string(src), nil },
)

func TestSerializationError(t *testing.T) {
	declare := func(b *millrace.Builder, _ *trial) {
		millrace.MapValues(from(b, "in"), same).To(millrace.NewTopic("out", serde.String, unfit), step)
	}
	_, err := (&trial{}).run(t, declare, nil)
	if !errors.Is(err, errOops) || !strings.Contains(err.Error(), "millrace: serializing: task 0_0, step step, record in-0@1") {
		t.Errorf("piping returned %v", err)
	}
	var seen processor.Failure
	d, err := (&trial{}).run(t, declare, nil, milltest.OnProductionError(func(fail processor.Failure) processor.Response {
		seen = fail
		return processor.Response{Action: processor.Continue}
	}))
	if err != nil {
		t.Fatal(err)
	}
	if got := keys(d); got != "ka kb" {
		t.Errorf("out: %s, want ka kb", got)
	}
	if seen.Stage != processor.Serializing || seen.OutputTopic != "out" || string(seen.Value) != "x" {
		t.Errorf("the handler saw %+v", seen)
	}
	if n := d.Dropped("step", millrace.DroppedProduction); n != 1 {
		t.Errorf("%d records counted as dropped, want 1", n)
	}
}

// A value that a store's serde does not take is a failure of the step that owns the store, as in Kafka Streams, and leaves
// what the store has.
func TestStoreThatDoesNotEncode(t *testing.T) {
	declare := func(b *millrace.Builder, _ *trial) {
		s := millrace.Map(from(b, "in"), func(_, v string) (string, string) { return "k", v })
		a := millrace.Aggregate(s.Repartition(millrace.As("r"), textKey, textValue).GroupByKey(), noText, func(_, v, _ string) string { return v }, unfit,
			millrace.As("step"), millrace.WithoutCache())
		to(a.ToStream(), "out")
	}
	_, err := (&trial{}).run(t, declare, nil)
	if !errors.Is(err, errOops) || !strings.Contains(err.Error(), "step step") {
		t.Errorf("piping returned %v", err)
	}
	d, err := (&trial{}).run(t, declare, millrace.LogAndContinue())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range d.ReadRaw("out") {
		got = append(got, string(r.Value))
	}
	if fmt.Sprint(got) != `["a" "b"]` {
		t.Errorf("out: %v", got)
	}
	if n := d.Dropped("step", millrace.DroppedProcessing); n != 1 {
		t.Errorf("%d records counted as dropped, want 1", n)
	}
}

func TestTimerThatFails(t *testing.T) {
	declare := func(b *millrace.Builder, _ *trial) {
		to(millrace.Process(from(b, "in"), func() *failingTimer { return &failingTimer{} }, step), "out")
	}
	_, err := (&trial{}).run(t, declare, nil)
	if !errors.Is(err, errOops) || !strings.Contains(err.Error(), "step step") {
		t.Errorf("piping returned %v", err)
	}
	var seen processor.Failure
	d, err := (&trial{}).run(t, declare, func(fail processor.Failure) processor.Response {
		seen = fail
		return processor.Response{Action: processor.Continue}
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := keys(d); got != "ka kx kb" {
		t.Errorf("out: %s", got)
	}
	if seen.Step != "step" || seen.Origin.Topic != "" || seen.Key != nil {
		t.Errorf("the handler saw %+v, want a failure without a record", seen)
	}
	if n := d.Dropped("step", millrace.DroppedProcessing); n != 1 {
		t.Errorf("%d failures counted, want 1", n)
	}
}

// failingTimer has a timer that fails at the time 2.
type failingTimer struct{ forwarder }

func (p *failingTimer) Init(ctx processor.Context[string, string]) error {
	p.ctx = ctx
	_, err := ctx.Schedule(ms, processor.StreamTime, func(now time.Time) error {
		if now.UnixMilli() == 2 {
			return errOops
		}
		return nil
	})
	return err
}

func TestInitThatFails(t *testing.T) {
	topology := built(t, func(b *millrace.Builder) {
		millrace.Process(from(b, "in"), func() *failingInit { return &failingInit{} }, step)
	})
	d, err := milltest.NewDriver(topology)
	if !errors.Is(err, errOops) || !strings.Contains(err.Error(), "step step: Init failed") {
		t.Errorf("NewDriver returned %v, %v", d, err)
	}
}

type failingInit struct{ forwarder }

func (p *failingInit) Init(processor.Context[string, string]) error { return errOops }
