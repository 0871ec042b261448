package runtime

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/processor"
)

// Verdict is what is to become of a task that has failed, and of what is around it.
type Verdict uint8

// The verdicts.
const (
	StopInstance    Verdict = iota // the instance ends with the error
	ReplaceTask                    // the task begins again from its last commit, the others go on
	StopApplication                // so do all instances
)

// Uncaught is an error of a task that no handler took and that will not pass by itself.
type Uncaught struct {
	Task broker.TaskID
	Err  error
	// Times is how often in a row the task has failed, this time included.
	Times int
}

// question is one Uncaught on its way to the application's policy.
type question struct {
	slot     *slot
	uncaught Uncaught
	policy   func(Uncaught) Verdict
}

// ask runs the policy, which is user code. Its panic is an error as well: the instance ends with both.
func (q *question) ask() (e Judged) {
	e.question, e.err = q, q.uncaught.Err
	defer func() {
		if p := recover(); p != nil {
			e.verdict = StopInstance
			e.err = fmt.Errorf("%w; and the policy for uncaught errors failed: %w", q.uncaught.Err, &op.PanicError{Value: p, Stack: debug.Stack()})
		}
	}()
	e.verdict = q.policy(q.uncaught)
	return e
}

// uncaught deals with an error that ends a task. Without a policy the task is closed in the manner of mode, and the instance
// ends. With one the task goes back to its last commit and stays there until the policy has said what is to become of it: it is
// asked on a goroutine of its own, and everything else goes on.
func (m *Machine) uncaught(s *slot, mode closeMode, why string, err error) {
	if m.cfg.Uncaught == nil {
		m.endSlot(s, mode, why)
		m.fail(err)
		return
	}
	if s.asked != nil { // it fails while it is on its way out: one answer is enough
		m.endSlot(s, closeRetry, why)
		return
	}
	at := originOf(err)
	if at.Topic == "" || at != s.failedAt {
		if s.openedMs > 0 && m.nowMs-s.openedMs >= m.set.BackoffMaxMs {
			s.failures = 0 // it was well in between
		}
	}
	s.failedAt = at
	s.failures++
	q := &question{slot: s, uncaught: Uncaught{Task: s.id, Err: broker.OnePrefix(err), Times: s.failures}, policy: m.cfg.Uncaught}
	s.asked = q
	m.asked = append(m.asked, q)
	m.do(Ask{question: q})
	if s.phase == phaseWaiting {
		s.closing = closeNot
		return
	}
	m.endSlot(s, closeRetry, why)
}

// originOf is the record that an error is about.
func originOf(err error) processor.Metadata {
	var fatal *op.FatalError
	if errors.As(err, &fatal) {
		return fatal.Origin
	}
	return processor.Metadata{}
}

// judged takes what the policy has said.
func (m *Machine) judged(e Judged) {
	s := e.question.slot
	s.asked = nil
	m.asked = slices.DeleteFunc(m.asked, func(q *question) bool { return q == e.question })
	if e.verdict == ReplaceTask && (s.phase == phaseClosed || s.closing == closeDirty) {
		m.log.Error("a task has failed, and is not this instance's any more", "task", s.name, "error", e.err)
		return
	}
	if e.verdict == ReplaceTask {
		m.count(metrics.TasksReplaced, 1)
		wait := min(m.set.BackoffMs<<min(e.question.uncaught.Times-1, 16), m.set.BackoffMaxMs)
		m.log.Error("a task has failed and is replaced: what it did since its last commit is done again, the other tasks go on", "task", s.name,
			"times", e.question.uncaught.Times, "again_in_ms", wait, "error", e.err)
		s.retryMs = m.nowMs + wait
		m.advance(s)
		return
	}
	m.endSlot(s, closeDirty, "failed")
	if e.verdict == StopApplication {
		m.stopApplication(e.err)
		return
	}
	m.fail(e.err)
}

// stopApplication asks the group for the end of all its members, and ends. The group is left only when it has said so itself:
// a member that is gone cannot be heard.
func (m *Machine) stopApplication(err error) {
	if m.joined && !m.telling && m.drain.mayTell(m.nowMs) {
		m.telling = true
		m.log.Error("asking all instances of the application to stop", "error", err)
		m.do(StopAll{Why: broker.OnePrefix(err).Error()})
	}
	m.fail(err)
}

// mayTell says whether there is time to ask the group for something.
func (d *drain) mayTell(nowMs int64) bool {
	return d == nil || !d.left && !d.abandoned && nowMs < d.deadlineMs
}
