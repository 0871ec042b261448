package runtime

import (
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/broker/brokertest"
)

// awake advances the clock while nothing is carried out, and checks that the machine does not ask for ticks without end. The
// stepper checks each step.
func (s *stepper) awake(d time.Duration) {
	s.t.Helper()
	for end := s.clock.Now().Add(d); s.clock.Now().Before(end); {
		if err := s.clock.Advance(10 * time.Millisecond); err != nil {
			s.t.Fatal(err)
		}
		s.step(Tick{})
	}
}

// A transaction is aborted while its commit waits for another try. The time of that try passes before the abort is answered,
// and nobody is woken for it any more.
func TestNextWake_abortedWhileACommitWaits(t *testing.T) {
	s := exactly(t, copyTopology(t))
	s.cluster.Inject(brokertest.Fault{Op: brokertest.OpTxnOffsets, Err: broker.CodeRebalanceInProgress, Times: -1})
	s.cluster.Append(tp("in", 0), kv("a", "1"))
	s.settle()
	s.advance(100 * time.Millisecond)
	if c := s.machine.commit; c == nil || c.stage != stageCommit || c.retryMs == 0 {
		t.Fatalf("no commit waits for another try: %+v", c)
	}
	s.auto = false
	s.member.Lose(true)
	s.settle()
	if c := s.machine.commit; c == nil || c.stage != stageAborting {
		t.Fatalf("the transaction is not being aborted: %+v", c)
	}
	s.awake(time.Second)
}

// The transactional id is broken again, with the time of an earlier try to prove it long past, while records of the aborted
// transaction have no answer yet: their answers are waited for, not the time.
func TestNextWake_brokenWhileRecordsAreOnTheirWay(t *testing.T) {
	s := exactly(t, copyTopology(t))
	s.cluster.Inject(brokertest.Fault{Op: brokertest.OpEndTxn, Err: broker.ErrNoAnswer})
	s.cluster.Inject(brokertest.Fault{Op: brokertest.OpProve, Err: broker.CodeCoordinatorNotAvailable})
	s.cluster.Append(tp("in", 0), kv("a", "1"))
	s.settle()
	for range 20 {
		s.advance(100 * time.Millisecond)
	}
	if s.machine.eos.broken || s.machine.eos.againMs == 0 {
		t.Fatalf("no try to prove the id has failed before one did not: %+v", s.machine.eos)
	}

	s.prod.HoldAcks()
	s.cluster.Append(tp("in", 0), kv("c", "3"))
	s.settle()
	s.advance(100 * time.Millisecond)
	s.cluster.Append(tp("in", 1), kv("d", "4"))
	s.settle()
	c := s.machine.commit
	if c == nil || c.stage != stageOpen {
		t.Fatalf("no transaction is open: %+v", c)
	}
	s.machine.abort(c, broker.CourseRebuild, broker.CodeProducerFenced)
	if !s.machine.eos.broken || s.machine.commit == nil {
		t.Fatalf("the id is not broken, or nothing is waited for: %+v", s.machine.eos)
	}
	s.awake(time.Second)
	s.prod.Release()
	s.settle()
}
