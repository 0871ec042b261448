package milltest_test

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

type (
	textStream = millrace.Stream[string, string]
	lateTexts  = millrace.Stream[string, window.LateJoin[string, string]]
)

var (
	leftTopic  = millrace.NewTopic("L", serde.String, serde.String)
	rightTopic = millrace.NewTopic("R", serde.String, serde.String)
	joinTopic  = millrace.NewTopic("out", serde.String, serde.String)
	lateTopic  = millrace.NewTopic("late", serde.String, serde.JSON[window.LateJoin[string, string]]())
)

func pair(l, r string) string { return l + "-" + r }

func leftPair(l, r string, ok bool) string {
	if !ok {
		r = "null"
	}
	return l + "-" + r
}

func outerPair(l string, okL bool, r string, okR bool) string {
	if !okL {
		l = "null"
	}
	return leftPair(l, r, okR)
}

// streamJoinKind is one of the three joins of two streams of text.
type streamJoinKind struct {
	name string
	join func(l, r textStream, w window.JoinWindows, opts ...millrace.StepOption) (textStream, lateTexts)
}

var (
	innerKind = streamJoinKind{"inner", func(l, r textStream, w window.JoinWindows, opts ...millrace.StepOption) (textStream, lateTexts) {
		return millrace.JoinStreams(l, r, w, pair, opts...)
	}}
	leftKind = streamJoinKind{"left", func(l, r textStream, w window.JoinWindows, opts ...millrace.StepOption) (textStream, lateTexts) {
		return millrace.LeftJoinStreams(l, r, w, leftPair, opts...)
	}}
	outerKind = streamJoinKind{"outer", func(l, r textStream, w window.JoinWindows, opts ...millrace.StepOption) (textStream, lateTexts) {
		return millrace.OuterJoinStreams(l, r, w, outerPair, opts...)
	}}
	streamJoinKinds = []streamJoinKind{innerKind, leftKind, outerKind}
)

// joined starts a driver of a join named j of the topics L and R, into the topics out and late.
func joined(t *testing.T, kind streamJoinKind, w window.JoinWindows, opts ...milltest.Option) (*milltest.Driver, func() string) {
	t.Helper()
	b := millrace.NewBuilder()
	pairs, late := kind.join(millrace.From(b, leftTopic), millrace.From(b, rightTopic), w, millrace.As("j"))
	pairs.To(joinTopic)
	late.To(lateTopic)
	d := milltest.New(t, build(t, b), opts...)
	return d, reader(d, joinTopic)
}

// eachEngine runs a test with stores in memory and on disk.
func eachEngine(t *testing.T, test func(t *testing.T, opts ...milltest.Option)) {
	t.Run("in memory", func(t *testing.T) { test(t) })
	t.Run("on disk", func(t *testing.T) { test(t, milltest.OnDisk()) })
}

func TestC029_LeftJoinReleasesAnUnmatchedRowOnceAndNotEarly(t *testing.T) {
	eachEngine(t, func(t *testing.T, opts ...milltest.Option) {
		d, out := joined(t, leftKind, window.Within(10*ms).Grace(5*ms), opts...)
		steps{
			{"L", "k=l0@0", ""},
			{"R", "k=r5@5", "k=l0-r5@5"},
			{"L", "q=l6@6", ""},
			{"R", "z=r20@20", ""},
			{"R", "z=r21@21", ""},
			{"R", "z=r22@22", "q=l6-null@6"},
		}.run(t, d, out)
	})
}

func TestC031_AsymmetricWindows(t *testing.T) {
	d, out := joined(t, innerKind, window.Within(10*ms).Before(0).Grace(100*ms))
	steps{
		{"L", "k=l20@20", ""},
		{"R", "k=r20@20", "k=l20-r20@20"},
		{"R", "k=r30@30", "k=l20-r30@30"},
		{"R", "k=r19@19", ""},
		{"R", "k=r31@31", ""},
	}.run(t, d, out)
	// The left record is released by the first record behind its window, of whatever side.
	d, out = joined(t, leftKind, window.Within(10*ms).After(0))
	steps{
		{"L", "k=l5@5", ""},
		{"R", "z=r6@6", "k=l5-null@5"},
		{"L", "k=l20@20", ""},
		{"R", "k=r20@20", "k=l20-r20@20"},
		{"R", "z=r21@21", ""},
	}.run(t, d, out)
}

func TestC033_OutOfOrderLeftRecordWithinGraceWaits(t *testing.T) {
	d, out := joined(t, leftKind, window.Within(10*ms).Grace(50*ms))
	steps{
		{"L", "q=q100@100", ""},
		{"L", "k=l80@80", ""},
		{"R", "k=r85@85", "k=l80-r85@85"},
		{"R", "q=x@200", "q=q100-null@100"},
	}.run(t, d, out)
}

