package demo

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

func TestApp_comesToWhatThePlainPassFinds(t *testing.T) {
	for _, c := range []struct {
		partitions int32
		grace      time.Duration
	}{{4, 24 * time.Hour}, {4, 2 * time.Hour}, {1, 6 * time.Hour}} {
		t.Run(fmt.Sprint(c.partitions, c.grace), func(t *testing.T) {
			o := options(t)
			o.NewEngine, o.Partitions, o.Grace = NewApp, c.partitions, c.grace
			s, err := Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			newOracle(t, "data", c.grace, int(c.partitions)).check(t, o.OutDir, s)
		})
	}
}

// yearEnv names a directory with the flights of the whole year, to be tried by hand.
const yearEnv = "MILLRACE_FLIGHTS"

func TestApp_wholeYear(t *testing.T) {
	dir := os.Getenv(yearEnv)
	if dir == "" {
		t.Skipf("%s=DIR runs the whole year", yearEnv)
	}
	d, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	o := options(t)
	o.NewEngine, o.Data = NewApp, d
	s, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	newOracle(t, dir, o.Grace, 4).check(t, o.OutDir, s)
}

// stopHalfWay starts a run in a process of its own, ends it with a signal once half of the flights are processed, and runs the
// rest here, on the same cluster and state.
func stopHalfWay(t *testing.T, brokers []string, grace time.Duration, atLeastOnce bool, signal syscall.Signal) (dir string, s Summary) {
	t.Helper()
	o := options(t)
	o.NewEngine, o.Grace, o.AtLeastOnce = NewApp, grace, atLeastOnce
	o.Brokers, o.StateDir = brokers, filepath.Join(t.TempDir(), "state")
	c := startChild(t, childSpec{
		Brokers: o.Brokers, Run: true, Rate: 2000, StateDir: o.StateDir, Grace: grace, AtLeastOnce: atLeastOnce,
	})
	admin := kadm.NewClient(connect(t, o.Brokers))
	processed := int64(0)
	for settled := false; processed < 11000 || !settled; {
		if t.Context().Err() != nil {
			t.Fatal("the child does not get on")
		}
		commits, err := admin.FetchOffsets(t.Context(), ApplicationID)
		if err != nil {
			continue // no such group yet
		}
		processed = 0
		for _, o := range commits[FlightsTopic] {
			processed += max(o.At, 0)
		}
		settled = !atLeastOnce || planesSettled(t, admin, commits)
	}
	c.end(signal)
	t.Logf("stopped after %d flights", processed)
	s, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return o.OutDir, s
}

// planesSettled tells whether all planes, and what follows from them, are processed. Under at-least-once a crash in the midst of
// it may keep the changelog record of a table's row and lose what the row was to send on, as in Kafka Streams; then a group of
// the table never counts it. So a kill waits for it.
func planesSettled(t *testing.T, admin *kadm.Client, commits kadm.OffsetResponses) bool {
	t.Helper()
	topics := []string{PlanesTopic}
	for _, name := range []string{"planes-by-maker-repartition", "planes-made-subscription-registration-topic", "planes-made-subscription-response-topic"} {
		topics = append(topics, ApplicationID+"-"+name)
	}
	ends, err := admin.ListEndOffsets(t.Context(), topics...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return false // not there yet
	}
	settled := true
	ends.Each(func(end kadm.ListedOffset) {
		c, ok := commits.Lookup(end.Topic, end.Partition)
		settled = settled && (end.Offset == 0 || ok && c.At >= end.Offset)
	})
	return settled
}

// On both brokers: after a clean stop everything is as if there had been none.
func TestApp_goesOnAfterACleanStop(t *testing.T) {
	const grace = 2 * time.Hour
	eachBroker(t, func(t *testing.T, brokers []string) {
		dir, s := stopHalfWay(t, brokers, grace, false, syscall.SIGTERM)
		oracle := newOracle(t, "data", grace, 4)
		if s.Dropped < 1 || s.Dropped >= int64(len(oracle.late)) {
			t.Errorf("the second run dropped %d late records, want some of %d", s.Dropped, len(oracle.late))
		}
		s.Dropped = int64(len(oracle.late)) // of both runs
		oracle.check(t, dir, s)
	})
}

