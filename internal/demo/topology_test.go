package demo

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
)

func buildTopology(t *testing.T, grace time.Duration) *millrace.Topology {
	t.Helper()
	topology, err := Topology(grace)
	if err != nil {
		t.Fatal(err)
	}
	return topology
}

func TestTopology_comesToWhatThePlainPassFinds(t *testing.T) {
	for _, c := range []struct {
		partitions int32
		grace      time.Duration
		options    []milltest.Option
	}{
		{4, 2 * time.Hour, []milltest.Option{milltest.CacheBytes(1 << 16)}},
		{1, 6 * time.Hour, nil},
	} {
		t.Run(fmt.Sprint(c.partitions, c.grace), func(t *testing.T) {
			in := someInputs(t, 0, c.partitions)
			options := append([]milltest.Option{milltest.Partitions(int(c.partitions)), milltest.ManualCommit()}, c.options...)
			d := milltest.New(t, buildTopology(t, c.grace), options...)
			pipe := func(topic *input, n int) {
				r, err := topic.rows[n].record(topic.name)
				if err != nil {
					t.Fatal(err)
				}
				if err := d.PipeRaw(topic.name, r.Partition, r.Key, r.Value, nil, time.Duration(r.Timestamp.UnixNano())); err != nil {
					t.Fatal(err)
				}
			}
			for _, topic := range in.tables() {
				for n := range topic.rows {
					pipe(topic, n)
				}
			}
			for i, next := range in.live {
				pipe(next.in, next.n)
				if i%1000 == 0 {
					d.Commit()
				}
			}
			for range 6 { // what a commit flushes out of one cache goes into the next
				d.Commit()
			}

			dir := t.TempDir()
			totals := writeDriverOutputs(t, d, dir)
			s := Summary{
				Fed: in.Total(FlightsTopic), Late: totals[DeparturesLateTopic],
				Dropped: d.Dropped(PlanesByHourTopic, millrace.DroppedLate),
			}
			for p := range in.Partitions {
				s.Departed += in.Departed(p, s.Fed)
			}
			s.Counted = s.Departed - s.Late
			for _, topic := range DerivedTopics() {
				s.Topics = append(s.Topics, TopicRecords{topic.Name, totals[topic.Name]})
			}
			newOracle(t, "data", c.grace, int(c.partitions)).check(t, dir, s)
		})
	}
}

// writeDriverOutputs writes the derived topics of a driver as a run does.
func writeDriverOutputs(t *testing.T, d *milltest.Driver, dir string) map[string]int64 {
	t.Helper()
	totals := map[string]int64{}
	for _, topic := range DerivedTopics() {
		file, err := newOutFile(filepath.Join(dir, topic.Name+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		records := d.ReadRaw(topic.Name)
		slices.SortStableFunc(records, func(a, b milltest.Raw) int { return int(a.Partition - b.Partition) })
		for _, r := range records {
			o, err := decodeOutput(topic, &kgo.Record{Key: r.Key, Value: r.Value, Timestamp: time.UnixMilli(r.TimestampMs),
				Partition: r.Partition})
			if err == nil {
				err = file.write(o.line())
			}
			if err != nil {
				t.Fatal(err)
			}
			totals[topic.Name]++
		}
		if err := file.finish(nil); err != nil {
			t.Fatal(err)
		}
	}
	return totals
}
