package conformance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/milltest"
)

// replay feeds the input of a vector to the scenario's topology, and returns what came out in the form of a vector. opts say
// where its stores are.
func (s *scenario) replay(v *vector, opts ...milltest.Option) (*vector, error) {
	b := millrace.NewBuilder(s.build...)
	s.declare(b)
	t, err := b.Build()
	if err != nil {
		return nil, fmt.Errorf("the topology does not build: %w", err)
	}
	got := &vector{scenario: v.scenario, seed: v.seed, application: v.application, wallMs: v.wallMs, input: v.input, describe: t.Describe()}
	if got.internal, err = internalTopics(t, v.application); err != nil {
		return nil, err
	}
	opts = slices.Concat([]milltest.Option{
		milltest.ApplicationID(v.application), milltest.CacheBytes(0), milltest.StartAt(time.UnixMilli(v.wallMs)),
	}, opts, s.driver)
	d, err := milltest.NewDriver(t, opts...)
	if err != nil {
		return nil, fmt.Errorf("the driver does not start: %w", err)
	}
	err = got.run(d, v.input)
	if closing := d.Close(); err == nil && closing != nil && got.failure == "" {
		err = fmt.Errorf("closing: %w", closing)
	}
	return got, err
}

// offsetsEvery is after how many steps the vectors tell of committed offsets, and once more at the end.
const offsetsEvery = 50

func (v *vector) run(d *milltest.Driver, input []step) error {
	for i, in := range input {
		if err := v.take(d, in); err != nil {
			v.failure = err.Error()
			v.collect(d, i, in)
			return v.commits(d, i)
		}
		v.collect(d, i, in)
		if (i+1)%offsetsEvery == 0 {
			if err := v.commits(d, i); err != nil {
				return err
			}
		}
	}
	return v.commits(d, len(input)-1)
}

// take takes one step; a panic of the driver is its failure.
func (v *vector) take(d *milltest.Driver, in step) (err error) {
	if in.advanceMs == 0 {
		return d.PipeRaw(in.topic, 0, in.key, in.value, in.headers, time.Duration(in.tsMs)*time.Millisecond)
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	d.JumpTime(time.Duration(in.advanceMs) * time.Millisecond)
	return nil
}

// collect takes what a step has written, topic by topic.
func (v *vector) collect(d *milltest.Driver, i int, in step) {
	for _, topic := range d.Topics() {
		records := d.ReadRaw(topic)
		if in.advanceMs == 0 && topic == in.topic && len(records) > 0 {
			records = records[1:] // the input itself
		}
		for _, r := range records {
			v.output = append(v.output, record{topic: topic, key: r.Key, value: r.Value, tsMs: r.TimestampMs, headers: r.Headers, step: i})
		}
	}
}

// commits reads the metadata of committed offsets, without the entries that Kafka Streams does not know.
func (v *vector) commits(d *milltest.Driver, i int) error {
	for _, topic := range d.Topics() {
		text, ok := d.CommittedMetadata(topic, 0)
		if !ok {
			continue
		}
		m, ok := codec.ParseOffsetMetadata(text)
		if !ok {
			return fmt.Errorf("the metadata %q of the offset of %s has no time", text, topic)
		}
		v.progress = append(v.progress, progress{step: i, topic: topic, timeMs: m.PartitionTimeMs, entries: m.Processor})
	}
	return nil
}

// internalTopics returns the internal topics of a topology, sorted by name.
func internalTopics(t *millrace.Topology, application string) ([]internalTopic, error) {
	graph := t.Internal()
	cluster := make(map[string]int32)
	for _, name := range append(graph.SourceTopics(), graph.GlobalTopics()...) {
		cluster[name] = 1
	}
	for _, name := range graph.InternalTopicNames(application) {
		delete(cluster, name)
	}
	plan, err := graph.Resolve(application, cluster, nil, topology.DefaultResolveConfig())
	if err != nil {
		return nil, err
	}
	var all []internalTopic
	for _, s := range slices.Concat(plan.Repartitions, plan.Changelogs) {
		all = append(all, internalTopic{name: s.Name, configs: maps.Clone(s.Configs), partitions: s.Partitions})
	}
	slices.SortFunc(all, func(a, b internalTopic) int { return strings.Compare(a.name, b.name) })
	return all, nil
}
