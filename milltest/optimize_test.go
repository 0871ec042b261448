package milltest_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// bothWays runs one input through a topology as declared and optimised, on disk and in memory, and compares what comes out of
// the topics. It returns the output and, of both, how many topics there are.
func bothWays(t *testing.T, input []string, outputs []string, which millrace.Optimization, declare func(b *millrace.Builder), driver ...milltest.Option) (out string, topics [2]int) {
	t.Helper()
	run := func(opts ...millrace.BuildOption) (string, int) {
		b := millrace.NewBuilder(opts...)
		declare(b)
		d := milltest.New(t, build(t, b), driver...)
		var read []func() string
		for _, name := range outputs {
			read = append(read, reader(d, topicNamed(name)))
		}
		for i, record := range input {
			topic, rest, _ := strings.Cut(record, "=")
			pipe(t, d, topic, rest)
			if i == len(input)/2 {
				d.Commit()
				restart(t, d)
			}
		}
		var all []string
		for i, r := range read {
			all = append(all, outputs[i]+": "+r())
		}
		return strings.Join(all, "\n"), len(d.Topics())
	}
	plain, before := run()
	optimised, after := run(millrace.Optimize(which))
	wantText(t, "output", optimised, plain)
	return plain, [2]int{before, after}
}

// randomRecords are records of a topic in some disorder, with nulls, ties and jumps.
func randomRecords(r *rand.Rand, topic string, n int) []string {
	var input []string
	at := 100
	for i := range n {
		at += r.IntN(6)
		if r.IntN(12) == 0 {
			at += 60
		}
		key, value := string(rune('a'+r.IntN(3))), fmt.Sprintf("%c%d", 'p'+r.IntN(3), i)
		switch r.IntN(14) {
		case 0:
			key = "~"
		case 1:
			value = "~"
		}
		input = append(input, fmt.Sprintf("%s=%s=%s@%d", topic, key, value, max(0, at-r.IntN(40))))
	}
	return input
}

// A join of a stream with itself sends the same results and the same late records, in the same order, with one store or two.
func TestOptimize_selfJoin(t *testing.T) {
	for _, w := range []window.JoinWindows{
		window.Within(10 * ms).Grace(20 * ms), window.Within(10 * ms), window.Within(0),
		window.Within(10 * ms).Before(25 * ms).Grace(5 * ms), window.Within(10 * ms).After(0),
		window.Within(20 * ms).Before(-5 * ms).Grace(10 * ms), // a record does not meet itself
	} {
		for seed := range uint64(12) {
			var driver []milltest.Option
			if seed%2 == 1 {
				driver = append(driver, milltest.OnDisk())
			}
			r := rand.New(rand.NewPCG(seed, 1))
			out, topics := bothWays(t, randomRecords(r, "in", 60), []string{"out", "late"}, millrace.SingleStoreSelfJoin, func(b *millrace.Builder) {
				in := millrace.From(b, strTopic)
				s, late := millrace.JoinStreams(in, in, w, pair, millrace.As("j"))
				s.To(topicNamed("out"))
				millrace.MapValues(late, func(l window.LateJoin[string, string]) string { return fmt.Sprint(l) }).To(topicNamed("late"))
			}, driver...)
			if topics[1] != topics[0]-1 {
				t.Errorf("%v topics with two stores, %v with one", topics[0], topics[1])
			}
			if !strings.Contains(out, "out: a=") && !strings.Contains(out, "out: b=") && !strings.Contains(out, "out: c=") {
				t.Errorf("%+v, seed %d: no results: %s", w, seed, out)
			}
		}
	}
}

