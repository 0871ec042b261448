package milltest_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/store"
)

// indexer fills a store with the keys of a topic by their values: it turns the topic round. A value "bad" fails.
type indexer struct {
	store  *millrace.KeyValueStore[string, string]
	rows   store.KeyValue[string, string]
	ctx    processor.Context[struct{}, struct{}]
	init   func(processor.Context[struct{}, struct{}]) error
	after  func(processor.Context[struct{}, struct{}]) error
	closed *int
}

func (p *indexer) Init(ctx processor.Context[struct{}, struct{}]) (err error) {
	p.ctx = ctx
	if p.rows, err = p.store.From(ctx); err != nil || p.init == nil {
		return err
	}
	return p.init(ctx)
}

func (p *indexer) Process(r processor.Record[string, string]) error {
	if r.Value == "bad" {
		return errors.New("a bad value")
	}
	if p.after != nil {
		return p.after(p.ctx)
	}
	if r.NullValue {
		return p.rows.Delete(r.Key)
	}
	before, ok, err := p.rows.Get(r.Value)
	if err != nil {
		return err
	}
	if ok {
		before += ","
	}
	key := r.Key
	if r.NullKey {
		key = "null"
	}
	return p.rows.Put(r.Value, before+key)
}

func (p *indexer) Close() error {
	if p.closed != nil {
		*p.closed++
	}
	return nil
}

// globalIndex is a topology that looks the values of in up in an index that the topic G fills.
func globalIndex(t *testing.T, make func(*millrace.KeyValueStore[string, string]) *indexer, opts ...milltest.Option) (*milltest.Driver, func() string) {
	t.Helper()
	b := millrace.NewBuilder()
	index := millrace.NewKeyValueStore("index", serde.String, serde.String)
	millrace.AddGlobalStore(b, millrace.NewTopic("G", serde.String, serde.String), index, func() *indexer { return make(index) }, millrace.As("fill"))
	millrace.Process(millrace.From(b, strTopic), func() *finder { return &finder{from: index.From, write: false} }, millrace.As("find")).To(outTopic)
	d := milltest.New(t, build(t, b), opts...)
	return d, reader(d, outTopic)
}

func plainIndex(s *millrace.KeyValueStore[string, string]) *indexer { return &indexer{store: s} }

func TestAddGlobalStore(t *testing.T) {
	closed := 0
	d, out := globalIndex(t, func(s *millrace.KeyValueStore[string, string]) *indexer { return &indexer{store: s, closed: &closed} },
		milltest.Partitions(3))
	steps{
		{"in", "red=x@1", "red=x-null@1"},
		{"G", "apple=red@5", ""}, {"in", "red=x@2", "red=x-apple@2"},
		{"G", "leaf=green@6", ""}, {"G", "brick=red@3", ""}, {"in", "red=x@7", "red=x-apple,brick@7"}, {"in", "green=x@7", "green=x-leaf@7"},
		{"G", "~=green@8", ""}, {"in", "green=x@9", "green=x-leaf,null@9"},
		{"G", "green=~@8", ""}, {"in", "green=x@9", "green=x-null@9"},
		{"G", "grass=green@12", ""},
	}.run(t, d, out)
	rows := milltest.Global[string, string](d, "index")
	if v, ok, err := rows.Get("red"); v != "apple,brick" || !ok || err != nil || rows.Len() != 2 {
		t.Errorf("the store has red = %q %v %v, and %d rows", v, ok, err, rows.Len())
	}

	// A new processor runs all records again.
	d.Commit()
	restart(t, d)
	if closed != 1 {
		t.Errorf("the processor was closed %d times, want once", closed)
	}
	steps{{"in", "red=y@20", "red=y-apple,brick@20"}, {"in", "green=y@20", "green=y-grass@20"}}.run(t, d, out)
	for _, name := range d.Topics() {
		if strings.HasSuffix(name, "-changelog") {
			t.Errorf("there is a changelog topic %s", name)
		}
	}
}

func TestAddGlobalStore_badRecords(t *testing.T) {
	d, _ := globalIndex(t, plainIndex)
	if err := tryPipe(d, "G", "k=bad@1"); err == nil || !strings.Contains(err.Error(), "global store, step fill, record G-0@0") || !strings.Contains(err.Error(), "a bad value") {
		t.Errorf("an error of the processor without a handler: %v", err)
	}
	d, _ = globalIndex(t, plainIndex)
	if err := tryPipe(d, "G", "k=v@-1"); err == nil || !strings.Contains(err.Error(), "negative timestamp") {
		t.Errorf("a negative timestamp without a handler: %v", err)
	}

	attempts := 0
	retryOnce := func(f processor.Failure) processor.Response {
		if attempts = f.Attempt; attempts < 2 {
			return processor.Response{Action: processor.Retry}
		}
		return processor.Response{Action: processor.Continue, DeadLetters: []processor.DeadLetter{{Topic: "dead"}}}
	}
	d, out := globalIndex(t, plainIndex, milltest.OnProcessingError(retryOnce), milltest.OnDeserializationError(skipBad))
	pipe(t, d, "G", "k=bad@1")
	pipe(t, d, "G", "k=v@-1")
	pipe(t, d, "G", "k=good@2")
	if attempts != 2 {
		t.Errorf("the record was tried %d times, want 2", attempts)
	}
	wantDropped(t, d, "fill", millrace.DroppedProcessing, 1)
	wantDropped(t, d, "fill", millrace.DroppedDeserialization, 1)
	steps{{"in", "good=x@3", "good=x-k@3"}}.run(t, d, out)
	restart(t, d)
	steps{{"in", "good=y@4", "good=y-k@4"}, {"in", "bad=y@4", "bad=y-null@4"}}.run(t, d, out)
}

