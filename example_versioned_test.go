package millrace_test

import (
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/store"
)

// A versioned table knows what its rows were: an order that comes late is joined with the price of its own time.
func ExampleVersioned() {
	orders := millrace.NewTopic("orders", serde.String, serde.String)
	prices := millrace.NewTopic("prices", serde.String, serde.Int64)
	priced := millrace.NewTopic("priced", serde.String, serde.String)

	b := millrace.NewBuilder()
	table := millrace.TableFrom(b, prices, millrace.As("prices"), millrace.Versioned(time.Hour))
	millrace.JoinTable(millrace.From(b, orders), table, func(order string, price int64) string {
		return fmt.Sprint(order, " at ", price)
	}).To(priced)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	price, order := milltest.Input(d, prices), milltest.Input(d, orders)
	price.PipeAt("malt", 10, 1*time.Minute)
	price.PipeAt("malt", 12, 5*time.Minute)
	order.PipeAt("malt", "first", 6*time.Minute)
	order.PipeAt("malt", "late", 4*time.Minute)
	price.PipeAt("malt", 11, 3*time.Minute) // changes the past
	order.PipeAt("malt", "later still", 4*time.Minute)
	for _, r := range milltest.Output(d, priced).ReadAll() {
		fmt.Println(r.Key, r.Value)
	}
	// Output:
	// malt first at 12
	// malt late at 10
	// malt later still at 11
}

// A deletion is a version too.
func ExampleNewVersionedStore() {
	in := millrace.NewTopic("in", serde.String, serde.String)
	seen := millrace.NewVersionedStore("seen", time.Hour, serde.String, serde.String)

	b := millrace.NewBuilder()
	millrace.Process(millrace.From(b, in), func() *historian { return &historian{definition: seen} }, millrace.WithStores(seen)).
		ForEach(func(string, string) {})
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	records := milltest.Input(d, in)
	records.PipeAt("door", "open", 10*time.Second)
	records.PipeAt("door", "shut", 30*time.Second)
	versions := milltest.Versioned[string, string](d, "seen", 0)
	if _, err := versions.Delete("door", 50_000); err != nil {
		log.Fatal(err)
	}
	for _, at := range []int64{5_000, 20_000, 40_000, 60_000} {
		v, ok, err := versions.GetAsOf("door", at)
		fmt.Println(at, v.Value, ok, err)
	}
	// Output:
	// 5000  false <nil>
	// 20000 open true <nil>
	// 40000 shut true <nil>
	// 60000  false <nil>
}

type historian struct {
	definition *millrace.VersionedStore[string, string]
	versions   store.Versioned[string, string]
}

func (p *historian) Init(ctx processor.Context[string, string]) (err error) {
	p.versions, err = p.definition.From(ctx)
	return err
}

func (p *historian) Process(r processor.Record[string, string]) error {
	_, err := p.versions.Put(r.Key, r.Value, r.TimestampMs)
	return err
}

func (p *historian) Close() error { return nil }

// namer puts the name of a user in front of what it did.
type namer struct {
	from  func(processor.StoreContext) (store.KeyValue[string, string], error)
	ctx   processor.Context[string, string]
	names store.KeyValue[string, string]
}

func (p *namer) Init(ctx processor.Context[string, string]) (err error) {
	p.ctx = ctx
	p.names, err = p.from(ctx)
	return err
}

func (p *namer) Process(r processor.Record[string, string]) error {
	name, ok, err := p.names.Get(r.Key)
	if err != nil {
		return err
	}
	if !ok {
		name = "somebody"
	}
	r.Value = name + " " + r.Value
	return p.ctx.Forward(r)
}

func (p *namer) Close() error { return nil }

// A read-only store is filled by a topic, and has no changelog of its own.
func ExampleAddReadOnlyStore() {
	users := millrace.NewTopic("users", serde.String, serde.String)
	actions := millrace.NewTopic("actions", serde.String, serde.String)
	told := millrace.NewTopic("told", serde.String, serde.String)

	b := millrace.NewBuilder()
	names := millrace.NewKeyValueStore("names", serde.String, serde.String)
	millrace.AddReadOnlyStore(b, users, names)
	millrace.Process(millrace.From(b, actions), func() *namer { return &namer{from: names.From} }, millrace.WithStores(names)).To(told)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	milltest.Input(d, users).Pipe("u1", "Ann")
	milltest.Input(d, actions).Pipe("u1", "came")
	milltest.Input(d, actions).Pipe("u2", "left")
	for _, r := range milltest.Output(d, told).ReadAll() {
		fmt.Println(r.Value)
	}
	// Output:
	// Ann came
	// somebody left
}

// initials fills a store with names by their initials.
type initials struct {
	definition *millrace.KeyValueStore[string, string]
	names      store.KeyValue[string, string]
}

func (p *initials) Init(ctx processor.Context[struct{}, struct{}]) (err error) {
	p.names, err = p.definition.From(ctx)
	return err
}

func (p *initials) Process(r processor.Record[string, string]) error {
	if r.NullValue || r.Value == "" {
		return nil
	}
	return p.names.Put(strings.ToLower(r.Value[:1]), r.Value)
}

func (p *initials) Close() error { return nil }

// A global store is filled by a processor, which may choose other keys than its topic has. Every step can read it.
func ExampleAddGlobalStore() {
	users := millrace.NewTopic("users", serde.String, serde.String)
	actions := millrace.NewTopic("actions", serde.String, serde.String)
	told := millrace.NewTopic("told", serde.String, serde.String)

	b := millrace.NewBuilder()
	names := millrace.NewKeyValueStore("names", serde.String, serde.String)
	millrace.AddGlobalStore(b, users, names, func() *initials { return &initials{definition: names} }, millrace.As("by-initial"))
	millrace.Process(millrace.From(b, actions), func() *namer { return &namer{from: names.From} }).To(told)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	milltest.Input(d, users).Pipe("u1", "Ann")
	milltest.Input(d, actions).Pipe("a", "came")
	milltest.Input(d, actions).Pipe("b", "left")
	for _, r := range milltest.Output(d, told).ReadAll() {
		fmt.Println(r.Value)
	}
	// Output:
	// Ann came
	// somebody left
}