func TestC034_RecordsLaterThanTheGrace(t *testing.T) {
	lateOf := func(d *milltest.Driver) string {
		var out []string
		for _, r := range milltest.Output(d, lateTopic).ReadAll() {
			out = append(out, fmt.Sprintf("%s=%s%s@%d observed %d missed [%d,%d] of right: %v",
				r.Key, r.Value.Left, r.Value.Right, r.TimestampMs, r.Value.ObservedTimeMs, r.Value.Missed.StartMs, r.Value.Missed.EndMs, r.Value.OfRight))
		}
		return strings.Join(out, "; ")
	}
	t.Run("a", func(t *testing.T) {
		d, out := joined(t, leftKind, window.Within(10*ms).Grace(5*ms))
		steps{
			{"L", "q=q100@100", ""},
			{"L", "k=l80@80", ""},
			{"L", "k=l85@85", ""},
			{"R", "z=z@101", "k=l85-null@85"},
			{"R", "z=z@116", "q=q100-null@100"},
		}.run(t, d, out)
		wantDropped(t, d, "j-this-windowed", millrace.DroppedLate, 1)
		wantText(t, "late", lateOf(d), "k=l80@80 observed 100 missed [70,90] of right: false")
	})
	t.Run("b", func(t *testing.T) {
		d, out := joined(t, innerKind, window.Within(10*ms).Grace(5*ms))
		steps{
			{"R", "k=r80@80", ""},
			{"L", "q=q100@100", ""},
			{"L", "k=l80@80", ""},
			{"R", "k=r84@84", ""},
		}.run(t, d, out)
		wantDropped(t, d, "j-this-windowed", millrace.DroppedLate, 1)
		wantDropped(t, d, "j-other-windowed", millrace.DroppedLate, 1)
		wantText(t, "late", lateOf(d), "k=l80@80 observed 100 missed [70,90] of right: false; k=r84@84 observed 100 missed [74,94] of right: true")
	})
	t.Run("c", func(t *testing.T) {
		d, out := joined(t, leftKind, window.Within(10*ms).Grace(5*ms))
		steps{
			{"L", "k=l0@0", ""},
			{"R", "z=r16@16", "k=l0-null@0"},
			{"R", "k=r9@9", ""},
		}.run(t, d, out)
		wantDropped(t, d, "j-outer-other-join", millrace.DroppedJoinClosed, 1)
		wantText(t, "late", lateOf(d), "")
	})
}

func TestC036_DuplicatesOfKeyAndTime(t *testing.T) {
	eachEngine(t, func(t *testing.T, opts ...milltest.Option) {
		d, out := joined(t, innerKind, window.Within(5*ms).Grace(100*ms), opts...)
		steps{
			{"L", "k=a@10", ""},
			{"L", "k=b@10", ""},
			{"L", "k=a@10", ""},
			{"R", "k=r@12", "k=a-r@12 k=b-r@12 k=a-r@12"},
		}.run(t, d, out)
		d, out = joined(t, leftKind, window.Within(5*ms), opts...)
		steps{
			{"L", "k=a@10", ""},
			{"L", "k=b@10", ""},
			{"L", "k=a@10", ""},
			{"L", "z=z@15", ""},
			{"L", "z=z@16", "k=a-null@10 k=b-null@10 k=a-null@10"},
			{"L", "z=z@17", ""},
		}.run(t, d, out)
	})
}

// changelogText prints what was written to a changelog since the last call, as bytes.
func changelogText(d *milltest.Driver, store string) string {
	var out []string
	for _, r := range d.ReadRaw("test-" + store + "-changelog") {
		value := "~"
		if r.Value != nil {
			value = hex.EncodeToString(r.Value)
		}
		line := fmt.Sprintf("%x=%s@%d", r.Key, value, r.TimestampMs)
		for _, h := range r.Headers {
			line += fmt.Sprintf(" %s:%s", h.Key, h.Value)
		}
		out = append(out, line)
	}
	return strings.Join(out, " | ")
}

func TestC079_DuplicatesSurviveARestore(t *testing.T) {
	eachEngine(t, func(t *testing.T, opts ...milltest.Option) {
		d, out := joined(t, leftKind, window.Within(100*ms), opts...)
		steps{
			{"L", "k=l@10", ""},
			{"L", "k=l2@10", ""},
		}.run(t, d, out)
		wantText(t, "changelog", changelogText(d, "j-this-join-store"), "6b000000000000000a00000001=6c@10 | 6b000000000000000a00000002=6c32@10")
		restart(t, d)
		steps{
			{"R", "k=r@20", "k=l-r@20 k=l2-r@20"},
			{"L", "k=l3@10", "k=l3-r@20"},
		}.run(t, d, out)
		wantText(t, "the numbers go on", changelogText(d, "j-this-join-store"), "6b000000000000000a00000003=6c33@10")
		restart(t, d)
		steps{
			{"R", "k=s@21", "k=l-s@21 k=l2-s@21 k=l3-s@21"},
			{"L", "k=~@22", ""},
		}.run(t, d, out)
		wantText(t, "a null takes a number", changelogText(d, "j-this-join-store"), "6b000000000000001600000004=~@22")
		restart(t, d)
		steps{{"L", "k=l4@10", "k=l4-r@20 k=l4-s@21"}}.run(t, d, out)
		wantText(t, "the numbers go on behind it", changelogText(d, "j-this-join-store"), "6b000000000000000a00000005=6c34@10")
	})
}

func TestC117_HeadersOfAStreamStreamJoin(t *testing.T) {
	d, _ := joined(t, innerKind, window.Within(10*ms))
	l, r, out := milltest.Input(d, leftTopic), milltest.Input(d, rightTopic), milltest.Output(d, joinTopic)
	want := func(what, headers string) {
		t.Helper()
		var got []string
		for _, rec := range out.ReadAll() {
			got = append(got, rec.Value)
			for _, h := range rec.Headers {
				got = append(got, h.Key+"="+string(h.Value))
			}
		}
		wantText(t, what, strings.Join(got, " "), headers)
	}
	l.PipeRecord(processor.Record[string, string]{Key: "k", Value: "l", TimestampMs: 1, Headers: serde.Headers{{Key: "h", Value: []byte("left")}}})
	r.PipeRecord(processor.Record[string, string]{Key: "k", Value: "r", TimestampMs: 2, Headers: serde.Headers{{Key: "h", Value: []byte("right")}}})
	want("the right record's", "l-r h=right")
	l.PipeAt("k", "l2", 3*ms)
	want("none", "l2-r")
}
