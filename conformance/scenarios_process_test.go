package conformance

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/store"
)

type (
	textRecord  = processor.Record[text, text]
	textContext = processor.Context[text, text]
)

// keyed is what processors with a store of text have in common.
type keyed struct {
	definition *millrace.KeyValueStore[string, string]
	ctx        textContext
	store      store.KeyValue[string, string]
}

func (p *keyed) Init(ctx textContext) (err error) {
	p.ctx = ctx
	p.store, err = p.definition.From(ctx)
	return err
}

func (p *keyed) Close() error { return nil }

// keeper keeps the last value of each key; a value with a 7 lists the store, one with a 9 deletes.
type keeper struct{ keyed }

func (p *keeper) Process(r textRecord) error {
	if r.Key == nil {
		r.Key, r.NullKey = some("none"), false
		return p.ctx.Forward(r)
	}
	old := "-"
	before, ok, err := p.store.GetStamped(*r.Key)
	if err != nil {
		return err
	}
	if ok {
		old = fmt.Sprintf("%s@%d", before.Value, before.TimestampMs)
	}
	value := r.Value
	switch {
	case value == nil:
	case strings.HasSuffix(*value, "9"):
		err = p.store.Delete(*r.Key)
	default:
		err = p.store.Put(*r.Key, *value)
	}
	if err != nil {
		return err
	}
	r.Value, r.NullValue = some(old+"->"+or(value)), false
	if err := p.ctx.Forward(r); err != nil {
		return err
	}
	if value == nil || !strings.Contains(*value, "7") {
		return nil
	}
	it, err := p.store.Range("b", "d")
	if err != nil {
		return err
	}
	defer it.Close()
	for it.Next() {
		r.Key, r.Value, r.TimestampMs = some(it.Key()), some(it.Value()), it.TimestampMs()
		if err := p.ctx.Forward(r); err != nil {
			return err
		}
	}
	return it.Err()
}

// beat counts by key and sends all counts at each beat, with the time that it is given.
type beat struct {
	keyed
	kind  processor.TimeKind
	every time.Duration
}

func (p *beat) Init(ctx textContext) error {
	if err := p.keyed.Init(ctx); err != nil {
		return err
	}
	_, err := ctx.Schedule(p.every, p.kind, func(now time.Time) error {
		it, err := p.store.All()
		if err != nil {
			return err
		}
		defer it.Close()
		for it.Next() {
			at := now.UnixMilli()
			r := textRecord{Key: some(it.Key()), Value: some(fmt.Sprintf("%s at %d", it.Value(), at)), TimestampMs: at}
			if err := p.ctx.Forward(r); err != nil {
				return err
			}
		}
		return it.Err()
	})
	return err
}

func (p *beat) Process(r textRecord) error {
	if r.Key == nil {
		return nil
	}
	before, _, err := p.store.Get(*r.Key)
	if err != nil {
		return err
	}
	return p.store.Put(*r.Key, increment(before))
}

// increment counts on in text; nothing is zero.
func increment(n string) string {
	if n == "" {
		return "1"
	}
	i, err := strconv.Atoi(n)
	if err != nil {
		return err.Error()
	}
	return strconv.Itoa(i + 1)
}

// stateless is what processors without a store have in common.
type stateless struct {
	ctx     textContext
	process func(ctx textContext, r textRecord) error
}

func (p *stateless) Init(ctx textContext) error {
	p.ctx = ctx
	return nil
}

func (p *stateless) Process(r textRecord) error { return p.process(p.ctx, r) }
func (p *stateless) Close() error               { return nil }

// once fires once for each record, and cancels its timer then.
func once(ctx textContext, r textRecord) error {
	var cancel processor.Cancel
	cancel, err := ctx.Schedule(10*ms, processor.StreamTime, func(now time.Time) error {
		out := textRecord{Key: r.Key, Value: some(fmt.Sprintf("%s set at %d", or(r.Value), r.TimestampMs)), TimestampMs: now.UnixMilli()}
		if err := ctx.Forward(out); err != nil {
			return err
		}
		cancel()
		return nil
	})
	return err
}

// sorter sends on to one of two children, and tells where a record is from.
func sorter(ctx textContext, r textRecord) error {
	m, _ := ctx.Metadata()
	to := "right"
	if begins(r.Value, "p") {
		to = "left"
	}
	r.Value, r.NullValue = some(fmt.Sprintf("%s-%d@%d", m.Topic, m.Partition, m.Offset)), false
	return ctx.ForwardTo(to, r)
}

