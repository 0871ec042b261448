package integration_test

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

const (
	processKeys       = 1000
	processPartitions = 12
	processSession    = 6 * time.Second
)

// processRecords is how many records three processes share.
func processRecords() int {
	if testing.Short() {
		return 50_000
	}
	return 1_000_000
}

// Three processes of one application share the work; one is killed half-way. The others take its partitions over within its
// session timeout and ten seconds, and no key ends below its right count.
func TestThreeProcesses_oneIsKilled(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		p := startThree(t, b)
		p.waitProcessed(p.total / 2)
		before := p.committed()
		p.children[1].kill()
		killed := time.Now()
		p.waitMoved(before)
		if took := time.Since(killed); took > processSession+10*time.Second {
			t.Errorf("the others had taken all partitions over %v after the kill, want at most %v", took, processSession+10*time.Second)
		}
		p.waitProcessed(p.total)
		p.checkCounts(func(n int64) bool { return n >= int64(p.total/processKeys) }, "at least")
		p.children[0].stop()
		p.children[2].stop()
	})
}

// Three processes share the work; one is stopped half-way. Every key's count is exactly right.
func TestThreeProcesses_oneStops(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		p := startThree(t, b)
		p.waitProcessed(p.total / 2)
		p.children[1].stop()
		p.waitProcessed(p.total)
		p.checkCounts(func(n int64) bool { return n == int64(p.total/processKeys) }, "exactly")
		p.children[0].stop()
		p.children[2].stop()
	})
}

type three struct {
	t        *testing.T
	b        kafkatest.Broker
	app      string
	in, out  string
	total    int
	children []*child
}

func startThree(t *testing.T, b kafkatest.Broker) *three {
	t.Helper()
	p := &three{t: t, b: b, app: b.Name("three"), total: processRecords()}
	p.in = kafkatest.CreateTopic(t, b, "three-in", processPartitions)
	p.out = kafkatest.CreateTopic(t, b, "three-out", processPartitions)
	now := time.Now()
	records := make([]*kgo.Record, p.total)
	for i := range records {
		records[i] = &kgo.Record{Key: fmt.Appendf(nil, "key-%04d", i%processKeys), Value: []byte("x"), Timestamp: now}
	}
	kafkatest.Load(t, b, p.in, records...)
	for i := range 3 {
		p.children = append(p.children, startChild(t, fmt.Sprint("process-", i), childSpec{
			Brokers: b.Bootstrap(), App: p.app, In: p.in, Out: p.out,
			SessionMs: int(processSession.Milliseconds()), CommitMs: 100,
		}))
	}
	return p
}

func (p *three) committed() map[int32]int64 {
	p.t.Helper()
	m := make(map[int32]int64)
	for part, o := range kafkatest.GroupOffsets(p.t, p.b, p.app)[p.in] {
		m[part] = o.At
	}
	return m
}

// waitUntil polls a condition of the cluster. There is nothing to wait for in another process but its traces there.
func (p *three) waitUntil(what string, done func() bool) {
	p.t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for !done() {
		if time.Now().After(deadline) {
			p.t.Fatalf("%s: not within 3 minutes; committed %v", what, p.committed())
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-p.t.Context().Done():
			p.t.Fatal("the test is over")
		}
	}
}

func (p *three) waitProcessed(n int) {
	p.t.Helper()
	p.waitUntil(fmt.Sprint(n, " records processed"), func() bool {
		sum := int64(0)
		for _, at := range p.committed() {
			sum += at
		}
		return sum >= int64(n)
	})
}

// waitMoved waits until every partition has been committed further than before, or is done.
func (p *three) waitMoved(before map[int32]int64) {
	p.t.Helper()
	ends := kafkatest.EndOffsets(p.t, p.b, p.in, kafkatest.Committed)
	p.waitUntil("every partition moves on", func() bool {
		now := p.committed()
		for part, end := range ends {
			if now[part] < end && now[part] <= before[part] {
				return false
			}
		}
		return true
	})
}

func (p *three) checkCounts(right func(int64) bool, how string) {
	p.t.Helper()
	last := make(map[string]int64)
	for _, r := range kafkatest.ReadAll(p.t, p.b, p.out, kafkatest.Committed) {
		last[string(r.Key)] = int64(binary.BigEndian.Uint64(r.Value))
	}
	if len(last) != processKeys {
		p.t.Errorf("%d keys were counted, want %d", len(last), processKeys)
	}
	bad := 0
	for key, n := range last {
		if !right(n) {
			if bad < 5 {
				p.t.Errorf("%s was counted %d times, want %s %d", key, n, how, p.total/processKeys)
			}
			bad++
		}
	}
	if bad > 0 {
		p.t.Errorf("%d keys in all have a wrong count", bad)
	}
}
