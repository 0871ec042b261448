package milltest_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/processor"

	gocmp "github.com/google/go-cmp/cmp"
)

// check runs a plan with the engine and in the model, and returns what differs; empty: nothing.
func (p plan) check(kinds []stepKind, settled bool) (fault string) {
	w := declare(p, kinds, settled)
	topology, err := w.b.Build()
	if err != nil {
		return fmt.Sprintf("build: %v", err)
	}
	opts := []milltest.Option{milltest.Partitions(p.drive.partitions), milltest.CacheBytes(p.drive.cacheBytes), milltest.ReadCacheBytes(p.drive.readCache)}
	if p.drive.onDisk {
		opts = append(opts, milltest.OnDisk())
	}
	if p.drive.manual {
		opts = append(opts, milltest.ManualCommit())
	}
	d, err := milltest.NewDriver(topology, opts...)
	if err != nil {
		return fmt.Sprintf("open: %v", err)
	}
	defer func() {
		if r := recover(); r != nil { // a driver outside of a test says so that the topology has failed
			fault = fmt.Sprintf("failed: %v", r)
		}
		if err := d.Close(); err != nil && fault == "" {
			fault = fmt.Sprintf("close: %v", err)
		}
	}()
	for _, e := range p.events {
		if err := w.happen(d, e); err != nil {
			return fmt.Sprintf("%s: %v", e.topic, err)
		}
	}
	if settled {
		return w.compareSettled(d)
	}
	return w.compare(d)
}

// happen lets an event happen to both.
func (w *world) happen(d *milltest.Driver, e planEvent) error {
	switch e.what {
	case "":
		if !slices.Contains(w.inputs(), e.topic) {
			return nil
		}
		err := milltest.InputNamed(d, e.topic, topicNamed(e.topic)).TryPipe(processor.Record[string, string]{
			Key: e.record.key, NullKey: e.record.nullKey, Value: e.record.value, NullValue: e.record.nullValue, TimestampMs: e.record.tsMs,
		})
		w.m.pipe(e.topic, e.record)
		return err
	case "commit":
		d.Commit()
	case "minute":
		d.AdvanceTime(time.Minute) // so that what is on disk follows
	case "restart":
		commitAll(d)
		return d.Restart()
	case "crash":
		if !w.again {
			commitAll(d)
		}
		return d.Restart()
	default:
		return errors.New("no such event: " + e.what)
	}
	return nil
}

func (w *world) inputs() []string {
	return slices.DeleteFunc(slices.Collect(maps.Keys(w.m.topics)), func(name string) bool { return strings.HasPrefix(name, "test-") })
}

// compare compares every record that came out, late ones among them, and what each step has dropped.
func (w *world) compare(d *milltest.Driver) string {
	var faults []string
	for _, name := range w.outputs {
		var got []string
		for _, r := range d.ReadRaw(name) {
			got = append(got, rawText(r))
		}
		if diff := gocmp.Diff(w.m.out[name], got); diff != "" {
			faults = append(faults, fmt.Sprintf("%s, -model +millrace:\n%s", name, diff))
		}
	}
	drops := slices.SortedFunc(maps.Keys(w.m.dropped), func(a, b modelDrop) int {
		return cmp.Or(cmp.Compare(a.step, b.step), cmp.Compare(a.reason, b.reason))
	})
	for _, x := range drops {
		if got, want := d.Dropped(x.step, millrace.DropReason(x.reason)), w.m.dropped[x]; got != want {
			faults = append(faults, fmt.Sprintf("%s has dropped %d records (%s), the model %d", x.step, got, x.reason, want))
		}
	}
	return strings.Join(faults, "\n")
}

// compareSettled compares the last value of each key of each table, and what is in each stream, once nothing waits any more.
func (w *world) compareSettled(d *milltest.Driver) string {
	commitAll(d)
	var faults []string
	for _, name := range w.outputs {
		if slices.Contains(w.pairs, name) {
			var got []string
			for _, r := range d.ReadRaw(name) {
				got = append(got, rawText(r))
			}
			slices.Sort(got)
			want := slices.Sorted(slices.Values(w.m.out[name]))
			if w.again { // processed again after a crash
				got, want = slices.Compact(got), slices.Compact(want)
			}
			if diff := gocmp.Diff(want, got); diff != "" {
				faults = append(faults, fmt.Sprintf("%s, -model +millrace:\n%s", name, diff))
			}
			continue
		}
		want, got := make(map[string]string), make(map[string]string)
		for _, text := range w.m.out[name] {
			rest, _, _ := cutLast(text, "@")
			key, value, _ := strings.Cut(rest, "=")
			want[key] = value
		}
		for _, r := range d.ReadRaw(name) {
			value := string(r.Value)
			if r.Value == nil {
				value = "~"
			}
			got[string(r.Key)] = value
		}
		gone := func(_, v string) bool { return v == "~" }
		maps.DeleteFunc(want, gone)
		maps.DeleteFunc(got, gone)
		if diff := gocmp.Diff(want, got); diff != "" {
			faults = append(faults, fmt.Sprintf("last values of %s, -model +millrace:\n%s", name, diff))
		}
	}
	return strings.Join(faults, "\n")
}

func cutLast(s, sep string) (before, after string, ok bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

func rawText(r milltest.Raw) string {
	return modelRecord{key: string(r.Key), value: string(r.Value), nullKey: r.Key == nil, nullValue: r.Value == nil, tsMs: r.TimestampMs}.String()
}

// commitAll commits until nothing is left: each commit flushes the caches of one more step of a chain, and what comes out is for
// the next commit.
func commitAll(d *milltest.Driver) {
	for range 8 {
		d.Commit()
	}
}
