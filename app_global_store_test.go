package millrace

import (
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/store"
)

// turned fills a store with the keys of a topic by their values.
type turned struct {
	definition *KeyValueStore[string, string]
	rows       store.KeyValue[string, string]
	closed     func()
}

func (p *turned) Init(ctx processor.Context[struct{}, struct{}]) (err error) {
	p.rows, err = p.definition.From(ctx)
	return err
}

func (p *turned) Process(r processor.Record[string, string]) error {
	if r.Value == "bad" {
		return fmt.Errorf("a bad value")
	}
	return p.rows.Put(r.Value, r.Key)
}

func (p *turned) Close() error {
	p.closed()
	return nil
}

// lookedUp replaces values by what a store has for them.
type lookedUp struct {
	definition *KeyValueStore[string, string]
	ctx        processor.Context[string, string]
	rows       store.KeyValue[string, string]
}

func (p *lookedUp) Init(ctx processor.Context[string, string]) (err error) {
	p.ctx = ctx
	p.rows, err = p.definition.From(ctx)
	return err
}

func (p *lookedUp) Process(r processor.Record[string, string]) error {
	found, _, err := p.rows.Get(r.Value)
	if err != nil {
		return err
	}
	r.Value += ":" + found
	return p.ctx.Forward(r)
}

func (p *lookedUp) Close() error { return nil }

// A global store is full before the first record finds something in it, again after a restart, and its processor is closed
// with the application.
func TestApp_globalStore(t *testing.T) {
	k := newKafka(t)
	k.topic("in", 2)
	k.topic("names", 3)
	k.topic("out", 1)
	for i := range 50 {
		k.produce(rec("names", fmt.Sprint("name", i), fmt.Sprint("id", i), 1))
	}
	closed := 0
	topology := mustBuild(t, func(b *Builder) {
		names := NewKeyValueStore("names", serde.String, serde.String)
		AddGlobalStore(b, strTopic("names"), names, func() *turned { return &turned{definition: names, closed: func() { closed++ }} }, As("turn"))
		Process(From(b, strTopic("in")), func() *lookedUp { return &lookedUp{definition: names} }).To(strTopic("out"))
	})
	for start := range 2 {
		for i := range 50 {
			k.produce(rec("in", "k", fmt.Sprint("id", i), int64(i)))
		}
		a := k.start(topology)
		for _, v := range values(k.read("out", 50*(start+1))) {
			id, name, _ := strings.Cut(strings.TrimPrefix(v, "k="), ":")
			if strings.TrimPrefix(id, "id") != strings.TrimPrefix(name, "name") {
				t.Errorf("start %d: found %s", start, v)
			}
		}
		a.stop()
		if closed != start+1 {
			t.Errorf("start %d: the processor was closed %d times", start, closed)
		}
	}

	k.produce(rec("names", "k", "bad", 1))
	if err := k.start(topology).fails(); err == nil || !strings.Contains(err.Error(), "step turn, record names-") || !strings.Contains(err.Error(), "a bad value") {
		t.Errorf("a record that fails, without a handler: %v", err)
	}
	if closed != 3 {
		t.Errorf("the processor of an application that failed was closed %d times, want once", closed-2)
	}
}

// The property holds an application to what its topology was built with.
func TestApp_optimizationProperty(t *testing.T) {
	build := func(o ...BuildOption) *Topology {
		b := NewBuilder(o...)
		TableFrom(b, strTopic("t"), As("rows")).ToStream().To(strTopic("out"))
		topology, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		return topology
	}
	plain, reusing := build(), build(Optimize(ReuseSourceTopics))
	for _, c := range []struct {
		topology *Topology
		value    string
		wrong    bool
	}{
		{plain, "none", false}, {plain, "reuse.ktable.source.topics", true}, {plain, "all", true}, {plain, "nonsense", true},
		{reusing, "none", false}, {reusing, "reuse.ktable.source.topics", false}, {reusing, "reuse.ktable.source.topics,merge.repartition.topics", true},
	} {
		_, err := NewApp(c.topology, ApplicationID("a"), Brokers("localhost:1"), FromProperties(map[string]string{"topology.optimization": c.value}))
		if c.wrong != (err != nil) || c.wrong && !strings.Contains(err.Error(), "millrace.OptimizeProperty(") {
			t.Errorf("%s: %v", c.value, err)
		}
	}
}
