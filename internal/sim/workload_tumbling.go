package sim

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

const (
	windowMs = 1_000
	graceMs  = 300
)

func tenths() window.Windows {
	return window.Tumbling(windowMs * time.Millisecond).Grace(graceMs * time.Millisecond)
}

func windowKey() serde.Serde[window.Key[string]] {
	return serde.Windowed(serde.String, windowMs*time.Millisecond)
}

// Windows counts records in windows, and sends those that come too late elsewhere. Whether a record is late follows from the
// records before it alone: restarts and moves must not change it.
func Windows() Workload {
	return Workload{
		Name:    "windows",
		Inputs:  []Topic{{"ticks", partitions}},
		Outputs: []Topic{{"counts", partitions}, {"late", partitions}},
		Topology: func(v Variant) (*millrace.Topology, error) {
			b := millrace.NewBuilder()
			counts, late := countTicks(b, v)
			counts.ToStream().To(millrace.NewTopic("counts", windowKey(), serde.Int64))
			late.To(millrace.NewTopic("late", serde.String, serde.JSON[window.Late[string]]()))
			return b.Build()
		},
		NewFeed:   func(rng *rand.Rand) Feed { return newTicks(rng) },
		NewOracle: func(e Expectation) Oracle { return newWindowsOracle(e, false) },
	}
}

// Closed sends each window once, when it has closed, and the late records elsewhere.
func Closed() Workload {
	return Workload{
		Name:    "closed",
		Inputs:  []Topic{{"ticks", partitions}},
		Outputs: []Topic{{"counts", partitions}, {"late", partitions}},
		Topology: func(v Variant) (*millrace.Topology, error) {
			b := millrace.NewBuilder()
			counts, late := countTicks(b, v)
			counts.Suppress(millrace.UntilWindowCloses(millrace.Unbounded()), millrace.As("held")).ToStream().
				To(millrace.NewTopic("counts", windowKey(), serde.Int64))
			late.To(millrace.NewTopic("late", serde.String, serde.JSON[window.Late[string]]()))
			return b.Build()
		},
		NewFeed:   func(rng *rand.Rand) Feed { return newTicks(rng) },
		NewOracle: func(e Expectation) Oracle { return newWindowsOracle(e, true) },
	}
}

func countTicks(b *millrace.Builder, v Variant) (millrace.Table[window.Key[string], int64], millrace.Stream[string, window.Late[string]]) {
	in := millrace.From(b, millrace.NewTopic("ticks", serde.String, serde.String))
	return millrace.AggregateWindows(in.GroupByKey().WindowBy(tenths()), func() int64 { return 0 }, func(_, _ string, n int64) int64 {
		v.inside()
		return n + 1
	}, serde.Int64, v.options("ticks")...)
}

// ticks feeds numbered records whose times go forward and, now and then, far back.
type ticks struct {
	rng  *rand.Rand
	next map[string]int64
	atMs [partitions]int64
}

func newTicks(rng *rand.Rand) *ticks {
	return &ticks{rng: rng, next: make(map[string]int64), atMs: [partitions]int64{startMs, startMs}}
}

// Next implements Feed.
func (f *ticks) Next() Input {
	p := f.rng.Int32N(partitions)
	f.atMs[p] += f.rng.Int64N(windowMs / 3)
	at := f.atMs[p]
	if f.rng.IntN(4) == 0 {
		at -= f.rng.Int64N(3 * windowMs)
	}
	return f.make(p, keyOf(p, f.rng.IntN(keysEach)), at)
}

// Last implements Feed: of each key a record for a window that has closed, and one that closes all windows.
func (f *ticks) Last() []Input {
	var all []Input
	for p := range int32(partitions) {
		for i := range keysEach {
			all = append(all, f.make(p, keyOf(p, i), f.atMs[p]-3*windowMs))
		}
		f.atMs[p] += 10 * windowMs
		all = append(all, f.make(p, keyOf(p, 0), f.atMs[p]))
	}
	return all
}

func (f *ticks) make(p int32, key string, atMs int64) Input {
	n := f.next[key]
	f.next[key]++
	return Input{Topic: "ticks", Partition: p, Key: []byte(key), Value: strconv.AppendInt(nil, n, 10), TimestampMs: atMs}
}

// cell is a window of a key.
type cell struct {
	key     string
	startMs int64
}

func (c cell) String() string { return fmt.Sprintf("key %s, window of %d", c.key, c.startMs) }

