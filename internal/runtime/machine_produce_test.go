package runtime

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/broker/brokertest"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/processor"
)

// onProduction sets the production handler, which notes what it was asked.
func onProduction(asked *[]string, verdict func(processor.Failure) processor.Response) stepOption {
	return func(c *Config, _ *stepper) {
		c.Task.Handlers.Production = func(f processor.Failure) processor.Response {
			*asked = append(*asked, fmt.Sprintf("%s@%d attempt %d", f.Key, f.Origin.Offset, f.Attempt))
			return verdict(f)
		}
	}
}

// A record that the broker refuses goes to the handler, alone; its neighbours are written, and the commit waits for the
// verdict.
func TestProduce_refusedRecord(t *testing.T) {
	for _, c := range []struct {
		name    string
		verdict func(processor.Failure) processor.Response
		asked   []string
		out     []string
		fails   bool
	}{
		{"continue", func(processor.Failure) processor.Response { return processor.Response{Action: processor.Continue} },
			[]string{"b@1 attempt 1"}, []string{"a=1", "c=3"}, false},
		{"retry", func(processor.Failure) processor.Response { return processor.Response{Action: processor.Retry} },
			[]string{"b@1 attempt 1", "b@1 attempt 2"}, []string{"a=1", "b=2", "c=3"}, false},
		{"dead letter", func(f processor.Failure) processor.Response {
			return processor.Response{Action: processor.Continue, DeadLetters: []processor.DeadLetter{{Topic: "out", Key: f.Key, Value: []byte("dead")}}}
		}, []string{"b@1 attempt 1"}, []string{"a=1", "b=dead", "c=3"}, false},
		{"fail", func(processor.Failure) processor.Response { return processor.Response{Action: processor.Fail} },
			[]string{"b@1 attempt 1"}, []string{"a=1", "c=3"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			cl := cluster()
			cl.Append(tp("in", 0), kv("a", "1"), kv("b", "2"), kv("c", "3"))
			var asked []string
			s := newStepper(t, cl, copyTopology(t), onProduction(&asked, c.verdict))
			refusals := 1
			if c.name == "retry" {
				refusals = 2
			}
			s.prod.Fail(brokertest.ProduceFault{Topic: "out", Err: broker.CodeInvalidRecord, Times: refusals,
				When: func(r broker.ProduceRecord) bool { return string(r.Key) == "b" && string(r.Value) == "2" }})
			s.settle()
			s.assign(t0)
			s.advance(100 * time.Millisecond)
			if d := cmp.Diff(c.asked, asked); d != "" {
				t.Errorf("the handler was asked (-want +got):\n%s", d)
			}
			wantOutputs(t, cl, c.out...)
			if c.fails {
				var fatal *op.FatalError
				if !s.finished || !errors.As(s.err, &fatal) || fatal.Stage != processor.Producing || fatal.Origin.Offset != 1 {
					t.Errorf("finished %t, error %v", s.finished, s.err)
				}
				s.wantCommitted(-1)
				return
			}
			s.wantCommitted(3)
			s.wantState(StateRunning)
		})
	}
}

// A record that is larger than its topic takes is judged before it is sent.
func TestProduce_tooLarge(t *testing.T) {
	cl := cluster()
	cl.SetConfig("out", "max.message.bytes", "200")
	cl.Append(tp("in", 0), kv("a", "1"), kv("b", string(make([]byte, 150))), kv("c", "3"))
	var asked []string
	s := newStepper(t, cl, copyTopology(t), onProduction(&asked, func(f processor.Failure) processor.Response {
		if !errors.Is(f.Err, broker.ErrRecordTooLarge) {
			t.Errorf("error %v", f.Err)
		}
		return processor.Response{Action: processor.Continue}
	}))
	s.settle()
	s.assign(t0)
	s.advance(100 * time.Millisecond)
	if d := cmp.Diff([]string{"b@1 attempt 1"}, asked); d != "" {
		t.Errorf("the handler was asked (-want +got):\n%s", d)
	}
	wantOutputs(t, cl, "a=1", "c=3")
	s.wantCommitted(3)
}

