package milltest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/window"
)

// What Kafka Streams 4.4.0 makes of one input of two topics, with windows of ten seconds and a day of grace. Each field of a
// result line is the number of the record and what came out with it.
const streamJoinInput = "L=~@1 R=~@2 L=A@3 R=a@4 L=B@5 R=b@6 L=~@7 R=~@8 L=C@9 R=c@10 R=~@11 L=~@12 R=~@13 R=d@14 L=D@15"

func runStreamJoin(t *testing.T, input string, want string, declare func(l, r textStream) textStream) {
	t.Helper()
	b := millrace.NewBuilder()
	declare(millrace.From(b, leftTopic), millrace.From(b, rightTopic)).To(joinTopic)
	d := milltest.New(t, build(t, b))
	out := milltest.Output(d, joinTopic)
	var got []string
	for i, record := range strings.Fields(input) {
		topic, rest, _ := strings.Cut(record, "=")
		key := "k"
		if k, v, ok := strings.Cut(rest, "="); ok {
			key, rest = k, v
		}
		pipe(t, d, topic, key+"="+rest)
		var values []string
		for _, r := range out.ReadAll() {
			values = append(values, r.Value)
		}
		if len(values) > 0 {
			got = append(got, fmt.Sprintf("%d:%s", i+1, strings.Join(values, ",")))
		}
	}
	wantText(t, "results", strings.Join(got, " "), want)
}

func TestStreamJoins_tables(t *testing.T) {
	day := window.Within(10 * time.Second).Grace(24 * time.Hour)
	const inner = "4:A-a 5:B-a 6:A-b,B-b 9:C-a,C-b 10:A-c,B-c,C-c 14:A-d,B-d,C-d 15:D-a,D-b,D-c,D-d"
	const input = streamJoinInput + " L=~=E@16 R=~=e@17"
	for _, c := range []struct {
		kind streamJoinKind
		want string
	}{
		{innerKind, inner},
		{leftKind, inner + " 16:E-null"},
		{outerKind, inner + " 16:E-null 17:null-e"},
	} {
		t.Run(c.kind.name, func(t *testing.T) {
			runStreamJoin(t, input, c.want, func(l, r textStream) textStream {
				s, _ := c.kind.join(l, r, day, millrace.As("j"))
				return s
			})
		})
		t.Run(c.kind.name+" repartitioned", func(t *testing.T) {
			runStreamJoin(t, input, c.want, func(l, r textStream) textStream {
				l, r = l.Repartition(millrace.As("l")), r.Repartition(millrace.As("r"))
				s, _ := c.kind.join(l, r, day, millrace.As("j"))
				return s
			})
		})
	}
	t.Run("multi inner", func(t *testing.T) {
		runStreamJoin(t, streamJoinInput, "4:A-a-a 5:B-a-a 6:A-b-a,B-b-a,A-a-b,B-a-b,A-b-b,B-b-b 9:C-a-a,C-a-b,C-b-a,C-b-b "+
			"10:A-c-a,A-c-b,B-c-a,B-c-b,C-c-a,C-c-b,A-a-c,B-a-c,A-b-c,B-b-c,C-a-c,C-b-c,A-c-c,B-c-c,C-c-c "+
			"14:A-d-a,A-d-b,A-d-c,B-d-a,B-d-b,B-d-c,C-d-a,C-d-b,C-d-c,A-a-d,B-a-d,A-b-d,B-b-d,C-a-d,C-b-d,A-c-d,B-c-d,C-c-d,A-d-d,B-d-d,C-d-d "+
			"15:D-a-a,D-a-b,D-a-c,D-a-d,D-b-a,D-b-b,D-b-c,D-b-d,D-c-a,D-c-b,D-c-c,D-c-d,D-d-a,D-d-b,D-d-c,D-d-d",
			func(l, r textStream) textStream {
				s, _ := millrace.JoinStreams(l, r, day, pair, millrace.As("one"))
				s, _ = millrace.JoinStreams(s, r, day, pair, millrace.As("two"), millrace.WithValue(leftTopic.Value()))
				return s
			})
	})
	t.Run("self", func(t *testing.T) {
		runStreamJoin(t, "L=~@1 L=A@2 L=B@3 L=~@4 L=C@5 L=~@6 L=D@7",
			"2:A-A 3:B-A,A-B,B-B 5:C-A,C-B,A-C,B-C,C-C 7:D-A,D-B,D-C,A-D,B-D,C-D,D-D",
			func(l, r textStream) textStream {
				r.Peek(func(string, string) {})
				s, _ := millrace.JoinStreams(l, l, day, pair, millrace.As("j"))
				return s
			})
	})
}

// The left join of the reference, with the rows that are later than the grace dropped.
func TestStreamJoins_leftWithoutGrace(t *testing.T) {
	d, out := joined(t, leftKind, window.Within(10*ms))
	steps{
		{"R", "k=r182@182", ""},
		{"R", "k=r200@200", ""},
		{"L", "k=l172@172", ""},
		{"L", "k=l150@150", ""},
		{"L", "k=l195@195", "k=l195-r200@200"},
		{"L", "j=j201@201", ""},
		{"R", "z=z@211", ""},
		{"R", "z=z@212", "j=j201-null@201"},
		{"L", "~=nk@213", "~=nk-null@213"},
	}.run(t, d, out)
	wantDropped(t, d, "j-this-windowed", millrace.DroppedLate, 2)
}

