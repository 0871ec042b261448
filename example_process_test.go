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
)

// lastSeen is the store of the moment at which each sensor was last heard.
var lastSeen = millrace.NewKeyValueStore("last-seen", serde.String, serde.Time)

// silence reports sensors that have not been heard for a minute.
type silence struct {
	ctx  processor.Context[string, string]
	seen store.KeyValue[string, time.Time]
}

func (p *silence) Init(ctx processor.Context[string, string]) (err error) {
	p.ctx = ctx
	if p.seen, err = lastSeen.From(ctx); err != nil {
		return err
	}
	_, err = ctx.Schedule(30*time.Second, processor.WallClock, p.check)
	return err
}

func (p *silence) Process(r processor.Record[string, int64]) error {
	return p.seen.Put(r.Key, p.ctx.Now())
}

func (p *silence) check(now time.Time) error {
	it, err := p.seen.All()
	if err != nil {
		return err
	}
	defer it.Close()
	for it.Next() {
		if now.Sub(it.Value()) < time.Minute {
			continue
		}
		out := processor.Record[string, string]{Key: it.Key(), Value: "silent since " + it.Value().Format(time.TimeOnly), TimestampMs: now.UnixMilli()}
		if err := p.ctx.Forward(out); err != nil {
			return err
		}
		if err := p.seen.Delete(it.Key()); err != nil {
			return err
		}
	}
	return it.Err()
}

func (p *silence) Close() error { return nil }

// A user-written processor sees whole records, keeps state and sets timers.
func ExampleProcess() {
	readings := millrace.NewTopic("readings", serde.String, serde.Int64)
	alarms := millrace.NewTopic("alarms", serde.String, serde.String)

	b := millrace.NewBuilder()
	millrace.Process(millrace.From(b, readings), func() *silence { return &silence{} }, millrace.As("silence"), millrace.WithStores(lastSeen)).
		To(alarms)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	in := milltest.Input(d, readings)
	in.Pipe("pump", 12)
	in.Pipe("valve", 3)
	d.AdvanceTime(45 * time.Second)
	in.Pipe("valve", 4)
	d.AdvanceTime(45 * time.Second)
	for _, r := range milltest.Output(d, alarms).ReadAll() {
		fmt.Println(r.Time().Format(time.TimeOnly), r.Key, r.Value)
	}
	// Output: 00:01:00 pump silent since 00:00:00
}
