package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// oversized is an application in which one record, "big", leaves 24 kB behind in one store, and nothing to speak of anywhere else.
type oversized struct {
	name, store string
	build       func(in, other millrace.Stream[string, string], v Variant)
}

// many is what a record becomes.
func many(v string, emit func(string)) {
	if v != "big" {
		emit(v)
		return
	}
	for i := range 40 {
		emit(fmt.Sprint(i, strings.Repeat("x", 600)))
	}
}

func oversizedKinds() []oversized {
	type stream = millrace.Stream[string, string]
	out := millrace.NewTopic("out", serde.String, serde.String)
	pair := func(l, r string) string { return l[:1] + r }
	serdes := []millrace.StepOption{millrace.As("pair"), millrace.WithKey(serde.String), millrace.WithValue(serde.String), millrace.WithOtherValue(serde.String)}
	within := window.Within(time.Hour)
	return []oversized{
		{"suppression", "calm-store", func(in, _ stream, v Variant) {
			rows := in.ToTable(append(v.options("rows"), millrace.WithKey(serde.String), millrace.WithValue(serde.String))...)
			millrace.MapTableValues(rows, func(v string) string {
				if v == "big" {
					return strings.Repeat("x", 24_000)
				}
				return v
			}).Suppress(millrace.UntilTimeLimit(time.Hour, millrace.Unbounded()), millrace.As("calm"), millrace.WithValue(serde.String)).ToStream().To(out)
		}},
		{"join with a grace period", "bill-Buffer", func(in, other stream, v Variant) {
			rows := other.ToTable(append(v.options("rows"), millrace.WithKey(serde.String), millrace.WithValue(serde.String), millrace.Versioned(2*time.Hour))...)
			millrace.JoinTable(millrace.FlatMapValues(in, many), rows, pair, millrace.As("bill"), millrace.JoinGrace(time.Hour),
				millrace.WithKey(serde.String), millrace.WithValue(serde.String)).To(out)
		}},
		{"join of streams", "pair-this-join-store", func(in, other stream, _ Variant) {
			pairs, _ := millrace.JoinStreams(millrace.FlatMapValues(in, many), other, within, pair, serdes...)
			pairs.To(out)
		}},
		{"left join of streams", "pair-left-shared-join-store", func(in, other stream, _ Variant) {
			pairs, _ := millrace.LeftJoinStreams(millrace.FlatMapValues(in, many), other, within, func(l, r string, _ bool) string { return pair(l, r) }, serdes...)
			pairs.To(out)
		}},
		{"versioned table", "versions", func(in, _ stream, v Variant) {
			millrace.FlatMapValues(in, many).ToTable(append(v.options("versions"), millrace.WithKey(serde.String), millrace.WithValue(serde.String), millrace.Versioned(time.Hour))...)
		}},
	}
}

// still is the feed and the oracle of a workload that is fed by hand.
type still struct{}

func (still) Next() Input                          { return Input{} }
func (still) Last() []Input                        { return nil }
func (still) Fed(Input)                            {}
func (still) Result(Result) error                  { return nil }
func (still) Complete() error                      { return nil }
func (still) Answered(string, int32) (int64, bool) { return 0, false }

// One record that alone leaves more behind than a task should gather is let through and counted, in every kind of store, and
// committed at once. Past the memory limit the task fails, and the store is named.
func TestOversized_stores(t *testing.T) {
	for _, kind := range oversizedKinds() {
		for _, exactly := range []bool{false, true} {
			for _, limit := range []int64{0, 16 << 10} {
				t.Run(fmt.Sprintf("%s/exactly=%t/limit=%d", kind.name, exactly, limit), func(t *testing.T) {
					feedOversized(t, kind, exactly, limit)
				})
			}
		}
	}
}

func feedOversized(t *testing.T, kind oversized, exactly bool, limit int64) {
	sc := scenario{
		exactly: exactly, instances: 1, deadline: 3_600_000, emitLimit: limit,
		workload: Workload{
			Name: kind.name, Inputs: []Topic{{"in", partitions}, {"other", partitions}}, Outputs: []Topic{{"out", partitions}},
			Topology: func(v Variant) (*millrace.Topology, error) {
				b := millrace.NewBuilder()
				kind.build(millrace.From(b, millrace.NewTopic("in", serde.String, serde.String)),
					millrace.From(b, millrace.NewTopic("other", serde.String, serde.String)), v)
				return b.Build()
			},
			NewFeed:   func(*rand.Rand) Feed { return still{} },
			NewOracle: func(Expectation) Oracle { return still{} },
		},
	}
	w, err := newWorld(1, sc)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	w.calm = true
	put := func(topic string, partition int32, key, value string) {
		w.put(Input{Topic: topic, Partition: partition, Key: []byte(key), Value: []byte(value), TimestampMs: startMs})
	}
	for p := range int32(partitions) {
		put("in", p, "key", "small")
		put("other", p, "other key", "small")
	}
	w.rest("what is small")
	if w.failure != nil {
		t.Fatalf("%v\n%s", w.failure, w.tail(40))
	}
	put("in", 0, "key", "big")
	w.rest("what is big")
	if limit > 0 {
		var fatal *op.FatalError
		if !errors.Is(w.failure, op.ErrTooMuch) || !errors.As(w.failure, &fatal) || fatal.Step != kind.store || fatal.Origin.Offset != 1 {
			t.Fatalf("want the record at offset 1 to fail in %s: %v", kind.store, w.failure)
		}
		return
	}
	if w.failure != nil {
		t.Fatalf("%v\n%s", w.failure, w.tail(40))
	}
	if n := w.places[0].metrics.Snapshot().Counter(metrics.RecordsOversized); n != 1 {
		t.Errorf("%d records are counted, want 1", n)
	}
}
