//go:build synctests

package sim_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
)

// Each key of the input counts 1, 2, 3, ... From it come a copy, a running count and sum of each key, and a count of each
// group of keys behind a repartition topic. So every result is known beforehand.
const (
	inTopic      = "in"
	copyTopic    = "copy"
	runningTopic = "running"
	groupTopic   = "groups"
	groupNumber  = 3
)

var workTopics = []string{inTopic, copyTopic, runningTopic, groupTopic}

// running is what a key has come to.
type running struct{ Last, Count, Sum int64 }

// workload feeds the input and knows what comes of it.
type workload struct {
	keys int
	// slow says how long a record takes, the first time that it is processed.
	slow map[string]time.Duration

	mu    sync.Mutex
	next  map[string]int64 // the next number of each key
	fed   int
	group map[string]int64 // records of each group
	met   map[string]bool  // slow records that were met
	calls map[string]int   // how often each record was processed
}

func newWorkload(keys int) *workload {
	return &workload{keys: keys, slow: make(map[string]time.Duration), next: make(map[string]int64), group: make(map[string]int64),
		met: make(map[string]bool), calls: make(map[string]int)}
}

func recordName(key string, n int64) string { return fmt.Sprint(key, ":", n) }

func groupOf(key string) string {
	h := fnv.New32()
	h.Write([]byte(key))
	return fmt.Sprint("g", h.Sum32()%groupNumber)
}

// process is the user's function through which each record of the input goes.
func (w *workload) process(key string, n int64) int64 {
	name := recordName(key, n)
	w.mu.Lock()
	w.calls[name]++
	d := w.slow[name]
	if w.met[name] {
		d = 0
	}
	w.met[name] = true
	w.mu.Unlock()
	if d > 0 {
		time.Sleep(d)
	}
	return n
}

func (w *workload) topology() (*millrace.Topology, error) {
	b := millrace.NewBuilder()
	in := millrace.MapValuesWithKey(millrace.From(b, millrace.NewTopic(inTopic, serde.String, serde.Int64)), w.process)
	in.To(millrace.NewTopic(copyTopic, serde.String, serde.Int64))
	millrace.Aggregate(in.GroupByKey(), func() running { return running{} }, func(_ string, n int64, a running) running {
		return running{Last: n, Count: a.Count + 1, Sum: a.Sum + n}
	}, serde.JSON[running](), millrace.As("running")).ToStream().To(millrace.NewTopic(runningTopic, serde.String, serde.JSON[running]()))
	millrace.Count(millrace.GroupBy(in, func(key string, _ int64) string { return groupOf(key) }, millrace.WithKey(serde.String),
		millrace.WithValue(serde.Int64)), millrace.As("group-counts")).
		ToStream().To(millrace.NewTopic(groupTopic, serde.String, serde.Int64))
	return b.Build()
}

// feed writes n records and waits for them.
func (w *workload) feed(ctx context.Context, cl *kgo.Client, n int) error {
	rs := make([]*kgo.Record, 0, n)
	w.mu.Lock()
	for range n {
		key := fmt.Sprint("key-", w.fed%w.keys)
		w.fed++
		w.next[key]++
		w.group[groupOf(key)]++
		v, err := serde.Int64.Append(nil, w.next[key])
		if err != nil {
			w.mu.Unlock()
			return err
		}
		rs = append(rs, &kgo.Record{Topic: inTopic, Key: []byte(key), Value: v})
	}
	w.mu.Unlock()
	return cl.ProduceSync(ctx, rs...).FirstErr()
}

// oracle reads what Apps write, in order, and knows what is right.
type oracle struct {
	w         *workload
	exactly   bool
	mu        sync.Mutex
	copied    map[string]int64 // the highest number of each key
	running   map[string]running
	groups    map[string]int64
	next      map[string]map[int32]int64 // by topic and partition, the offset to be read next
	doubled   int
	faults    []error
	lastMove  time.Time
	totalSeen int
}

func newOracle(w *workload, exactly bool) *oracle {
	return &oracle{w: w, exactly: exactly, copied: make(map[string]int64), running: make(map[string]running), groups: make(map[string]int64),
		next: make(map[string]map[int32]int64), lastMove: time.Now()}
}

func (o *oracle) fault(format string, args ...any) {
	o.faults = append(o.faults, fmt.Errorf(format, args...))
}

// take takes the next record of its partition.
func (o *oracle) take(r *kgo.Record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.next[r.Topic] == nil {
		o.next[r.Topic] = make(map[int32]int64)
	}
	if r.Offset < o.next[r.Topic][r.Partition] {
		return // the reader has begun anew when a leader had moved
	}
	o.next[r.Topic][r.Partition] = r.Offset + 1
	key, at := string(r.Key), fmt.Sprintf("%s-%d at %d", r.Topic, r.Partition, r.Offset)
	o.lastMove = time.Now()
	o.totalSeen++
	switch r.Topic {
	case copyTopic:
		n, err := serde.Int64.Decode(r.Value)
		if err != nil {
			o.fault("%s: %v", at, err)
			return
		}
		o.step(at+", "+key, o.copied[key], n)
		o.copied[key] = max(o.copied[key], n)
	case runningTopic:
		var v running
		if err := json.Unmarshal(r.Value, &v); err != nil {
			o.fault("%s: %v", at, err)
			return
		}
		had := o.running[key]
		o.step(at+", "+key, had.Last, v.Last)
		if want := (running{v.Last, v.Last, v.Last * (v.Last + 1) / 2}); o.exactly && v != want {
			o.fault("%s, %s: %+v, want %+v", at, key, v, want)
		}
		if v.Last >= had.Last {
			o.running[key] = v
		}
	case groupTopic:
		n, err := serde.Int64.Decode(r.Value)
		if err != nil {
			o.fault("%s: %v", at, err)
			return
		}
		// A crash after a changelog record and before the result that goes with it counts the record twice under at-least-once, and
		// the results skip a number.
		if o.exactly {
			o.step(at+", "+key, o.groups[key], n)
		}
		o.groups[key] = max(o.groups[key], n)
	}
}

// step checks a number that goes up by one, or comes again under at-least-once.
func (o *oracle) step(at string, had, now int64) {
	switch {
	case now == had+1:
	case now <= had && !o.exactly:
		o.doubled++
	case now <= had:
		o.fault("%s: %d comes again after %d", at, now, had)
	default:
		o.fault("%s: %d comes after %d: something is lost", at, now, had)
	}
}

// err is what was wrong so far.
func (o *oracle) err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return errors.Join(o.faults[:min(len(o.faults), 10)]...)
}

// complete tells whether everything that was fed has come out.
func (o *oracle) complete() bool {
	return o.missing() == ""
}

// missing says what has not come out yet.
func (o *oracle) missing() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.w.mu.Lock()
	defer o.w.mu.Unlock()
	for key, next := range o.w.next {
		if n := o.copied[key]; n < next {
			return fmt.Sprintf("%s: copied up to %d of %d", key, n, next)
		}
		if v := o.running[key]; v.Last < next || v.Count < next {
			return fmt.Sprintf("%s: counted up to %+v of %d", key, v, next)
		}
	}
	for g, all := range o.w.group {
		if n := o.groups[g]; n < all {
			return fmt.Sprintf("group %s: counted up to %d of %d", g, n, all)
		}
	}
	return ""
}

// follow reads the results until the context ends.
func (o *oracle) follow(ctx context.Context, cl *kgo.Client) {
	for ctx.Err() == nil {
		cl.PollFetches(ctx).EachRecord(o.take)
	}
}
