package millrace_test

import (
	"fmt"
	"log"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/store"
	"github.com/millrace-io/millrace/window"
)

// calls holds the calls that a line is busy with: as many as there are in a session.
var calls = millrace.NewSessionStore("calls", time.Hour, serde.String, serde.Int64)

// busy extends the session of a line with each call, and passes on how many calls it has had.
type busy struct {
	ctx   processor.Context[string, int64]
	calls store.Session[string, int64]
}

func (b *busy) Init(ctx processor.Context[string, int64]) (err error) {
	b.ctx = ctx
	b.calls, err = calls.From(ctx)
	return err
}

func (b *busy) Process(r processor.Record[string, string]) error {
	const gapMs = 60_000
	w, n := window.Window{StartMs: r.TimestampMs, EndMs: r.TimestampMs}, int64(1)
	it, err := b.calls.FindSessions(r.Key, r.TimestampMs-gapMs, r.TimestampMs+gapMs)
	if err != nil {
		return err
	}
	var found []window.Key[string]
	for it.Next() {
		k := it.Key()
		w.StartMs, w.EndMs = min(w.StartMs, k.Window.StartMs), max(w.EndMs, k.Window.EndMs)
		n += it.Value()
		found = append(found, k)
	}
	if err := it.Err(); err != nil {
		return err
	}
	if err := it.Close(); err != nil {
		return err
	}
	for _, k := range found {
		if err := b.calls.Delete(k.Key, k.Window.StartMs, k.Window.EndMs); err != nil {
			return err
		}
	}
	if err := b.calls.Put(r.Key, n, w.StartMs, w.EndMs); err != nil {
		return err
	}
	return b.ctx.Forward(processor.Record[string, int64]{Key: r.Key, Value: n, TimestampMs: r.TimestampMs})
}

func (b *busy) Close() error { return nil }

// A user-written step merges sessions by itself.
func ExampleNewSessionStore() {
	rings := millrace.NewTopic("rings", serde.String, serde.String)
	load := millrace.NewTopic("load", serde.String, serde.Int64)

	b := millrace.NewBuilder()
	millrace.Process(millrace.From(b, rings), func() *busy { return new(busy) }, millrace.As("busy"), millrace.WithStores(calls)).To(load)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	in := milltest.Input(d, rings)
	for _, at := range []time.Duration{0, 50, 100, 300} {
		in.PipeAt("line 1", "ring", at*time.Second)
	}
	fmt.Println(milltest.Output(d, load).ReadValues())
	// Output: [1 2 3 1]
}

// seen holds which values a key has brought within an hour.
var seen = millrace.NewWindowStore("seen", time.Millisecond, time.Hour, serde.String, serde.String)

// distinct passes a value on unless its key has brought it within the last hour.
type distinct struct {
	ctx  processor.ValueContext[string]
	seen store.Window[string, string]
}

func (x *distinct) Init(ctx processor.ValueContext[string]) (err error) {
	x.ctx = ctx
	x.seen, err = seen.From(ctx)
	return err
}

func (x *distinct) Process(r processor.Record[string, string]) error {
	it, err := x.seen.Fetch(r.Key, max(0, r.TimestampMs-time.Hour.Milliseconds()+1), r.TimestampMs)
	if err != nil {
		return err
	}
	again := false
	for it.Next() {
		again = again || it.Value() == r.Value
	}
	if err := it.Err(); err != nil {
		return err
	}
	if err := it.Close(); err != nil || again {
		return err
	}
	if err := x.seen.Put(r.Key, r.Value, r.TimestampMs); err != nil {
		return err
	}
	return x.ctx.Forward(r.Value)
}

func (x *distinct) Close() error { return nil }

// A window store forgets by itself: what is older than its retention is gone.
func ExampleNewWindowStore() {
	alarms := millrace.NewTopic("alarms", serde.String, serde.String)
	first := millrace.NewTopic("first-alarms", serde.String, serde.String)

	b := millrace.NewBuilder()
	millrace.ProcessValues(millrace.From(b, alarms), func() *distinct { return new(distinct) }, millrace.As("distinct"), millrace.WithStores(seen)).To(first)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	in := milltest.Input(d, alarms)
	in.PipeAt("pump", "hot", 0)
	in.PipeAt("pump", "hot", 10*time.Minute)
	in.PipeAt("pump", "dry", 20*time.Minute)
	in.PipeAt("pump", "hot", 61*time.Minute)
	for _, r := range milltest.Output(d, first).ReadAll() {
		fmt.Println(r.Time().Format(time.TimeOnly), r.Value)
	}
	// Output:
	// 00:00:00 hot
	// 00:20:00 dry
	// 01:01:00 hot
}