func TestAddGlobalStore_refused(t *testing.T) {
	forward := func(ctx processor.Context[struct{}, struct{}]) error {
		return ctx.Forward(processor.Record[struct{}, struct{}]{})
	}
	d, _ := globalIndex(t, func(s *millrace.KeyValueStore[string, string]) *indexer { return &indexer{store: s, after: forward} })
	if err := tryPipe(d, "G", "k=v@1"); err == nil || !strings.Contains(err.Error(), "nothing follows") {
		t.Errorf("forwarding: %v", err)
	}

	b := millrace.NewBuilder()
	index := millrace.NewKeyValueStore("index", serde.String, serde.String)
	timer := func(ctx processor.Context[struct{}, struct{}]) error {
		_, err := ctx.Schedule(time.Second, processor.WallClock, func(time.Time) error { return nil })
		return err
	}
	millrace.AddGlobalStore(b, millrace.NewTopic("G", serde.String, serde.String), index, func() *indexer { return &indexer{store: index, init: timer} })
	if _, err := milltest.NewDriver(build(t, b)); err == nil || !strings.Contains(err.Error(), "cannot set a timer") {
		t.Errorf("a timer: %v", err)
	}

	b = millrace.NewBuilder()
	millrace.AddGlobalStore(b, millrace.NewTopic("G", serde.String, serde.String), index, func() *indexer { return plainIndex(index) })
	millrace.Process(millrace.From(b, strTopic), func() *finder { return &finder{from: index.From, write: true} }).To(outTopic)
	d = milltest.New(t, build(t, b))
	if err := tryPipe(d, "in", "a=x@1"); err == nil || !strings.Contains(err.Error(), "write to the topic instead") {
		t.Errorf("writing from a step: %v", err)
	}

	b = millrace.NewBuilder()
	millrace.AddGlobalStore(b, millrace.NewTopic("G", serde.String, serde.String), index, func() *indexer { return plainIndex(index) })
	millrace.Process(millrace.From(b, strTopic), func() *finder { return &finder{from: index.From} }, millrace.WithStores(index)).To(outTopic)
	logged := millrace.NewKeyValueStore("logged", serde.String, serde.String, millrace.LogConfig(map[string]string{"retention.ms": "1"}))
	millrace.AddGlobalStore(b, millrace.NewTopic("L", serde.String, serde.String), logged, func() *indexer { return plainIndex(logged) })
	millrace.AddGlobalStore[string, string, string, string](b, millrace.NewTopic("M", serde.String, serde.String), nil, func() *indexer { return nil })
	_, err := b.Build()
	for _, want := range []string{"leave it out of WithStores", "LogConfig", "is given no store"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the mistakes %v do not say %q", err, want)
		}
	}
}

// lister lists what a global table holds between two keys, and all of it.
type lister struct {
	table millrace.GlobalTable[string, string]
	rows  store.ReadOnlyKeyValue[string, string]
	ctx   processor.Context[string, string]
}

func (p *lister) Init(ctx processor.Context[string, string]) (err error) {
	p.ctx = ctx
	p.rows, err = p.table.From(ctx)
	return err
}

func (p *lister) Close() error { return nil }

func (p *lister) Process(r processor.Record[string, string]) error {
	some, err := p.rows.Range("b", "c")
	if err != nil {
		return err
	}
	all, err := p.rows.All()
	if err != nil {
		return err
	}
	r.Value = listed(some) + "|" + listed(all)
	return p.ctx.Forward(r)
}

func listed(it store.Iterator[string, string]) string {
	var out []string
	for it.Next() {
		out = append(out, it.Key()+it.Value())
	}
	if err := errors.Join(it.Err(), it.Close()); err != nil {
		return err.Error()
	}
	if it.Next() || it.Err() == nil {
		return "a closed iterator went on"
	}
	return strings.Join(out, " ")
}

func TestGlobalTable_inAProcessor(t *testing.T) {
	b := millrace.NewBuilder()
	table := millrace.GlobalTableFrom(b, millrace.NewTopic("G", serde.String, serde.String), millrace.As("g"))
	millrace.Process(millrace.From(b, strTopic), func() *lister { return &lister{table: table} }).To(outTopic)
	d := milltest.New(t, build(t, b))
	steps{
		{"G", "c=3@1", ""}, {"G", "a=1@1", ""}, {"G", "cc=4@1", ""}, {"in", "k=x@2", "k=c3|a1 c3 cc4@2"},
		{"G", "b=2@1", ""}, {"G", "a=~@1", ""}, {"G", "c=5@3", ""}, {"in", "k=x@3", "k=b2 c5|b2 c5 cc4@3"},
	}.run(t, d, reader(d, outTopic))
}
