package milltest

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/op"
)

// globals are the global stores of the driver's one instance, with what fills them.
type globals struct {
	env    *op.Env
	stores map[string]any
	feeds  map[string][]op.GlobalFeed // by topic
}

// openGlobals makes the global stores, and fills them with what their topics hold.
func (d *Driver) openGlobals() error {
	g := &globals{stores: make(map[string]any), feeds: make(map[string][]op.GlobalFeed)}
	g.env = op.NewGlobalEnv(op.GlobalConfig{
		Ctx: d.ctx, NowMs: func() int64 { return d.nowMs }, Metrics: d.metrics, Handlers: d.opts.handlers, GlobalStores: g.stores,
	})
	for _, spec := range d.graph.Globals() {
		f, ok := spec.Store.Op.(op.GlobalFactory)
		if !ok {
			return fmt.Errorf("millrace: global store %s cannot be made", spec.Store.Name)
		}
		feed, err := f.OpenGlobal(g.env, spec.Processor.Name)
		if err != nil {
			return err
		}
		g.stores[spec.Store.Name] = feed.Store()
		g.feeds[spec.Topic()] = append(g.feeds[spec.Topic()], feed)
	}
	d.globals = g
	if err := g.env.Init(); err != nil {
		return err
	}
	for _, topic := range slices.Sorted(maps.Keys(g.feeds)) {
		for p := range d.partitionsOf(topic) {
			tp := broker.TopicPartition{Topic: topic, Partition: p}
			records := d.log(tp).records
			for i := range records {
				if err := d.deliverGlobal(tp, &records[i]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (d *Driver) closeGlobals() error {
	if d.globals == nil {
		return nil
	}
	g := d.globals
	d.globals = nil
	return g.env.Close()
}

// deliverGlobal hands a record to the global stores that its topic fills.
func (d *Driver) deliverGlobal(tp broker.TopicPartition, r *broker.Record) error {
	var errs []error
	for _, feed := range d.globals.feeds[tp.Topic] {
		errs = append(errs, feed.Take(&tp, r))
	}
	if err := errors.Join(errs...); err != nil {
		return d.fail(err)
	}
	return nil
}
