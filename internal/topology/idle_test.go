package topology

import (
	"testing"
	"time"
)

func TestIdleTimeout_ofARepartitionTopicIsTheLongestBeforeIt(t *testing.T) {
	declare := func(first, second time.Duration) *Topology {
		t.Helper()
		b := NewBuilder()
		b.AddSource(Source{Name: "a", Topics: []string{"a"}, IdleTimeout: first})
		b.AddSource(Source{Name: "b", Topics: []string{"b"}, IdleTimeout: second})
		for _, topic := range []string{"one", "two"} {
			b.InternalTopic(RepartitionTopic{Name: topic})
		}
		b.AddSink(Sink{Name: "to-one", Topic: "one", Parents: []string{"a", "b"}})
		b.AddSource(Source{Name: "from-one", Topics: []string{"one"}})
		b.AddProcessor(Processor{Name: "step", Parents: []string{"from-one"}})
		b.AddSink(Sink{Name: "to-two", Topic: "two", Parents: []string{"step"}})
		b.AddSource(Source{Name: "from-two", Topics: []string{"two"}})
		top, err := b.Build(BuildOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return top
	}
	for _, c := range []struct {
		first, second time.Duration
		wantMs        int64
	}{
		{time.Second, time.Minute, 60_000},
		{time.Second, 0, 0}, // b is never quiet, so nobody knows what it may still send
		{0, 0, 0},
	} {
		top := declare(c.first, c.second)
		for _, name := range []string{"from-one", "from-two"} {
			if got := top.Node(name).IdleMs; got != c.wantMs {
				t.Errorf("%v and %v: %s is idle after %d ms, want %d", c.first, c.second, name, got, c.wantMs)
			}
		}
	}
}
