package sim

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/serde"
)

// Keys lie where they are said to, and the groups of the relay in both partitions.
func TestWorkload_keys(t *testing.T) {
	groups := make(map[int32]bool)
	for p, names := range keyNames {
		for _, key := range names {
			if got := codec.Partition([]byte(key), partitions); got != int32(p) {
				t.Errorf("%s lies in partition %d, want %d", key, got, p)
			}
			groups[codec.Partition([]byte(groupOf(key)), partitions)] = true
		}
	}
	if len(groups) != partitions {
		t.Errorf("the groups lie in %d partitions, want %d", len(groups), partitions)
	}
}

// uninterrupted is what a workload gives when nothing happens to it.
func uninterrupted(t *testing.T, w Workload, v Variant) (fed []Input, results []Result) {
	t.Helper()
	topology, err := w.Topology(v)
	if err != nil {
		t.Fatal(err)
	}
	d := milltest.New(t, topology, milltest.Partitions(partitions))
	pipe := func(in Input) {
		if err := d.PipeRaw(in.Topic, in.Partition, in.Key, in.Value, nil, time.Duration(in.TimestampMs)*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		fed = append(fed, in)
	}
	feed := w.NewFeed(rand.New(rand.NewPCG(1, 1)))
	for range 300 {
		pipe(feed.Next())
	}
	for _, in := range feed.Last() {
		pipe(in)
	}
	for _, o := range w.Outputs {
		out := milltest.Output(d, millrace.NewTopic(o.Name, serde.Bytes, serde.Bytes))
		for _, r := range out.ReadAll() {
			p := codec.Partition(r.Key, partitions)
			if o.Name == "counts" {
				p = codec.Partition(codec.WindowedKeyPart(r.Key), partitions)
			}
			results = append(results, Result{Topic: o.Name, Partition: p, Key: r.Key, Value: r.Value, TimestampMs: r.TimestampMs})
		}
	}
	return fed, results
}

// judge holds results against an oracle.
func judge(w Workload, e Expectation, fed []Input, results []Result) error {
	o := w.NewOracle(e)
	for _, in := range fed {
		o.Fed(in)
	}
	for _, r := range results {
		if err := o.Result(r); err != nil {
			return err
		}
	}
	return o.Complete()
}

// The oracles find an uninterrupted run right, and one that is changed anywhere wrong.
func TestWorkload_oracles(t *testing.T) {
	for _, w := range Workloads() {
		t.Run(w.Name, func(t *testing.T) {
			for _, v := range []Variant{{}, {InMemory: true}, {Cached: true}} {
				fed, results := uninterrupted(t, w, v)
				for _, exactly := range []bool{true, false} {
					if err := judge(w, Expectation{Exactly: exactly, Cached: v.Cached}, fed, results); err != nil {
						t.Errorf("%+v, exactly %t: %v", v, exactly, err)
					}
				}
				if !v.Cached {
					broken(t, w, fed, results)
				}
			}
		})
	}
}

// broken takes a result out, doubles one, and puts two of one key into the wrong order, at many places.
func broken(t *testing.T, w Workload, fed []Input, results []Result) {
	t.Helper()
	exactly := Expectation{Exactly: true}
	for i := 0; i < len(results); i += 1 + len(results)/25 {
		if judge(w, exactly, fed, slices.Delete(slices.Clone(results), i, i+1)) == nil {
			t.Errorf("result %d of %d can be missing", i, len(results))
		}
		if judge(w, exactly, fed, slices.Insert(slices.Clone(results), i, results[i])) == nil {
			t.Errorf("result %d of %d can be doubled", i, len(results))
		}
		for j := i + 1; j < len(results); j++ {
			if results[j].Topic != results[i].Topic || string(results[j].Key) != string(results[i].Key) {
				continue
			}
			swapped := slices.Clone(results)
			swapped[i], swapped[j] = swapped[j], swapped[i]
			if judge(w, exactly, fed, swapped) == nil {
				t.Errorf("results %d and %d of %d can be in the wrong order", i, j, len(results))
			}
			break
		}
	}
	// Nothing is asked to be processed once under at-least-once, but everything is.
	for _, key := range allKeys() {
		without := slices.DeleteFunc(slices.Clone(results), func(r Result) bool {
			return strings.HasPrefix(string(r.Key), key) || w.Name == "relay" && strings.HasPrefix(key, string(r.Key))
		})
		if judge(w, Expectation{}, fed, without) == nil {
			t.Errorf("all results of %s can be missing under at-least-once", key)
		}
	}
}