// A record that cannot be written in time drops its task to its last commit; it is tried again after a pause, and other
// tasks go on.
func TestProduce_failedRecord(t *testing.T) {
	cl := cluster()
	k0, k1 := keyOf(0), keyOf(1)
	cl.Append(tp("in", 0), kv(k0, "1"))
	cl.Append(tp("in", 1), kv(k1, "2"))
	s := newStepper(t, cl, copyTopology(t))
	s.prod.Fail(brokertest.ProduceFault{Topic: "out", Err: broker.CodeRequestTimedOut, Times: 2,
		When: func(r broker.ProduceRecord) bool { return string(r.Key) == k0 }})
	s.settle()
	s.assign(t0, t1)
	s.advance(100 * time.Millisecond)
	s.wantCommitted(-1, 1)
	s.wantState(StateRebalancing)
	s.advance(500 * time.Millisecond)
	s.wantCommitted(-1, 1)
	wantOutputs(t, cl, k1+"=2")
	s.advance(time.Second)
	s.advance(100 * time.Millisecond)
	wantOutputs(t, cl, k0+"=1", k1+"=2")
	s.wantCommitted(1, 1)
	s.wantState(StateRunning)
}

// The store of a task that failed after it had written stands where it was committed, and the replay of the gap brings back
// what the changelog has; the input is processed again from the last commit.
func TestProduce_failureDropsStagedState(t *testing.T) {
	cl := cluster()
	k := keyOf(0)
	cl.Append(tp("in", 0), kv(k, "1"))
	s := newStepper(t, cl, countTopology(t))
	s.settle()
	s.assign(t0)
	s.advance(100 * time.Millisecond)
	s.wantCommitted(1)
	cl.Append(tp("in", 0), kv(k, "2"))
	s.settle() // the changelog has it, and the offset is not committed
	cl.Append(tp("in", 0), kv(k, "3"))
	s.prod.Fail(brokertest.ProduceFault{Topic: "out", Err: broker.CodeRequestTimedOut, When: func(r broker.ProduceRecord) bool {
		return string(r.Value) == "3"
	}})
	s.settle()
	s.advance(50 * time.Millisecond)
	s.wantCommitted(1)
	s.advance(500 * time.Millisecond)
	s.advance(100 * time.Millisecond)
	s.wantCommitted(3)
	wantOutputs(t, cl, k+"=1", k+"=2", k+"=2", k+"=3")
	var log []string
	for _, r := range cl.Records(tp("app-counts-changelog", 0)) {
		log = append(log, string(r.Value))
	}
	if d := cmp.Diff([]string{"1", "2", "2", "3"}, log); d != "" {
		t.Errorf("changelog (-want +got):\n%s", d)
	}
	l := s.machine.find(t0).life
	if p, ok := l.set.Position("counts"); !ok || p.Offset != 4 {
		t.Errorf("the store stands at %+v %t, want 4", p, ok)
	}
}

func TestProduce_forbidden(t *testing.T) {
	cl := cluster()
	cl.Append(tp("in", 0), kv("a", "1"))
	s := newStepper(t, cl, copyTopology(t))
	s.prod.Fail(brokertest.ProduceFault{Topic: "out", Err: broker.CodeTopicAuthorizationFailed, Times: -1})
	s.settle()
	s.assign(t0)
	s.advance(100 * time.Millisecond)
	if !s.finished || !errors.Is(s.err, broker.ErrUnauthorized) {
		t.Errorf("finished %t, error %v", s.finished, s.err)
	}
	s.wantCommitted(-1)
}

