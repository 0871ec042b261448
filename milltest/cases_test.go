package milltest_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

const ms = time.Millisecond

// text prints what came out as "key=value@ts", with "~" for null, in order.
func text[K, V any](rs []processor.Record[K, V]) string {
	var out []string
	for _, r := range rs {
		var k, v any = r.Key, r.Value
		if w, ok := k.(window.Key[string]); ok {
			k = fmt.Sprintf("%s[%d,%d)", w.Key, w.Window.StartMs, w.Window.EndMs)
		}
		if r.NullKey {
			k = "~"
		}
		if p, ok := v.(*string); ok && p != nil {
			v = *p
		}
		if p, ok := k.(*string); ok && p != nil {
			k = *p
		}
		if r.NullValue {
			v = "~"
		}
		out = append(out, fmt.Sprintf("%v=%v@%d", k, v, r.TimestampMs))
	}
	return strings.Join(out, " ")
}

func build(t *testing.T, b *millrace.Builder) *millrace.Topology {
	t.Helper()
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return topology
}

func wantText(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

var strTopic = millrace.NewTopic("in", serde.String, serde.String)

var countTopic = millrace.NewTopic("out", serde.String, serde.Int64)

// countWindows counts a stream's records in windows into the store counts and the topic out.
func countWindows(t *testing.T, b *millrace.Builder, s millrace.Stream[string, string], w window.Time, opts ...milltest.Option) (*milltest.Driver, func() string) {
	t.Helper()
	counts, _ := millrace.CountWindows(s.GroupByKey().WindowBy(w), millrace.As("counts"))
	out := millrace.NewTopic("out", serde.Windowed(serde.String, time.Duration(w.SizeMs())*ms), serde.Int64)
	counts.ToStream().To(out)
	d := milltest.New(t, build(t, b), opts...)
	return d, reader(d, out)
}

func windowCount(t *testing.T, w window.Time) (*milltest.Driver, func() string) {
	t.Helper()
	b := millrace.NewBuilder()
	return countWindows(t, b, millrace.From(b, strTopic), w)
}

// reader returns a function that reads what has come out since its last call, as text.
func reader[K, V any](d *milltest.Driver, topic millrace.Topic[K, V]) func() string {
	out := milltest.Output(d, topic)
	return func() string { return text(out.ReadAll()) }
}

// pipe writes a record of text, given as "key=value@ts" with "~" for null.
func pipe(t *testing.T, d *milltest.Driver, topic, record string) {
	t.Helper()
	if err := tryPipe(d, topic, record); err != nil {
		t.Fatal(err)
	}
}

func tryPipe(d *milltest.Driver, topic, record string) error {
	key, rest, _ := strings.Cut(record, "=")
	at := strings.LastIndex(rest, "@")
	ms, err := strconv.ParseInt(rest[at+1:], 10, 64)
	if err != nil {
		return err
	}
	return d.PipeRaw(topic, 0, orNull(key), orNull(rest[:at]), nil, time.Duration(ms)*time.Millisecond)
}

func orNull(s string) []byte {
	if s == "~" {
		return nil
	}
	return []byte(s)
}

// steps are records of text and what each makes come out.
type steps []struct{ topic, record, want string }

func (s steps) run(t *testing.T, d *milltest.Driver, out func() string) {
	t.Helper()
	for i, step := range s {
		pipe(t, d, step.topic, step.record)
		wantText(t, fmt.Sprintf("%d. %s: %s", i+1, step.topic, step.record), out(), step.want)
	}
}

func restart(t *testing.T, d *milltest.Driver) {
	t.Helper()
	if err := d.Restart(); err != nil {
		t.Fatal(err)
	}
}

func wantDropped(t *testing.T, d *milltest.Driver, step string, reason millrace.DropReason, want int64) {
	t.Helper()
	if n := d.Dropped(step, reason); n != want {
		t.Errorf("step %s has dropped %d records for %s, want %d", step, n, reason, want)
	}
}

func TestC001_HoppingWindowWhoseAdvanceDoesNotDivideItsSize(t *testing.T) {
	d, out := windowCount(t, window.Hopping(10*ms, 4*ms))
	steps{
		{"in", "bus7=tap@0", "bus7[0,10)=1@0"},
		{"in", "bus7=tap@3", "bus7[0,10)=2@3"},
		{"in", "bus7=tap@9", "bus7[0,10)=3@9 bus7[4,14)=1@9 bus7[8,18)=1@9"},
		{"in", "bus7=tap@11", "bus7[4,14)=2@11 bus7[8,18)=2@11"},
	}.run(t, d, out)
}

func TestC008_ExactGraceBoundary(t *testing.T) {
	d, out := windowCount(t, window.Tumbling(10*ms).Grace(5*ms))
	steps{
		{"in", "k=a@2", "k[0,10)=1@2"},
		{"in", "z=a@14", "z[10,20)=1@14"},
		{"in", "k=b@3", "k[0,10)=2@3"},
		{"in", "z=a@15", "z[10,20)=2@15"},
		{"in", "k=c@4", ""},
		{"in", "k=d@12", "k[10,20)=1@12"},
	}.run(t, d, out)
	wantDropped(t, d, "counts", millrace.DroppedLate, 1)
}