// A failing joiner costs the same pairs either way.
func TestOptimize_selfJoinFailures(t *testing.T) {
	input := []string{"in=a=x@1", "in=a=y@2", "in=a=z@1", "in=a=v@3"}
	out, _ := bothWays(t, input, []string{"out"}, millrace.SingleStoreSelfJoin, func(b *millrace.Builder) {
		in := millrace.From(b, strTopic)
		s, _ := millrace.JoinStreams(in, in, window.Within(10*ms), func(l, r string) string {
			if l == "y" && r == "x" || l == "z" && r == "z" {
				panic("no")
			}
			return l + "-" + r
		}, millrace.As("j"))
		s.To(topicNamed("out"))
	}, milltest.OnProcessingError(skipBad))
	wantText(t, "output", out, "out: a=x-x@1 a=x-y@2 a=y-y@2 a=z-x@1 a=z-y@2 a=x-z@1 a=y-z@2 a=v-x@3 a=v-z@3 a=v-y@3 a=x-v@3 a=z-v@3 a=y-v@3 a=v-v@3")
}

// Steps behind one repartition topic send what they send behind several.
func TestOptimize_mergedRepartitions(t *testing.T) {
	count := func(s textStream, name string) {
		n := millrace.Count(s.GroupByKey(millrace.WithKey(serde.String), millrace.WithValue(serde.String)), millrace.As(name)).ToStream()
		millrace.MapValues(n, func(v int64) string { return fmt.Sprint(v) }).To(topicNamed(name))
	}
	byFirst := func(s textStream) textStream {
		return millrace.SelectKey(s, func(_, v string) string { return v[:1] })
	}
	key := millrace.WithKey(serde.String)
	for _, c := range []struct {
		name    string
		outputs []string
		saved   int // topics
		input   []string
		declare func(b *millrace.Builder)
	}{
		{"counts", []string{"n1", "n2"}, 1, nil, func(b *millrace.Builder) {
			s := byFirst(millrace.From(b, strTopic).Filter(func(_, v string) bool { return v != "" }))
			count(s, "n1")
			count(s.Filter(func(_, v string) bool { return !strings.HasSuffix(v, "3") }), "n2")
		}},
		{"null keys reach what is no step by key", []string{"n1", "x"}, 0, nil, func(b *millrace.Builder) {
			s := millrace.Map(millrace.From(b, strTopic), func(k, v string) (*string, string) {
				if strings.HasSuffix(v, "1") {
					return nil, v
				}
				return &k, v
			}).Filter(func(*string, string) bool { return true })
			millrace.SelectKey(s, func(k *string, _ string) string {
				if k == nil {
					return "none"
				}
				return *k
			}).To(topicNamed("x"))
			n := millrace.Count(s.GroupByKey(millrace.WithKey(serde.Nullable(serde.String)), millrace.WithValue(serde.String)), millrace.As("n1")).ToStream()
			millrace.Map(n, func(k *string, v int64) (string, string) { return *k, fmt.Sprint(v) }).To(topicNamed("n1"))
		}},
		{"joins and counts", []string{"j", "k", "n1"}, 2, []string{"t=p=row@1"}, func(b *millrace.Builder) {
			s := byFirst(millrace.From(b, strTopic).Filter(func(_, v string) bool { return v != "" }))
			rows := millrace.TableFrom(b, topicNamed("t"), millrace.As("rows"))
			pairs, _ := millrace.JoinStreams(s, s, window.Within(10*ms).Grace(time.Second), pair, millrace.As("pairs"), key, millrace.WithValue(serde.String), millrace.WithOtherValue(serde.String))
			pairs.To(topicNamed("j"))
			millrace.LeftJoinTable(s, rows, func(v, row string, ok bool) string { return fmt.Sprint(v, row, ok) }, millrace.As("left"), key, millrace.WithValue(serde.String)).To(topicNamed("k"))
			count(s, "n1")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(6) {
				r := rand.New(rand.NewPCG(seed, 2))
				out, topics := bothWays(t, append(slices.Clone(c.input), randomRecords(r, "in", 40)...), c.outputs, millrace.MergeRepartitionTopics, c.declare)
				if !strings.Contains(out, "@") {
					t.Errorf("no output: %s", out)
				}
				if got := topics[0] - topics[1]; got < c.saved {
					t.Errorf("%d topics fewer, want at least %d", got, c.saved)
				}
			}
		})
	}
}