// On both brokers: after a SIGKILL everything is as if there had been none.
func TestApp_goesOnAfterSIGKILL(t *testing.T) {
	const grace = 2 * time.Hour
	eachBroker(t, func(t *testing.T, brokers []string) {
		dir, s := stopHalfWay(t, brokers, grace, false, syscall.SIGKILL)
		oracle := newOracle(t, "data", grace, 4)
		if s.Dropped < 1 || s.Dropped >= int64(len(oracle.late)) {
			t.Errorf("the second run dropped %d late records, want some of %d", s.Dropped, len(oracle.late))
		}
		s.Dropped = int64(len(oracle.late)) // what the run that was killed had counted is gone with it
		oracle.check(t, dir, s)
	})
}

// On both brokers: under at-least-once nothing is lost after a SIGKILL, and late is what is late in an undisturbed run.
func TestApp_goesOnAfterSIGKILL_atLeastOnce(t *testing.T) {
	const grace = 2 * time.Hour
	eachBroker(t, func(t *testing.T, brokers []string) {
		dir, s := stopHalfWay(t, brokers, grace, true, syscall.SIGKILL)
		newOracle(t, "data", grace, 4).checkAtLeast(t, dir, s)
	})
}

// eachBroker runs a test on the embedded broker and on Apache Kafka. The demo's topics have fixed names, so each test gets a
// cluster of its own.
func eachBroker(t *testing.T, test func(t *testing.T, brokers []string)) {
	t.Run("embedded", func(t *testing.T) { test(t, startBroker(t)) })
	t.Run("kafka", func(t *testing.T) {
		test(t, kafkatest.Start(t, kafkatest.Options{Config: kafkatest.QuickCleaner()}).Bootstrap())
	})
}

// On Kafka's default retention every topic of the demo would lose its records of 2013.
func TestApp_itsTopicsKeepTheirRecords(t *testing.T) {
	o := options(t)
	part := *o.Data
	part.Flights = part.Flights[:500]
	o.Data, o.NewEngine = &part, NewApp
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	admin := kadm.NewClient(connect(t, o.Brokers))
	topics, err := admin.ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	configs, err := admin.DescribeTopicConfigs(t.Context(), topics.Names()...)
	if err != nil {
		t.Fatal(err)
	}
	internal := 0
	for _, topic := range configs {
		set := map[string]string{}
		for _, c := range topic.Configs {
			set[c.Key] = c.MaybeValue()
		}
		if strings.HasPrefix(topic.Name, ApplicationID) {
			internal++
		}
		var retention int64
		if _, err := fmt.Sscan(set["retention.ms"], &retention); err != nil {
			t.Fatal(err)
		}
		if set["cleanup.policy"] != "compact" && retention != -1 && retention < keepWindows.Milliseconds() {
			t.Errorf("%s has cleanup.policy=%s and retention.ms=%d", topic.Name, set["cleanup.policy"], retention)
		}
	}
	if internal < 5 {
		t.Errorf("only %d internal topics in %v", internal, topics.Names())
	}
}

// A state directory belongs to one cluster: a new embedded broker is another one.
func TestApp_refusesTheStateOfAnotherCluster(t *testing.T) {
	o := options(t)
	part := *o.Data
	part.Flights = part.Flights[:100]
	o.Data, o.NewEngine, o.StateDir = &part, NewApp, filepath.Join(t.TempDir(), "state")
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	o.Brokers = startBroker(t)
	_, err := Run(t.Context(), o)
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{o.StateDir, "cluster"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
	t.Log(err)
}
