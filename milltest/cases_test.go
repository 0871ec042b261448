package milltest_test

import (
	"fmt"
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

func windowCount(t *testing.T, w window.Time) (*milltest.InputTopic[string, string], *milltest.OutputTopic[window.Key[string], int64], *milltest.Driver) {
	t.Helper()
	b := millrace.NewBuilder()
	counts, _ := millrace.CountWindows(millrace.From(b, strTopic).GroupByKey().WindowBy(w), millrace.As("counts"))
	out := millrace.NewTopic("out", serde.Windowed(serde.String, time.Duration(w.SizeMs())*ms), serde.Int64)
	counts.ToStream().To(out)
	d := milltest.New(t, build(t, b))
	return milltest.Input(d, strTopic), milltest.Output(d, out), d
}

func TestC001_HoppingWindowWhoseAdvanceDoesNotDivideItsSize(t *testing.T) {
	in, out, _ := windowCount(t, window.Hopping(10*ms, 4*ms))
	for _, s := range []struct {
		at   time.Duration
		want string
	}{
		{0, "bus7[0,10)=1@0"},
		{3, "bus7[0,10)=2@3"},
		{9, "bus7[0,10)=3@9 bus7[4,14)=1@9 bus7[8,18)=1@9"},
		{11, "bus7[4,14)=2@11 bus7[8,18)=2@11"},
	} {
		in.PipeAt("bus7", "tap", s.at*ms)
		wantText(t, fmt.Sprint("@", int64(s.at)), text(out.ReadAll()), s.want)
	}
}

func TestC008_ExactGraceBoundary(t *testing.T) {
	in, out, d := windowCount(t, window.Tumbling(10*ms).Grace(5*ms))
	for _, s := range []struct {
		key  string
		at   time.Duration
		want string
	}{
		{"k", 2, "k[0,10)=1@2"},
		{"z", 14, "z[10,20)=1@14"},
		{"k", 3, "k[0,10)=2@3"},
		{"z", 15, "z[10,20)=2@15"},
		{"k", 4, ""},
		{"k", 12, "k[10,20)=1@12"},
	} {
		in.PipeAt(s.key, "x", s.at*ms)
		wantText(t, fmt.Sprint(s.key, "@", int64(s.at)), text(out.ReadAll()), s.want)
	}
	if n := d.Dropped("counts", millrace.DroppedLate); n != 1 {
		t.Errorf("%d late windows counted, want 1", n)
	}
}
