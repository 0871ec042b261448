// Package sim proves exactly-once: it runs whole instances of an application through crashes, lost answers, rebalances and
// all other trouble that it can think of, and holds what a reader of committed records sees against answers that are known
// beforehand. docs/simulation.md tells how to play a seed again, and how to add a fault or a workload.
package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/millrace-io/millrace"
)

// Workload is an application whose results follow from its input alone: every intermediate result is known beforehand.
type Workload struct {
	Name    string
	Inputs  []Topic
	Outputs []Topic
	// Topology builds the application. Without a cache each record has its own result.
	Topology func(Variant) (*millrace.Topology, error)
	// NewFeed makes the input, which a seed chooses.
	NewFeed func(*rand.Rand) Feed
	// NewOracle makes what knows the right results.
	NewOracle func(Expectation) Oracle
}

// Topic is a topic that must be there before the application starts.
type Topic struct {
	Name       string
	Partitions int32
}

// Variant is what a workload leaves open about its topology.
type Variant struct {
	InMemory bool // stores in memory instead of on disk
	Cached   bool // results that follow each other quickly are left out
	// Inside is called by the application's own functions, in the middle of a record; nil for nothing. It may take its time.
	Inside func()
}

func (v Variant) inside() {
	if v.Inside != nil {
		v.Inside()
	}
}

// options are those of a step with a store.
func (v Variant) options(name string) []millrace.StepOption {
	opts := []millrace.StepOption{millrace.As(name)}
	if v.InMemory {
		opts = append(opts, millrace.InMemory())
	}
	if !v.Cached {
		opts = append(opts, millrace.WithoutCache())
	}
	return opts
}

// Input is a record of the input.
type Input struct {
	Topic       string
	Partition   int32
	Key, Value  []byte
	TimestampMs int64
}

// Result is a record of an output topic.
type Result struct {
	Topic       string
	Partition   int32
	Key, Value  []byte
	TimestampMs int64
}

// Feed makes records. They must reach their partitions in the order in which they are made.
type Feed interface {
	Next() Input
	// Last makes records that bring to light what the ones before have left in the stores: they are fed when everything else
	// is done, and nothing after them.
	Last() []Input
}

// Expectation is what results are held to.
type Expectation struct {
	// Exactly asks for each result once, in order and right. Otherwise records may have counted more than once, and results
	// may come again; nothing may be missing.
	Exactly bool
	Cached  bool // intermediate results may be left out
}

// Oracle knows the right results.
type Oracle interface {
	// Fed tells of a record that is in the input now. Of each partition they are told in their order.
	Fed(Input)
	// Result takes the next record that a reader of committed records finds in an output partition, in their order.
	Result(Result) error
	// Complete tells what is missing once all that was fed, the feed's last records too, has been processed and committed.
	Complete() error
	// Answered tells how many records of an input partition the results seen so far stand for, if that can be told from them.
	Answered(topic string, partition int32) (n int64, ok bool)
}

// Workloads are all of them.
func Workloads() []Workload {
	return []Workload{Totals(), Relay(), Windows(), Closed(), Enriched(), Sifted()}
}

// FindWorkload finds one by its name.
func FindWorkload(name string) (Workload, error) {
	for _, w := range Workloads() {
		if w.Name == name {
			return w, nil
		}
	}
	return Workload{}, fmt.Errorf("sim: there is no workload %q", name)
}

const (
	partitions = 2 // of each topic
	keysEach   = 3 // of each input partition
	startMs    = 1_000_000
)

// keyNames are the keys of each partition: where a partitioner by hash puts them.
var keyNames = [partitions][keysEach]string{{"blue-apple", "green-pear", "gold-plum"}, {"blue-plum", "green-apple", "gold-pear"}}

// keyOf names a key. Each key belongs to one partition of the input.
func keyOf(partition int32, i int) string { return keyNames[partition][i] }

// partitionOf is the partition that a key belongs to.
func partitionOf(key string) (int32, error) {
	for p, names := range keyNames {
		if slices.Contains(names[:], key) {
			return int32(p), nil
		}
	}
	return 0, fmt.Errorf("the key %q was never fed", key)
}

// allKeys are the keys of the input.
func allKeys() []string {
	var keys []string
	for _, names := range keyNames {
		keys = append(keys, names[:]...)
	}
	return keys
}

// numbers feeds numbered records: the n-th record of a key holds the number n, from 0 on.
type numbers struct {
	topic string
	rng   *rand.Rand
	next  map[string]int64
	atMs  int64
}

func newNumbers(topic string, rng *rand.Rand) *numbers {
	return &numbers{topic: topic, rng: rng, next: make(map[string]int64), atMs: startMs}
}

// Next implements Feed.
func (f *numbers) Next() Input {
	p := f.rng.Int32N(partitions)
	return f.make(p, keyOf(p, f.rng.IntN(keysEach)))
}

// Last implements Feed: one more record of each key, whose results show what the stores hold.
func (f *numbers) Last() []Input {
	var all []Input
	for p := range int32(partitions) {
		for i := range keysEach {
			all = append(all, f.make(p, keyOf(p, i)))
		}
	}
	return all
}

func (f *numbers) make(p int32, key string) Input {
	n := f.next[key]
	f.next[key]++
	f.atMs += f.rng.Int64N(20)
	return Input{Topic: f.topic, Partition: p, Key: []byte(key), Value: strconv.AppendInt(nil, n, 10), TimestampMs: f.atMs}
}

// tally counts what was fed and what was answered, by key and by partition.
type tally struct {
	Expectation
	fed      map[string]int64 // by key
	done     map[string]int64 // by key
	answered map[int32]int64  // by partition of the input
}

func newTally(e Expectation) tally {
	return tally{Expectation: e, fed: make(map[string]int64), done: make(map[string]int64), answered: make(map[int32]int64)}
}

// step takes the count of records that a result of a key stands for. It must follow the one before.
func (t *tally) step(key string, count int64) error {
	p, err := partitionOf(key)
	if err != nil {
		return err
	}
	last := t.done[key]
	switch {
	case !t.Exactly:
		t.done[key] = max(last, count)
	case count > t.fed[key]:
		return fmt.Errorf("key %s: a result stands for %d records, %d were fed: some have counted twice", key, count, t.fed[key])
	case count <= last:
		return fmt.Errorf("key %s: the result of %d records comes after that of %d: it is doubled, or out of order", key, count, last)
	case count != last+1 && !t.Cached:
		return fmt.Errorf("key %s: the result of %d records comes after that of %d: results are missing", key, count, last)
	}
	t.done[key] = max(last, count)
	t.answered[p] += t.done[key] - last
	return nil
}

// complete tells what is missing at the end.
func (t *tally) complete() error {
	var errs []error
	for _, k := range allKeys() {
		if t.done[k] < t.fed[k] || t.Exactly && t.done[k] != t.fed[k] {
			errs = append(errs, fmt.Errorf("key %s: %d records were fed, the last result stands for %d", k, t.fed[k], t.done[k]))
		}
	}
	return errors.Join(errs...)
}
