package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/bench/internal/measure"
	"github.com/millrace-io/millrace/bench/internal/side"
)

func TestDefaults(t *testing.T) {
	o, err := parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(o.work()) != len(side.Scenarios()) || o.repeat != 3 || o.records != 3_000_000 || o.keys != 100_000 || !o.defaultSides {
		t.Errorf("got %+v", o)
	}
	if o.warmUp != 3*time.Second || o.javaWarmUp != 10*time.Second || o.measure != 8*time.Second {
		t.Errorf("times %v, %v, %v", o.warmUp, o.javaWarmUp, o.measure)
	}
	s := o.settings()
	if s.CommitInterval[side.AtLeastOnce] != time.Second || s.CommitInterval[side.ExactlyOnce] != 100*time.Millisecond {
		t.Errorf("commit intervals %v", s.CommitInterval)
	}
}

func TestLists(t *testing.T) {
	o, err := parse([]string{"--scenario", "count,filter-map", "--guarantee=at_least_once,exactly_once_v2", "--value-bytes", "100,1024",
		"--sides", "java,bare", "--commit-interval", "50ms"})
	if err != nil {
		t.Fatal(err)
	}
	got := o.work()
	if len(got) != 8 {
		t.Fatalf("%d combinations, want 8", len(got))
	}
	want := measure.Work{Scenario: side.FilterMap, Guarantee: side.ExactlyOnce, ValueBytes: 1024}
	if diff := cmp.Diff(want, got[7]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"java", "bare"}, o.sides); diff != "" || o.defaultSides {
		t.Error(diff)
	}
	if s := o.settings(); s.CommitInterval[side.AtLeastOnce] != 50*time.Millisecond || s.CommitInterval[side.ExactlyOnce] != 50*time.Millisecond {
		t.Errorf("commit intervals %v", s.CommitInterval)
	}
}

func TestSmokeLeavesAloneWhatIsGiven(t *testing.T) {
	o, err := parse([]string{"--smoke", "--repeat", "2"})
	if err != nil {
		t.Fatal(err)
	}
	if o.repeat != 2 || o.records != 200_000 || o.measure > 2*time.Second {
		t.Errorf("got %+v", o)
	}
}

func TestWrongFlags(t *testing.T) {
	for _, args := range [][]string{
		{"--scenario", "counts"}, {"--guarantee", "once"}, {"--sides", "flink"}, {"--value-bytes", "4"}, {"--value-bytes", "x"},
		{"--repeat", "0"}, {"--commit-interval", "1us"}, {"count"},
	} {
		if _, err := parse(args); err == nil {
			t.Errorf("%v was accepted", args)
		}
	}
}
