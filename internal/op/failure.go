package op

import (
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/processor"
)

// guard is a step's dealing with its user function: errors and panics go to the application's policy.
type guard struct {
	env     *Env
	step    string
	dropped *metrics.Counter
}

func newGuard(env *Env, step string) guard {
	return guard{env: env, step: step, dropped: env.counter(step, metrics.Processing)}
}

// PanicError is a panic of user code, made into an error.
type PanicError struct {
	Value any
	Stack []byte
	Place string // file:line of the code that panicked; empty if it is not known
}

// Error tells what the panic said, and where.
func (p *PanicError) Error() string {
	if p.Place == "" {
		return fmt.Sprintf("panic: %v", p.Value)
	}
	return fmt.Sprintf("panic: %v, at %s", p.Value, p.Place)
}

// recovered turns a panic of the function that defers it into an error. It must be deferred directly.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = &PanicError{Value: p, Stack: debug.Stack(), Place: panicPlace()}
	}
}

// panicPlace finds the line that panicked, for a function that recovers: the first behind the runtime's own frames.
func panicPlace() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	panicked := false
	for {
		f, more := frames.Next()
		own := strings.HasPrefix(f.Function, "runtime.")
		if panicked && !own && f.File != "" {
			return fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
		}
		panicked = panicked || f.Function == "runtime.gopanic"
		if !more {
			return ""
		}
	}
}

// failed asks the policy about an error of the step's user function. retry says that the function is to be called
// again; otherwise a nil error means that the record ends here.
func (g *guard) failed(err error, attempt int) (retry bool, out error) {
	return g.env.judge(g.env.Handlers.Processing, processor.Processing, g.step, "", err, attempt, g.dropped,
		"the processing error handler decides (millrace.OnProcessingError): Continue drops the record at this step and counts it")
}

// judge asks a handler, writes its dead letters and counts what is dropped.
func (e *Env) judge(h processor.Handler, stage processor.Stage, step, outputTopic string, err error, attempt int,
	dropped *metrics.Counter, hint string) (retry bool, out error) {
	if isFatal(err) {
		return false, err
	}
	origin, _ := e.Origin()
	fatal := &FatalError{Stage: stage, Step: step, Task: e.Task, Origin: origin, Err: err, Hint: hint}
	if h == nil {
		return false, fatal
	}
	f := processor.Failure{
		Stage: stage, Step: step, Task: e.Task, Origin: origin, TimestampMs: e.cur.tsMs, Headers: e.cur.headers,
		OutputTopic: outputTopic, Attempt: attempt, Err: err,
	}
	if e.cur.raw != nil {
		// The original record, as it stands in Kafka: a deserializer may have changed its own copy of the headers.
		f.Key, f.Value, f.Headers = e.cur.raw.Key, e.cur.raw.Value, e.cur.raw.Headers
	}
	r, herr := callHandler(h, f)
	if herr != nil {
		fatal.Err = fmt.Errorf("%w; and its handler failed: %w", err, herr)
		return false, fatal
	}
	for _, d := range r.DeadLetters {
		if derr := e.deadLetter(step, d); derr != nil {
			fatal.Err = fmt.Errorf("%w; and its dead letter cannot be written: %w", err, derr)
			return false, fatal
		}
	}
	switch r.Action {
	case processor.Continue:
		dropped.Inc()
		return false, nil
	case processor.Retry:
		if stage != processor.Deserializing {
			return true, nil
		}
	}
	return false, fatal
}

// fault makes an error of the engine itself (its state, its memory) one that ends the task: no policy for records has a
// say in it. step is the step or the store that met it.
func (e *Env) fault(step string, err error) error {
	if err == nil || isFatal(err) {
		return err
	}
	origin, _ := e.Origin()
	return &FatalError{Stage: processor.Processing, Step: step, Task: e.Task, Origin: origin, Err: err}
}

// blame is fault for an error that came up under the context of a write that had waited in a cache.
func (e *Env) blame(store string, c current, err error) error {
	return e.withContext(c, func() error { return e.fault(store, err) })
}

func callHandler(h processor.Handler, f processor.Failure) (r processor.Response, err error) {
	defer recovered(&err)
	return h(f), nil
}

// deadLetter writes a dead letter through the task's own way out, so that it is part of the same commit.
func (e *Env) deadLetter(step string, d processor.DeadLetter) error {
	n, err := e.Partitions(d.Topic)
	if err != nil {
		return err
	}
	p := partitioner{partitions: n}
	ts := d.TimestampMs
	if ts == 0 {
		ts = e.cur.tsMs
	}
	if ts < 0 {
		ts = e.NowMs()
	}
	e.Emit(Output{
		ProduceRecord: broker.ProduceRecord{
			Topic: d.Topic, Partition: p.of(d.Key, d.Key == nil), Key: d.Key, Value: d.Value, Headers: d.Headers, TimestampMs: ts,
		},
		Step: step,
	})
	e.counter(step, metrics.DeadLetter).Inc()
	return nil
}

// FailedOutput asks the production handler about a record that could not be written.
func (e *Env) FailedOutput(o *Output, err error, attempt int) (retry bool, out error) {
	saved := e.cur
	defer func() { e.cur = saved }()
	e.cur = current{in: o.In, offset: o.Offset, raw: o.Raw, headers: o.Headers, tsMs: o.TimestampMs}
	return e.judge(e.Handlers.Production, processor.Producing, o.Step, o.Topic, err, attempt,
		e.counter(o.Step, metrics.Production), "the production error handler decides (millrace.OnProductionError): Continue drops the record and counts it")
}
