package runtime

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/broker/brokertest"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

// sumTopology reads numbers, counts and adds them up by key, and writes count and sum to out.
func sumTopology(t testing.TB) *topology.Topology {
	return build(t, func(b *topology.Builder) {
		spec := &op.TableSpec{Store: "counts"}
		b.AddSource(topology.Source{Name: "source", Topics: []string{"in"}, Op: op.NewSource(op.SourceSpec[string, string]{Key: serde.String, Value: serde.String})})
		b.AddProcessor(topology.Processor{Name: "sum", Parents: []string{"source"}, Op: op.NewAggregate(op.AggregateSpec[string, string, string]{
			Table: spec,
			Fold: func(r *processor.Record[string, string], agg string, has bool) (string, bool, error) {
				if !has {
					agg = "0 0"
				}
				var count, sum int
				_, err := fmt.Sscan(agg, &count, &sum)
				n, _ := strconv.Atoi(r.Value)
				return fmt.Sprint(count+1, " ", sum+n), true, err
			},
		})})
		b.AddStore(topology.Store{Name: "counts", Kind: topology.KeyValue, Logged: true, Op: &op.KVFactory[string, string]{
			Spec: op.StoreSpec{Name: "counts", Logged: true}, Key: serde.String, Value: serde.String,
		}}, "sum")
		b.AddProcessor(topology.Processor{Name: "stream", Parents: []string{"sum"}, Op: op.NewToStream[string, string]()})
		b.AddSink(topology.Sink{Name: "sink", Topic: "out", Parents: []string{"stream"}, Op: op.NewSink(op.SinkSpec[string, string]{Topic: "out", Key: serde.String, Value: serde.String})})
	})
}

// sumText is what stands after n numbers, 0 to n-1.
func sumText(n int) string { return fmt.Sprint(n, " ", n*(n-1)/2) }

// checkExactly holds what a reader of committed records sees against what is committed: each result once, in order, and
// right, and no offset without its result or the other way round.
func (w *world) checkExactly() {
	w.t.Helper()
	var seen [2]int
	for p := range int32(2) {
		for _, r := range w.cluster.Records(tp("out", p)) {
			in, _ := strconv.Atoi(strings.TrimPrefix(string(r.Key), "p"))
			if seen[in]++; string(r.Value) != sumText(seen[in]) {
				w.t.Fatalf("key p%d: result %d is %q, want %q", in, seen[in], r.Value, sumText(seen[in]))
			}
		}
	}
	// An open transaction hides what others have committed behind its first record.
	hidden := slices.ContainsFunc(w.instances, func(s *stepper) bool { return w.cluster.OpenTxn(s.tx.TransactionalID()) })
	for p := range 2 {
		c := max(0, w.group.Committed(tp("in", int32(p))).Offset)
		if c < int64(seen[p]) || c > int64(seen[p]) && !hidden {
			w.t.Fatalf("partition %d: %d is committed, and %d results", p, c, seen[p])
		}
	}
}

// exactlyTrouble makes something of a transaction fail.
func (w *world) exactlyTrouble() {
	s := w.instances[w.rng.IntN(len(w.instances))]
	op := []brokertest.Op{brokertest.OpProve, brokertest.OpTxnOffsets, brokertest.OpEndTxn, brokertest.OpCommitOffsets}[w.rng.IntN(4)]
	switch w.rng.IntN(5) {
	case 0:
		w.cluster.Inject(brokertest.Fault{Op: op, Err: broker.ErrNoAnswer, Applied: w.rng.IntN(2) == 0})
	case 1:
		codes := []broker.Code{broker.CodeNotCoordinator, broker.CodeConcurrentTransactions, broker.CodeIllegalGeneration, broker.CodeInvalidTxnState, broker.CodeTransactionAbortable}
		if op == brokertest.OpProve {
			codes = codes[:2]
		}
		w.cluster.Inject(brokertest.Fault{Op: op, Err: codes[w.rng.IntN(len(codes))]})
	case 2:
		w.cluster.ExpireTxn(s.tx.TransactionalID())
	case 3:
		s.prod.Fail(brokertest.ProduceFault{Err: broker.CodeRequestTimedOut, Written: w.rng.IntN(2) == 0})
	case 4:
		w.kill()
	}
}

// kill ends an instance without a word, in whatever it was doing. Another one takes its place, with its transactional id.
func (w *world) kill() {
	i := w.rng.IntN(len(w.instances))
	old := w.instances[i]
	if old.member.Revoking() || w.goal != nil {
		return
	}
	for id, m := range w.owner {
		if m == old.member {
			delete(w.owner, id)
		}
	}
	w.group.Expire(old.member)
	old.prod.Hold()
	w.crashes++
	w.instances[i] = nil
	rest := w.instances
	w.instances = w.instances[:i:i]
	fresh := w.start()
	w.instances = rest
	w.instances[i] = fresh
}

// Any order of what happens, with lost answers, refused commits, transactions that time out, records that fail, rebalances
// and kills, keeps exactly-once.
func TestRandomTransactions_schedules(t *testing.T) { runSchedules(t, true) }
