package runtime

import (
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/broker/brokertest"
	"github.com/millrace-io/millrace/processor"
)

// A production handler that does not return, in a task with an earlier unit in a transaction that is aborted, stops its own task only:
// the others of the transaction go on from their last commit. What it was asked about is dropped when it returns, and done again.
func TestTransaction_aBlockedHandlerHoldsUpNoAbort(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	asks := 0
	var asked []string
	s := exactly(t, copyTopology(t), onProduction(&asked, func(processor.Failure) processor.Response {
		if asks++; asks == 1 {
			close(entered)
			<-release
		}
		return processor.Response{Action: processor.Continue}
	}))
	s.machine.shared.maxRecord = func(string) int { return 1000 }
	s.cluster.Append(tp("in", 0), kv("a", "1"))
	s.cluster.Append(tp("in", 1), kv("one", "1"))
	s.settle()
	s.prod.HoldAcks()
	s.advance(100 * time.Millisecond) // both are in the open transaction, without answers
	s.auto = false
	s.cluster.Append(tp("in", 1), kv("small", "2"), kv("big", strings.Repeat("x", 3000)))
	s.settle()
	if len(s.works) != 1 {
		t.Fatalf("%d works", len(s.works))
	}
	w := s.works[0]
	s.works = nil
	done := make(chan *Done, 1)
	go func() { done <- w.Do() }()
	<-entered
	s.auto = true
	s.cluster.Inject(brokertest.Fault{Op: brokertest.OpTxnOffsets, Err: broker.CodeTransactionAbortable})
	s.prod.Release()
	s.settle()
	for range 20 {
		s.advance(100 * time.Millisecond)
	}
	s.cluster.Append(tp("in", 0), kv("a", "2"))
	s.settle()
	for range 5 {
		s.advance(100 * time.Millisecond)
	}
	s.wantCommitted(2, -1)
	close(release)
	s.step(Worked{Done: <-done})
	s.settle()
	for range 20 {
		s.advance(100 * time.Millisecond)
	}
	s.wantCommitted(2, 3)
	wantOutputs(t, s.cluster, "a=1", "a=2", "one=1", "small=2")
	if n := s.machine.staged.Load(); n != 0 {
		t.Errorf("%d bytes are held back for ever", n)
	}
}
