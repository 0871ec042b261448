package runtime

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/broker/brokertest"
)

// Who takes a task over with its copy waits for the transaction that the owner before has left: one that is open, with records in
// the changelog and offsets, and one that is committed, but not everywhere yet. What comes of it is in the state then, and counts
// once.
func TestStandby_takesOverBehindATransaction(t *testing.T) {
	for _, disk := range []bool{false, true} {
		for name, x := range map[string]struct {
			before func(c *brokertest.Cluster)
			after  func(c *brokertest.Cluster)
		}{
			"given up": {func(c *brokertest.Cluster) {
				for _, op := range []brokertest.Op{brokertest.OpEndTxn, brokertest.OpProve} {
					c.Inject(brokertest.Fault{Op: op, Err: broker.ErrNoAnswer, Times: -1, When: func(c brokertest.Call) bool { return c.Txn == "app-a" }})
				}
			}, func(c *brokertest.Cluster) { c.ExpireTxn("app-a") }},
			"committed": {func(c *brokertest.Cluster) { c.HoldMarkers("app-a") }, func(c *brokertest.Cluster) { c.WriteMarkers("app-a") }},
		} {
			where := " in memory"
			if disk {
				where = " on disk"
			}
			t.Run(name+where, func(t *testing.T) {
				topo := countTopology(t)
				if disk {
					topo = diskTopology(t)
				}
				p := newPair(t, topo, func(id string) []stepOption {
					all := []stepOption{transactional("app-" + id)}
					if disk {
						all = append(all, onDisk(t, vfs.NewMem(), nil))
					}
					return all
				})
				k := keyOf(0)
				p.b.member.Copies([]broker.TaskID{t0}, nil)
				p.give([]broker.TaskID{t0}, nil)
				p.c.Append(tp("in", 0), kv(k, "1"))
				p.advance(100 * time.Millisecond)
				p.advance(100 * time.Millisecond)
				if sb := p.b.machine.standbyOf(t0); sb == nil || !sb.level {
					t.Fatalf("the copy: %+v", sb)
				}
				x.before(p.c)
				p.c.Append(tp("in", 0), kv(k, "2"))
				p.a.advance(100 * time.Millisecond)
				p.a.advance(100 * time.Millisecond)
				p.a.group.Expire(p.a.member) // and nothing more is heard of it
				p.b.group.Assign(map[*brokertest.Membership][]broker.TaskID{p.b.member: {t0}})
				p.b.settle()
				for range 10 {
					p.b.advance(500 * time.Millisecond)
				}
				if s := p.b.machine.find(t0); s == nil || s.phase == phaseRunning {
					t.Fatalf("it runs beside a transaction that is not decided: %+v", s)
				}
				x.after(p.c)
				for range 20 {
					p.b.advance(500 * time.Millisecond)
				}
				p.b.wantCommitted(2)
				wantOutputs(t, p.c, k+"=1", k+"=2")
				if v := p.b.stored(t0, k); v != "2" {
					t.Errorf("the state says %q", v)
				}
			})
		}
	}
}
