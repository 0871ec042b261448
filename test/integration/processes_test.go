package integration_test

import (
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"

	"github.com/millrace-io/millrace/test/child"
	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

const (
	processKeys       = 1000
	processPartitions = 12
	processSession    = 6 * time.Second
)

// processRecords is how many records the processes share, a multiple of 2 x processKeys.
func processRecords() int {
	if testing.Short() {
		return 50_000
	}
	return 1_000_000
}

// Three processes of one application share the work; one is killed half-way. The others take its partitions over soon after its
// session timeout (within ten seconds on a machine with nothing else to do), and no key ends below its right count.
func TestThreeProcesses_oneIsKilled(t *testing.T) {
	t.Parallel() // with tests that mostly wait, as this one does for the session of the dead
	eachProtocol(t, func(t *testing.T, b kafkatest.Broker, protocol millrace.GroupProtocolKind) {
		p := startThree(t, b, protocol, processRecords())
		var killed time.Time
		var before map[int32]int64
		p.inTheMiddle(func() {
			p.children[1].Kill()
			killed, before = time.Now(), p.committed()
		})
		p.load(p.total / 2)

		// The half that is loaded now has records for every partition, so each of them moves on when it has an owner.
		const limit = processSession + time.Minute
		p.await("the others own all tasks", func() bool {
			return p.children[0].Status().Ready+p.children[2].Status().Ready == processPartitions
		})
		owned := time.Since(killed)
		p.await("every partition moves on", func() bool {
			now := p.committed()
			for part := range int32(processPartitions) {
				if now[part] <= before[part] {
					return false
				}
			}
			return true
		})
		moved := time.Since(killed)
		t.Logf("after the kill the others owned all tasks in %v, and had committed in every partition in %v", owned, moved)
		if moved > limit {
			t.Errorf("every partition moved on %v after the kill, want at most %v", moved, limit)
		}
		p.awaitProcessed(p.total)
		p.checkCounts(func(n, want int64) bool { return n >= want }, "at least")
		p.stopAll(0, 2)
	})
}

// Three processes share the work; one is stopped half-way. Every key's count is exactly right.
func TestThreeProcesses_oneStops(t *testing.T) {
	eachProtocol(t, func(t *testing.T, b kafkatest.Broker, protocol millrace.GroupProtocolKind) {
		p := startThree(t, b, protocol, processRecords())
		p.inTheMiddle(func() { p.children[1].Stop() })
		p.load(p.total / 2)
		p.awaitProcessed(p.total)
		p.checkCounts(func(n, want int64) bool { return n == want }, "exactly")
		p.stopAll(0, 2)
	})
}

// A fourth process joins while the work runs, and one of the others leaves. Tasks change hands twice, and every key's count
// is exactly right.
func TestThreeProcesses_aFourthJoinsAndOneLeaves(t *testing.T) {
	eachProtocol(t, func(t *testing.T, b kafkatest.Broker, protocol millrace.GroupProtocolKind) {
		p := startThree(t, b, protocol, processRecords()/5)
		p.inTheMiddle(p.addChild)
		p.load(p.total / 4)
		p.await("the fourth has its share", func() bool { return p.children[3].Status().Ready == processPartitions/4 })
		p.children[0].Stop()
		p.load(p.total / 4)
		p.awaitProcessed(p.total)
		p.checkCounts(func(n, want int64) bool { return n == want }, "exactly")
		p.stopAll(1, 2, 3)
	})
}

// processes is an application of several processes that count the records of a topic.
type processes struct {
	t        *testing.T
	b        kafkatest.Broker
	app      string
	protocol millrace.GroupProtocolKind
	topics   childTopics
	total    int
	loaded   int
	children []*child.Process
}

// startThree starts three processes and waits until each has its share of the tasks.
func startThree(t *testing.T, b kafkatest.Broker, protocol millrace.GroupProtocolKind, total int) *processes {
	t.Helper()
	p := &processes{t: t, b: b, protocol: protocol, app: b.Name("three"), total: total}
	p.topics = childTopics{
		In:  kafkatest.CreateTopic(t, b, "three-in", processPartitions),
		Out: kafkatest.CreateTopic(t, b, "three-out", processPartitions),
	}
	for range 3 {
		p.addChild()
	}
	p.await("each process has its share", func() bool {
		for _, c := range p.children {
			if c.Status().Ready != processPartitions/3 {
				return false
			}
		}
		return true
	})
	return p
}

func (p *processes) addChild() {
	p.t.Helper()
	p.children = append(p.children, startChild(p.t, fmt.Sprint("process-", len(p.children)), childSpec{
		Topology: "count", Topics: p.topics, Settings: map[string]string{
			"application.id": p.app, "bootstrap.servers": strings.Join(p.b.Bootstrap(), ","),
			"session.timeout.ms": fmt.Sprint(processSession.Milliseconds()), "group.protocol": p.protocol.String(),
		},
	}))
}

// load writes the next n records, as many of each key.
func (p *processes) load(n int) {
	p.t.Helper()
	if err := <-p.loading(n); err != nil {
		p.t.Fatal(err)
	}
}

// loading starts to write the next n records. What comes out is how it went.
func (p *processes) loading(n int) <-chan error {
	now := time.Now()
	from := p.loaded
	records := iter.Seq[*kgo.Record](func(yield func(*kgo.Record) bool) {
		for i := from; i < from+n; i++ {
			if !yield(&kgo.Record{Key: fmt.Appendf(nil, "key-%04d", i%processKeys), Value: []byte("x"), Timestamp: now}) {
				return
			}
		}
	})
	p.loaded += n
	done := make(chan error, 1)
	go func() { done <- kafkatest.Write(p.t.Context(), p.b, p.topics.In, records) }()
	return done
}

// inTheMiddle calls a function in the middle of the work: half of the records are being loaded, a part of them is processed,
// and all processes own tasks.
func (p *processes) inTheMiddle(do func()) {
	p.t.Helper()
	loaded := p.loading(p.total / 2)
	p.awaitProcessed(p.total / 5)
	for _, c := range p.children {
		if s := c.Status(); s.Tasks != processPartitions/3 || s.Processed == 0 {
			p.t.Fatalf("half-way %s is %+v, want a third of the tasks and some records processed", c.Name(), s)
		}
	}
	do()
	if err := <-loaded; err != nil {
		p.t.Fatal(err)
	}
}

func (p *processes) committed() map[int32]int64 {
	p.t.Helper()
	m := make(map[int32]int64)
	for part, o := range kafkatest.GroupOffsets(p.t, p.b, p.app)[p.topics.In] {
		m[part] = o.At
	}
	return m
}

func (p *processes) await(what string, done func() bool) {
	p.t.Helper()
	await(p.t, what, patience, done)
}

func (p *processes) awaitProcessed(n int) {
	p.t.Helper()
	p.await(fmt.Sprint(n, " records are processed"), func() bool {
		sum := int64(0)
		for _, at := range p.committed() {
			sum += at
		}
		return sum >= int64(n)
	})
}

// checkCounts judges the last count of each key.
func (p *processes) checkCounts(right func(n, want int64) bool, how string) {
	p.t.Helper()
	want := int64(p.total / processKeys)
	last := make(map[string]int64)
	for _, r := range kafkatest.ReadAll(p.t, p.b, p.topics.Out, kafkatest.Committed) {
		n, err := serde.Int64.Decode(r.Value)
		if err != nil {
			p.t.Fatal(err)
		}
		last[string(r.Key)] = n
	}
	if len(last) != processKeys {
		p.t.Errorf("%d keys were counted, want %d", len(last), processKeys)
	}
	bad, again := 0, int64(0)
	for key, n := range last {
		again += n - want
		if right(n, want) {
			continue
		}
		if bad++; bad <= 5 {
			p.t.Errorf("%s was counted %d times, want %s %d", key, n, how, want)
		}
	}
	if bad > 0 {
		p.t.Errorf("%d keys in all have a wrong count", bad)
	}
	p.t.Logf("%d of %d records were counted twice", again, p.total)
}

func (p *processes) stopAll(children ...int) {
	p.t.Helper()
	for _, i := range children {
		p.children[i].Stop()
	}
}

// countSteps judges every count of every key: each from 1 on has to be there once, in order.
func (p *processes) countSteps() (lost, doubled int) {
	p.t.Helper()
	at := make(map[string]int64)
	for _, r := range kafkatest.ReadAll(p.t, p.b, p.topics.Out, kafkatest.Committed) {
		n, err := serde.Int64.Decode(r.Value)
		if err != nil {
			p.t.Fatal(err)
		}
		switch before := at[string(r.Key)]; {
		case n <= before:
			doubled++
		default:
			lost += int(n - before - 1)
			at[string(r.Key)] = n
		}
	}
	for i := range processKeys {
		lost += int(int64(p.total/processKeys) - at[fmt.Sprintf("key-%04d", i)])
	}
	return lost, doubled
}