// While the producer is full no task processes; commits go on.
func TestProduce_full(t *testing.T) {
	cl := cluster()
	cl.Append(tp("in", 0), kv("a", "1"))
	s := newStepper(t, cl, copyTopology(t), func(c *Config, _ *stepper) { c.Settings.ProducerBytes = 10 })
	s.prod.Hold()
	s.settle()
	s.assign(t0)
	for i := range 20 {
		cl.Append(tp("in", 0), kv("b", fmt.Sprint(i)))
		s.settle()
	}
	if n := s.prod.Unacknowledged(); n > 10 {
		t.Errorf("%d records are on their way although the producer is full", n)
	}
	s.prod.Release()
	s.settle()
	s.advance(fullCheckMs * time.Millisecond)
	if n := len(outputs(cl)); n != 21 {
		t.Errorf("%d records were written at the end, want 21", n)
	}
}

// C114: an output topic does not exist. The task is closed dirty and tried again, nothing is committed, and the instance
// stays up; after the topic is created the record is delivered.
func TestC114_missingOutputTopic(t *testing.T) {
	cl := brokertest.New()
	cl.AddTopic("in", 1)
	cl.Append(tp("in", 0), kv("a", "1"))
	s := newStepper(t, cl, copyTopology(t))
	s.settle()
	s.assign(t0)
	for range 30 {
		s.advance(time.Second)
	}
	if s.finished {
		t.Fatalf("it stopped: %v", s.err)
	}
	s.wantCommitted(-1)
	if got := s.machine.find(t0); got.tries < 5 {
		t.Errorf("tried %d times in 30 s", got.tries)
	}
	cl.AddTopic("out", 2)
	for range 6 {
		s.advance(time.Second)
	}
	wantOutputs(t, cl, "a=1")
	s.wantCommitted(1)
	s.wantState(StateRunning)
}

// A topic that never appears stops the instance when the task's time is over.
func TestC114_missingOutputTopicForTooLong(t *testing.T) {
	cl := brokertest.New()
	cl.AddTopic("in", 1)
	s := newStepper(t, cl, copyTopology(t))
	s.settle()
	s.assign(t0)
	for i := 0; i < 100 && !s.finished; i++ {
		s.advance(time.Second)
	}
	if !s.finished || !errors.Is(s.err, broker.ErrUnknownTopic) {
		t.Fatalf("finished %t, error %v", s.finished, s.err)
	}
	want := `: task 0_0: step sink, declared at (unknown place): topic "out" is not present in the cluster's metadata: create it: `
	if !strings.Contains(s.err.Error(), want) || !strings.Contains(s.err.Error(), "task.timeout.ms = ") {
		t.Errorf("%q does not say %q", s.err, want)
	}
}

// A broker that refuses a whole batch for its size does not say for which record. The task goes back to its last commit and
// sends one record after the other; the handler is asked for the one to blame, and its neighbours are written, in order.
func TestProduce_batchTooLarge(t *testing.T) {
	cl := cluster()
	cl.Append(tp("in", 0), kv("a", "1"), kv("b", "2"), kv("c", "3"))
	var asked []string
	s := newStepper(t, cl, copyTopology(t), onProduction(&asked, func(processor.Failure) processor.Response {
		return processor.Response{Action: processor.Continue}
	}))
	s.prod.Fail(brokertest.ProduceFault{Topic: "out", Err: broker.CodeMessageTooLarge, Times: 3})
	s.settle()
	s.assign(t0)
	if len(asked) != 0 {
		t.Errorf("the handler was asked about a batch: %v", asked)
	}
	s.prod.Fail(brokertest.ProduceFault{Topic: "out", Err: broker.CodeMessageTooLarge, Times: -1,
		When: func(r broker.ProduceRecord) bool { return string(r.Key) == "b" }})
	s.advance(500 * time.Millisecond)
	s.advance(100 * time.Millisecond)
	if d := cmp.Diff([]string{"b@1 attempt 1"}, asked); d != "" {
		t.Errorf("the handler was asked (-want +got):\n%s", d)
	}
	wantOutputs(t, cl, "a=1", "c=3")
	s.wantCommitted(3)
	// From the commit on records leave together again.
	if s.machine.find(t0).life.box.alone() {
		t.Error("records are still sent one by one")
	}
	cl.Append(tp("in", 0), kv("d", "4"), kv("e", "5"))
	s.settle()
	wantOutputs(t, cl, "a=1", "c=3", "d=4", "e=5")
}
