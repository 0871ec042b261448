package op

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/store"
)

// GlobalConfig is what fills the global stores of an instance needs.
type GlobalConfig struct {
	Ctx          context.Context // ends with the application
	NowMs        func() int64
	Metrics      *metrics.Registry
	Handlers     Handlers
	GlobalStores map[string]any // filled as the stores are opened
}

// NewGlobalEnv makes what those who fill global stores share. They belong to no task, and write nothing to Kafka, so dead
// letters are not written, as in Kafka Streams.
func NewGlobalEnv(c GlobalConfig) *Env {
	return &Env{
		Task: processor.TaskID{Subtopology: -1, Partition: -1}, Ctx: c.Ctx, NowMs: c.NowMs, Metrics: c.Metrics,
		Handlers: Handlers{Deserialization: withoutDeadLetters(c.Handlers.Deserialization), Processing: withoutDeadLetters(c.Handlers.Processing)},
		Stores:   make(map[string]any), GlobalStores: c.GlobalStores, StreamTimeMs: -1, global: true,
	}
}

func withoutDeadLetters(h processor.Handler) processor.Handler {
	if h == nil {
		return nil
	}
	return func(f processor.Failure) processor.Response {
		r := h(f)
		r.DeadLetters = nil
		return r
	}
}

// GlobalProcessFactory makes a global store that a user-written processor fills.
type GlobalProcessFactory[K, V, KS, VS any] struct {
	Name   string
	Source SourceSpec[K, V]
	Key    serde.Serde[KS] // of the store
	Value  serde.Serde[VS]
	New    func() (processor.Processor[K, V, struct{}, struct{}], error)
}

// OpenGlobal makes the store, empty, and the processor.
func (f *GlobalProcessFactory[K, V, KS, VS]) OpenGlobal(env *Env, step string) (GlobalFeed, error) {
	table := newGlobalTable(f.Name, f.Key, f.Value)
	env.Stores[f.Name] = &globalWriter[KS, VS]{globalView: globalView[KS, VS]{table: table}, env: env, there: NotNil[VS]()}
	p, err := NewProcess[K, V, struct{}, struct{}](f.New, []string{f.Name}).
		Build(env, step, []Child{{Step: step, Sink: nothingFollows{step: step}}})
	if err != nil {
		return nil, err
	}
	src, err := NewSource(f.Source).Build(env, step, []Child{{Step: step, Sink: p}})
	if err != nil {
		return nil, err
	}
	return &globalProcess{env: env, table: table, source: src.(Source), heads: make(map[broker.TopicPartition]*globalHead)}, nil
}

// globalProcess runs records through the processor that fills a global store.
type globalProcess struct {
	env    *Env
	table  any
	source Source
	heads  map[broker.TopicPartition]*globalHead
}

// globalHead decodes the records of one partition.
type globalHead struct {
	in   broker.TopicPartition
	head Head
}

func (g *globalProcess) Store() any { return g.table }

// Take decodes a record and runs it through the processor. Those with a null key too: the processor may know what to do.
func (g *globalProcess) Take(in *broker.TopicPartition, r *broker.Record) (err error) {
	h := g.heads[*in]
	if h == nil {
		h = &globalHead{in: *in}
		if h.head, err = g.source.NewHead(&h.in); err != nil {
			return err
		}
		g.heads[*in] = h
	}
	ts, ok, err := h.head.Decode(r, -1)
	if err != nil || !ok {
		return err
	}
	g.env.StreamTimeMs = max(g.env.StreamTimeMs, ts)
	return h.head.Process()
}

// nothingFollows refuses what the processor of a global store forwards: it would be lost.
type nothingFollows struct{ step string }

func (n nothingFollows) Process(*processor.Record[struct{}, struct{}]) error {
	return fmt.Errorf("millrace: step %s fills a global store: nothing follows it that it could forward to", n.step)
}

// globalWriter is the store as the processor that fills it sees it.
type globalWriter[K, V any] struct {
	globalView[K, V]
	env     *Env
	there   func(*V) bool
	scratch []byte
}

var _ store.KeyValue[string, string] = (*globalWriter[string, string])(nil)

// Put sets a value under the timestamp of the record in process.
func (w *globalWriter[K, V]) Put(k K, v V) error { return w.PutStamped(k, v, w.env.cur.tsMs) }

// PutStamped sets a value under a timestamp. A nil of a type that has one deletes the key.
func (w *globalWriter[K, V]) PutStamped(k K, v V, tsMs int64, headers ...serde.Header) error {
	if len(headers) > 0 {
		return fmt.Errorf("millrace: global store %s keeps no headers: put the value without", w.table.name)
	}
	if tsMs < 0 {
		return fmt.Errorf("millrace: global store %s: negative timestamp %d", w.table.name, tsMs)
	}
	if !w.there(&v) {
		return w.Delete(k)
	}
	key, err := w.encode(k)
	if err != nil {
		return err
	}
	value, err := w.table.value.Append(w.scratch[:0], v)
	if err != nil {
		return fmt.Errorf("millrace: global store %s: value does not encode: %w", w.table.name, err)
	}
	if value == nil {
		value = []byte{}
	}
	w.scratch = value
	w.table.rows.set(key, value, tsMs)
	return nil
}

// Delete removes a key.
func (w *globalWriter[K, V]) Delete(k K) error {
	key, err := w.encode(k)
	if err != nil {
		return err
	}
	w.table.rows.set(key, nil, 0)
	return nil
}

// refuseGlobalTimer refuses timers of a processor that fills a global store: nobody drives them.
func (e *Env) refuseGlobalTimer(step string, interval time.Duration) error {
	return fmt.Errorf("millrace: step %s fills a global store, and cannot set a timer (of %s): the store changes with the records of its topic alone", step, interval)
}