func heads(ctx textContext, r textRecord) error {
	r.Headers = r.Headers.Without("empty")
	var value []byte
	if r.Value != nil {
		value = []byte(*r.Value)
	}
	r.Headers = r.Headers.With("seen", value)
	return ctx.Forward(r)
}

type values struct{ ctx processor.ValueContext[text] }

func (p *values) Init(ctx processor.ValueContext[text]) error {
	p.ctx = ctx
	return nil
}

func (p *values) Process(r textRecord) error {
	if err := p.ctx.Forward(some(or(r.Value) + "!")); err != nil || r.Value != nil {
		return err
	}
	return p.ctx.ForwardAt(some("was null"), r.TimestampMs+1000)
}

func (p *values) Close() error { return nil }

// counter counts in windows of ten, and sends what lies within thirty before.
type counter struct {
	definition *millrace.WindowStore[string, string]
	ctx        textContext
	store      store.Window[string, string]
}

func (p *counter) Init(ctx textContext) (err error) {
	p.ctx = ctx
	p.store, err = p.definition.From(ctx)
	return err
}

func (p *counter) Process(r textRecord) error {
	if r.Key == nil {
		return nil
	}
	start := r.TimestampMs / 10 * 10
	n, _, err := p.store.Get(*r.Key, start)
	if err != nil {
		return err
	}
	if err := p.store.Put(*r.Key, increment(n), start); err != nil {
		return err
	}
	it, err := p.store.Fetch(*r.Key, max(0, start-30), start)
	if err != nil {
		return err
	}
	defer it.Close()
	found := ""
	for it.Next() {
		found += fmt.Sprintf("%d=%s ", it.Key().Window.StartMs, it.Value())
	}
	if it.Err() != nil {
		return it.Err()
	}
	r.Value, r.NullValue = &found, false
	return p.ctx.Forward(r)
}

func (p *counter) Close() error { return nil }

// Process is processors with stores and timers.
func (features) Process(r *registry) {
	kv := func(on storage) *millrace.KeyValueStore[string, string] {
		return millrace.NewKeyValueStore("st", serde.String, serde.String, on()...)
	}
	r.stores("process-store", func(b *millrace.Builder, on storage) {
		st := kv(on)
		millrace.Process(millrace.From(b, free("in")), func() *keeper { return &keeper{keyed{definition: st}} }, millrace.As("p"), millrace.WithStores(st)).
			To(free("out"))
	})

	beats := func(kind processor.TimeKind, every time.Duration, on storage) func(b *millrace.Builder) {
		return func(b *millrace.Builder) {
			st := kv(on)
			millrace.Process(millrace.From(b, free("in")), func() *beat { return &beat{keyed{definition: st}, kind, every} }, millrace.As("p"), millrace.WithStores(st)).
				To(free("out"))
		}
	}
	r.add("punctuate-stream-time", beats(processor.StreamTime, 13*ms, onDisk))
	r.add("punctuate-wall-clock", beats(processor.WallClock, 25*ms, inMemory))

	step := func(b *millrace.Builder, process func(textContext, textRecord) error) millrace.Stream[text, text] {
		return millrace.Process(millrace.From(b, free("in")), func() *stateless { return &stateless{process: process} }, millrace.As("p"))
	}
	r.add("punctuate-cancelled", func(b *millrace.Builder) { step(b, once).To(free("out")) })

	r.add("process-values", func(b *millrace.Builder) {
		millrace.ProcessValues(millrace.From(b, free("in")), func() *values { return &values{} }, millrace.As("p")).To(free("out"))
	})

	r.add("process-window-store", func(b *millrace.Builder) {
		st := millrace.NewWindowStore("st", 10*ms, 100*ms, serde.String, serde.String)
		millrace.Process(millrace.From(b, free("in")), func() *counter { return &counter{definition: st} }, millrace.As("p"), millrace.WithStores(st)).
			To(free("out"))
	})

	r.add("process-forward-to", func(b *millrace.Builder) {
		s := step(b, sorter)
		millrace.MapValues(s, with(" left"), millrace.As("left")).To(free("out"))
		s.Filter(func(k, _ text) bool { return k != nil }, millrace.As("right")).To(free("out"))
	})

	r.add("process-headers", func(b *millrace.Builder) {
		g := step(b, heads).GroupByKey(millrace.RepartitionName("g"), millrace.WithKey(nullText), millrace.WithValue(nullText))
		millrace.Count(g, millrace.StoreName("counts")).ToStream().To(millrace.NewTopic("out", nullText, serde.Int64))
	})
}