// windowsOracle does the arithmetic of the windows once more, record by record.
type windowsOracle struct {
	Expectation
	closed   bool // windows are sent when they have closed, and not before
	observed [partitions]int64
	counts   map[cell]int64      // what was fed in time
	late     map[string][]string // numbers that were fed too late, by key
	seen     map[cell]int64
	seenLate map[string][]string
	answered [partitions]int64
}

func newWindowsOracle(e Expectation, closed bool) *windowsOracle {
	return &windowsOracle{
		Expectation: e, closed: closed, counts: make(map[cell]int64), late: make(map[string][]string),
		seen: make(map[cell]int64), seenLate: make(map[string][]string),
	}
}

// Fed implements Oracle.
func (o *windowsOracle) Fed(in Input) {
	p, key := in.Partition, string(in.Key)
	o.observed[p] = max(o.observed[p], in.TimestampMs)
	start := in.TimestampMs - in.TimestampMs%windowMs
	if start+windowMs+graceMs <= o.observed[p] {
		o.late[key] = append(o.late[key], string(in.Value))
		return
	}
	o.counts[cell{key, start}]++
}

// Result implements Oracle.
func (o *windowsOracle) Result(r Result) error {
	if r.Topic == "late" {
		return o.lateResult(r)
	}
	k, err := windowKey().Decode(r.Key)
	if err != nil {
		return err
	}
	n, err := serde.Int64.Decode(r.Value)
	if err != nil {
		return err
	}
	p, err := partitionOf(k.Key)
	if err != nil {
		return err
	}
	c := cell{k.Key, k.Window.StartMs}
	last, all := o.seen[c], o.counts[c]
	o.seen[c] = max(last, n)
	o.answered[p] += max(0, n-last)
	switch {
	case !o.Exactly:
		return nil
	case n > all:
		return fmt.Errorf("%v: the count is %d, %d records were fed in time: some have counted twice, or after it had closed", c, n, all)
	case o.closed && last != 0:
		return fmt.Errorf("%v: it was sent before with %d, and comes again with %d", c, last, n)
	case o.closed && n != all:
		return fmt.Errorf("%v: it is sent with %d, %d records were fed in time", c, n, all)
	case o.closed && c.startMs+windowMs+graceMs > o.observed[p]:
		return fmt.Errorf("%v: it is sent before it has closed", c)
	case n <= last:
		return fmt.Errorf("%v: the count %d comes after %d: it is doubled, or out of order", c, n, last)
	case n != last+1 && !o.Cached && !o.closed:
		return fmt.Errorf("%v: the count %d comes after %d: results are missing", c, n, last)
	}
	return nil
}

func (o *windowsOracle) lateResult(r Result) error {
	var l window.Late[string]
	if err := json.Unmarshal(r.Value, &l); err != nil {
		return err
	}
	key := string(r.Key)
	p, err := partitionOf(key)
	if err != nil {
		return err
	}
	seen, want := o.seenLate[key], o.late[key]
	if !o.Exactly {
		if !slices.Contains(want, l.Value) {
			return fmt.Errorf("key %s: record %s is sent as late, and was in time", key, l.Value)
		}
		if !slices.Contains(seen, l.Value) {
			o.seenLate[key] = append(seen, l.Value)
		}
		return nil
	}
	if len(seen) >= len(want) || want[len(seen)] != l.Value {
		return fmt.Errorf("key %s: record %s is sent as late; late are %v, of which %d came before", key, l.Value, want, len(seen))
	}
	o.seenLate[key] = append(seen, l.Value)
	o.answered[p]++
	return nil
}

// Complete implements Oracle.
func (o *windowsOracle) Complete() error {
	var errs []error
	cells := slices.SortedFunc(maps.Keys(o.counts), func(a, b cell) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.startMs, b.startMs))
	})
	for _, c := range cells {
		p, err := partitionOf(c.key)
		if err != nil {
			return err
		}
		if o.closed && c.startMs+windowMs+graceMs > o.observed[p] {
			continue
		}
		if n := o.counts[c]; o.seen[c] < n {
			errs = append(errs, fmt.Errorf("%v: %d records were fed in time, the last count is %d", c, n, o.seen[c]))
		}
	}
	for _, k := range allKeys() {
		if len(o.seenLate[k]) < len(o.late[k]) {
			errs = append(errs, fmt.Errorf("key %s: late are %v, %d of them were sent", k, o.late[k], len(o.seenLate[k])))
		}
	}
	return errors.Join(errs...)
}

// Answered implements Oracle.
func (o *windowsOracle) Answered(_ string, partition int32) (int64, bool) {
	return o.answered[partition], o.Exactly && !o.Cached && !o.closed
}
