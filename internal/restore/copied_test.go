package restore_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/internal/broker/brokertest"
	"github.com/millrace-io/millrace/internal/restore"
)

// told are the steps that a bench is told of.
func (b *bench) copied() *[]string {
	steps := new([]string)
	b.cfg.Copied = func(c restore.Copied) {
		*steps = append(*steps, fmt.Sprintf("%d %s-%d at %d of %d, %d records", c.Step, c.Log.Topic, c.Log.Partition, c.At, c.End, c.Records))
	}
	return steps
}

func wantSteps(t *testing.T, steps *[]string, want ...string) {
	t.Helper()
	if d := cmp.Diff(want, *steps); d != "" {
		t.Errorf("steps (-want +got):\n%s", d)
	}
	*steps = nil
}

func TestStandby_tellsOfItsSteps(t *testing.T) {
	b := newBench(t)
	steps := b.copied()
	tp := brokertest.TP(log, 0)
	name := fmt.Sprintf("%s-0", log)
	b.c.Append(tp, kv("a", "1"), kv("b", "2"))
	s := b.standby()
	wantSteps(t, steps)
	b.follow(s)
	wantSteps(t, steps, "0 "+name+" at 0 of 2, 0 records", "1 "+name+" at 2 of 2, 2 records")
	b.follow(s) // nothing new
	wantSteps(t, steps)
	b.c.Append(tp, kv("a", "3"))
	b.follow(s)
	wantSteps(t, steps, "1 "+name+" at 3 of 3, 1 records")
	set := b.release(s)
	wantSteps(t, steps, "2 "+name+" at 3 of 3, 0 records")
	if err := set.Close(); err != nil {
		t.Fatal(err)
	}

	s = b.standby()
	b.follow(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantSteps(t, steps, "0 "+name+" at 0 of 3, 0 records", "1 "+name+" at 3 of 3, 3 records", "3 "+name+" at 3 of 3, 0 records")

	s = restore.NewStandby(b.cfg) // one that is given up before it has begun is not told of
	if err := s.Open(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantSteps(t, steps)
}