// Unmatched rows come out when only time passes, and stay out after a crash.
func TestStreamJoins_quietTopics(t *testing.T) {
	eachEngine(t, func(t *testing.T, opts ...milltest.Option) {
		b := millrace.NewBuilder()
		l := millrace.From(b, leftTopic, millrace.IdleTimeout(time.Minute))
		r := millrace.From(b, rightTopic, millrace.IdleTimeout(time.Minute))
		pairs, _ := millrace.OuterJoinStreams(l, r, window.Within(10*time.Second).Grace(5*time.Second), outerPair, millrace.As("j"))
		pairs.To(joinTopic)
		d := milltest.New(t, build(t, b), opts...)
		out := reader(d, joinTopic)
		d.AdvanceTime(time.Hour)
		pipe(t, d, "L", "a=l@3600000")
		pipe(t, d, "R", "b=r@3600001")
		wantText(t, "at first", out(), "")
		d.AdvanceTime(2 * time.Minute)
		wantText(t, "when time has passed", out(), "a=l-null@3600000 b=null-r@3600001")
		restart(t, d)
		d.AdvanceTime(2 * time.Minute)
		wantText(t, "after a restart", out(), "")
		pipe(t, d, "R", "a=late@3600002")
		wantText(t, "a record from before", out(), "")
	})
}

func TestStreamJoins_buildErrors(t *testing.T) {
	wantErr := func(name, want string, declare func(l, r textStream)) {
		t.Helper()
		b := millrace.NewBuilder()
		declare(millrace.From(b, leftTopic), millrace.From(b, rightTopic))
		_, err := b.Build()
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "stream_joins_test.go:") {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	join := func(w window.JoinWindows, opts ...millrace.StepOption) func(l, r textStream) {
		return func(l, r textStream) { millrace.JoinStreams(l, r, w, pair, opts...) }
	}
	wantErr("no windows", "window.Within", join(window.JoinWindows{}, millrace.As("j")))
	wantErr("negative grace", "grace -1ms", join(window.Within(ms).Grace(-ms), millrace.As("j")))
	wantErr("nothing to meet", "together are negative", join(window.Within(ms).Before(-2*ms), millrace.As("j")))
	wantErr("short retention", "keep records for at least 25ms", join(window.Within(10*ms).Grace(5*ms), millrace.As("j"), millrace.Retain(24*ms)))
	wantErr("no name", "which needs a name", join(window.Within(ms)))
	wantErr("an option of others", "no use for the option WithoutCache", join(window.Within(ms), millrace.As("j"), millrace.WithoutCache()))
	wantErr("no function", "nil function", func(l, r textStream) {
		millrace.JoinStreams[string, string, string, string](l, r, window.Within(ms), nil, millrace.As("j"))
	})
	wantErr("no serde", "WithOtherValue", func(l, r textStream) {
		mapped := millrace.MapValues(r, func(v string) string { return v })
		millrace.JoinStreams(l, mapped, window.Within(ms), pair, millrace.As("j"))
	})
	wantErr("a serde of another type", "WithOtherValue gives a serde of another type", func(l, r textStream) {
		millrace.JoinStreams(l, r, window.Within(ms), pair, millrace.As("j"), millrace.WithOtherValue(countTopic.Value()))
	})
	other := millrace.From(millrace.NewBuilder(), rightTopic)
	wantErr("two builders", "different builders", func(l, _ textStream) { millrace.JoinStreams(l, other, window.Within(ms), pair, millrace.As("j")) })
}

// The cost of a record does not grow with the rows that wait: a join that keeps most of its rows without a match takes no more
// than three times as long as the inner join of the same input.
func TestC135_ManyUnmatchedRows(t *testing.T) {
	n := 200_000
	if testing.Short() {
		n = 20_000
	}
	run := func(kind streamJoinKind, grace time.Duration) (took time.Duration, alone []string) {
		b := millrace.NewBuilder()
		pairs, _ := kind.join(millrace.From(b, leftTopic), millrace.From(b, rightTopic), window.Within(time.Second).Grace(grace), millrace.As("j"))
		pairs.To(joinTopic)
		d := milltest.New(t, build(t, b), milltest.ManualCommit())
		start := time.Now()
		for i := range n {
			at := time.Duration(i) * ms
			key := fmt.Appendf(nil, "k%d", i)
			if err := d.PipeRaw("L", 0, key, []byte("l"), nil, at); err != nil {
				t.Fatal(err)
			}
			if i%10 == 0 {
				if err := d.PipeRaw("R", 0, key, []byte("r"), nil, at); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := d.PipeRaw("R", 0, []byte("end"), []byte("r"), nil, time.Duration(n)*ms+grace+time.Hour); err != nil {
			t.Fatal(err)
		}
		d.Commit()
		took = time.Since(start)
		for _, r := range d.ReadRaw("out") {
			if strings.HasSuffix(string(r.Value), "-null") {
				alone = append(alone, string(r.Key))
			}
		}
		return took, alone
	}
	inner, _ := run(innerKind, 0)
	var want []string
	for i := range n {
		if i%10 != 0 {
			want = append(want, fmt.Sprintf("k%d", i))
		}
	}
	// With a grace as long as the input all rows wait until the end.
	for name, grace := range map[string]time.Duration{"no grace": 0, "all wait": time.Duration(n) * ms} {
		left, alone := run(leftKind, grace)
		if !slices.Equal(alone, want) {
			t.Errorf("%s: %d unmatched rows came out, want %d in their order", name, len(alone), len(want))
		}
		t.Logf("%s: inner join %v, left join %v", name, inner, left)
		if left > 3*inner && grace == 0 || left > 5*inner {
			t.Errorf("%s: the left join took %v, the inner join %v", name, left, inner)
		}
	}
}
