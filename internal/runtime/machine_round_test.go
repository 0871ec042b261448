package runtime

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/broker/brokertest"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

// A transaction ends although input never does and acknowledgements take longer than a commit interval: once it is to be
// committed it takes no more units.
func TestTransaction_endsThoughAcknowledgementsAreSlow(t *testing.T) {
	for _, ackMs := range []int64{0, 20, 50, 150} {
		t.Run(fmt.Sprint(ackMs), func(t *testing.T) {
			s := exactly(t, copyTopology(t))
			s.auto = false
			var busyUntilMs int64
			sending := false // the transactor flushes what it sent
			commits, openMs := 0, int64(0)
			for i := range 1000 { // 10 s
				s.cluster.Append(tp("in", int32(i%2)), kv("k", fmt.Sprint(i)))
				s.settle()
				for len(s.works) > 0 {
					s.work(0)
					s.settle()
				}
				for len(s.commits) > 0 {
					s.commit(0)
				}
				nowMs := s.clock.NowMs()
				if sending && nowMs >= busyUntilMs {
					sending = false
					s.prod.Deliver()
					s.settle()
				}
				for !sending && len(s.orders) > 0 {
					switch o := s.orders[0].(type) {
					case Send:
						sending, busyUntilMs = true, nowMs+ackMs
					case EndTransaction:
						if o.Commit {
							commits++
						}
					}
					s.order()
					s.settle()
				}
				if c := s.machine.commit; c != nil && c.began {
					openMs = max(openMs, nowMs-c.beganMs)
				}
				if err := s.clock.Advance(10 * time.Millisecond); err != nil {
					t.Fatal(err)
				}
				s.step(Tick{})
			}
			if commits < 20 || openMs > 1000 {
				t.Errorf("%d transactions were committed in 10 s, and one was open for %d ms", commits, openMs)
			}
		})
	}
}

// dropTopology drops the values "no" and copies the others.
func dropTopology(t *testing.T) *topology.Topology {
	return build(t, func(b *topology.Builder) {
		b.AddSource(topology.Source{Name: "source", Topics: []string{"in"}, Op: op.NewSource(op.SourceSpec[string, string]{Key: serde.String, Value: serde.String})})
		b.AddProcessor(topology.Processor{Name: "drop", Parents: []string{"source"}, Op: op.NewFilter(func(_, v string) (bool, error) { return v != "no", nil })})
		b.AddSink(topology.Sink{Name: "sink", Topic: "out", Parents: []string{"drop"}, Op: op.NewSink(op.SinkSpec[string, string]{Topic: "out", Key: serde.String, Value: serde.String})})
	})
}

// A task whose offsets are in a commit under way without results is lost, or has to be released: it is closed, and runs when it
// comes back, however far the commit has come.
func TestTransaction_lostWhileACommitWithoutOutputIsUnderWay(t *testing.T) {
	for i := range 6 {
		what, carried := []string{"lost", "deadline"}[i%2], i/2
		t.Run(fmt.Sprint(what, " behind ", carried, " requests"), func(t *testing.T) {
			s := exactly(t, dropTopology(t))
			s.cluster.Append(tp("in", 0), kv("a", "no"))
			s.cluster.Append(tp("in", 1), kv("a", "no"))
			s.settle()
			s.auto = false
			s.advance(100 * time.Millisecond)
			for range 10 {
				for len(s.works) > 0 {
					s.work(0)
				}
				s.settle()
			}
			if len(s.orders) != 2 {
				t.Fatalf("%d orders wait", len(s.orders))
			}
			for range carried { // to begin, and the offsets
				s.order()
				s.settle()
			}
			if what == "lost" {
				s.group.Expire(s.member)
				s.member.Lose(true)
				s.settle()
			} else {
				s.group.Assign(map[*brokertest.Membership][]broker.TaskID{s.member: nil})
				for range 60 {
					s.advance(100 * time.Millisecond)
				}
			}
			s.auto = true
			s.settle()
			for range 20 {
				s.advance(100 * time.Millisecond)
			}
			s.assign(t0, t1)
			s.cluster.Append(tp("in", 0), kv("a", "yes"))
			s.cluster.Append(tp("in", 1), kv("b", "yes"))
			s.settle()
			for range 600 {
				s.advance(100 * time.Millisecond)
			}
			wantOutputs(t, s.cluster, "a=yes", "b=yes")
			s.wantState(StateRunning)
			s.wantCommitted(2, 2)
		})
	}
}

// A task fails for good while a unit of it is in the open transaction: that unit and those of the others are committed.
func TestTransaction_aFailureForGoodLeavesTheUnitsOfOthers(t *testing.T) {
	topo := build(t, func(b *topology.Builder) {
		b.AddSource(topology.Source{Name: "source", Topics: []string{"in"}, Op: op.NewSource(op.SourceSpec[string, string]{Key: serde.String, Value: serde.String})})
		b.AddProcessor(topology.Processor{Name: "copy", Parents: []string{"source"}, Op: op.NewPeek(func(r *processor.Record[string, string]) error {
			if r.Key == "bad" {
				panic("bad")
			}
			return nil
		})})
		b.AddSink(topology.Sink{Name: "sink", Topic: "out", Parents: []string{"copy"}, Op: op.NewSink(op.SinkSpec[string, string]{Topic: "out", Key: serde.String, Value: serde.String})})
	})
	s := exactly(t, topo)
	s.cluster.Append(tp("in", 0), kv("a", "1"))
	s.cluster.Append(tp("in", 1), kv("b", "1"))
	s.settle()
	s.prod.HoldAcks()
	s.advance(100 * time.Millisecond)
	s.cluster.Append(tp("in", 1), kv("bad", "2"))
	s.settle()
	s.prod.Release()
	s.settle()
	for range 200 {
		s.advance(100 * time.Millisecond)
	}
	s.wantCommitted(1, 1)
}
