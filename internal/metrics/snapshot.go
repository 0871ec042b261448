package metrics

import (
	"cmp"
	"maps"
	"slices"

	"github.com/millrace-io/millrace/processor"
)

// Snapshot is what a Registry held at one time. Each counter in it is exact; between two counters records may have been
// processed. It belongs to its reader.
type Snapshot struct {
	// Drops are the records dropped or noted, summed over tasks, sorted by step, reason and topic.
	Drops []Drop
	// Counters are the counters, summed over tasks, closed ones included, sorted by name.
	Counters []Value
	// Gauges are the gauges, put together over open tasks, sorted by name.
	Gauges []Value
	// Tasks are the open tasks, sorted by id.
	Tasks []TaskSnapshot
}

// Drop is the number of records that a step dropped or noted for a reason.
type Drop struct {
	Step   string
	Reason Reason
	Topic  string // empty where the step does not tell topics apart
	Count  int64
}

// Value is the value of a counter or gauge.
type Value struct {
	Name  Name
	Value int64
}

// TaskSnapshot holds what one task has counted since it was opened.
type TaskSnapshot struct {
	Task     processor.TaskID
	Drops    []Drop
	Counters []Value
	Gauges   []Value
}

// Snapshot reads all counters. Its order depends on names alone, so two of equal content are equal.
func (r *Registry) Snapshot() Snapshot {
	r.mu.Lock()
	tasks := slices.Collect(maps.Values(r.tasks))
	// Under the lock, so that no task goes from open to closed in between and is counted twice or not at all.
	parts := []contents{r.app.read(), r.closed.read()}
	out := Snapshot{}
	for _, t := range tasks {
		c := t.read()
		parts = append(parts, c)
		out.Tasks = append(out.Tasks, TaskSnapshot{Task: t.id, Drops: sortedDrops(c.drops), Counters: sortedValues(c.counters), Gauges: sortedValues(c.gauges)})
	}
	r.mu.Unlock()
	sum := contents{drops: make(map[dropKey]int64), counters: make(map[Name]int64), gauges: make(map[Name]int64)}
	for _, p := range parts {
		for k, n := range p.drops {
			sum.drops[k] += n
		}
		for k, n := range p.counters {
			sum.counters[k] += n
		}
		for k, n := range p.gauges {
			if old, ok := sum.gauges[k]; ok {
				n = k.merge(old, n)
			}
			sum.gauges[k] = n
		}
	}
	out.Drops, out.Counters, out.Gauges = sortedDrops(sum.drops), sortedValues(sum.counters), sortedValues(sum.gauges)
	slices.SortFunc(out.Tasks, func(a, b TaskSnapshot) int {
		return cmp.Or(cmp.Compare(a.Task.Subtopology, b.Task.Subtopology), cmp.Compare(a.Task.Partition, b.Task.Partition))
	})
	return out
}

type contents struct {
	drops    map[dropKey]int64
	counters map[Name]int64
	gauges   map[Name]int64
}

func (p *part) read() contents {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := contents{drops: make(map[dropKey]int64, len(p.drops)), counters: make(map[Name]int64, len(p.counters)), gauges: make(map[Name]int64, len(p.gauges))}
	for k, v := range p.drops {
		c.drops[k] = v.Value()
	}
	for k, v := range p.counters {
		c.counters[k] = v.Value()
	}
	for k, v := range p.gauges {
		c.gauges[k] = v.Value()
	}
	return c
}

func sortedDrops(m map[dropKey]int64) []Drop {
	var out []Drop
	for k, n := range m {
		out = append(out, Drop{Step: k.step, Reason: k.reason, Topic: k.topic, Count: n})
	}
	slices.SortFunc(out, func(a, b Drop) int {
		return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Topic, b.Topic))
	})
	return out
}

func sortedValues(m map[Name]int64) []Value {
	var out []Value
	for k, n := range m {
		out = append(out, Value{Name: k, Value: n})
	}
	slices.SortFunc(out, func(a, b Value) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Dropped returns how many records a step has dropped or noted for a reason, over all topics.
func (s Snapshot) Dropped(step string, reason Reason) int64 {
	return sumDrops(s.Drops, func(d Drop) bool { return d.Step == step && d.Reason == reason })
}

// ByReason returns how many records all steps have dropped or noted for a reason.
func (s Snapshot) ByReason(reason Reason) int64 {
	return sumDrops(s.Drops, func(d Drop) bool { return d.Reason == reason })
}

// TotalDropped returns how many drops there were. (A record that missed two windows counts twice.)
//
// In Kafka Streams: dropped-records-total, summed over tasks.
func (s Snapshot) TotalDropped() int64 {
	return sumDrops(s.Drops, func(d Drop) bool { return d.Reason.IsDrop() })
}

func sumDrops(drops []Drop, which func(Drop) bool) int64 {
	var n int64
	for _, d := range drops {
		if which(d) {
			n += d.Count
		}
	}
	return n
}

// Counter returns a counter's value, 0 if nobody has it.
func (s Snapshot) Counter(name Name) int64 { return find(s.Counters, name) }

// Gauge returns a gauge's value, 0 if nobody has it.
func (s Snapshot) Gauge(name Name) int64 { return find(s.Gauges, name) }

func find(values []Value, name Name) int64 {
	for _, v := range values {
		if v.Name == name {
			return v.Value
		}
	}
	return 0
}
