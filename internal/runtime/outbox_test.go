package runtime

import (
	"sync/atomic"
	"testing"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/broker/brokertest"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/task"
)

// A worker may be between counting its records and handing them over when its task is taken away. They must not leave: the
// transaction that is open then is one of other tasks.
func TestOutbox_recordsThatComeBehindTheEnd(t *testing.T) {
	for name, end := range map[string]func(*outbox){"shut down": (*outbox).shutDown, "intake ended": (*outbox).endIntake} {
		t.Run(name, func(t *testing.T) {
			c := brokertest.New()
			c.AddTopic("out", 1)
			tx := c.Transactions("x")
			if err := tx.Prove(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := tx.Begin(); err != nil {
				t.Fatal(err)
			}
			var staged atomic.Int64
			b := newOutbox(tx, nil, func() {})
			b.hold, b.total = true, &staged
			record := func() *sent {
				slab := b.take(1)
				s := &slab.recs[0]
				s.Output = op.Output{ProduceRecord: broker.ProduceRecord{Topic: "out", Value: []byte("v")}}
				s.seg, s.store = b.current(), -1
				return s
			}
			if !b.expect(b.current(), 3) {
				t.Fatal("refused before the end")
			}
			b.produce(record(), nil)
			end(b)
			b.produce(record(), nil)
			b.produce(record(), nil)
			b.closeSegment(&task.Unit{})
			if n := tx.Unacknowledged(); n != 0 {
				t.Errorf("%d records have left", n)
			}
			if units, all := b.claim(); units != 0 || len(all) != 0 {
				t.Errorf("a transaction claims %d units with %d records", units, len(all))
			}
			_, ready, failed, outstanding := b.look()
			if len(ready)+len(failed)+outstanding != 0 || staged.Load() != 0 {
				t.Errorf("%d units ready, %d records failed, %d outstanding, %d bytes staged", len(ready), len(failed), outstanding, staged.Load())
			}
			if b.expect(b.current(), 1) {
				t.Error("records are taken behind the end")
			}
		})
	}
}
