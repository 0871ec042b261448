package milltest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/serde"
)

// groupTexts groups a table of text.
func groupTexts(t texts, f func(k, v string) (string, string), opts ...millrace.StepOption) millrace.GroupedTable[string, string] {
	return millrace.GroupTableBy(t, f, append(opts, textKey, textValue)...)
}

func byTheValue(_, v string) (string, string) { return v, v }

func TestC057_MovingARowBetweenGroups(t *testing.T) {
	for _, cache := range []int64{0, 1 << 20} {
		b := millrace.NewBuilder()
		millrace.CountTable(groupTexts(textTable(b, "A"), byTheValue), millrace.As("count")).ToStream().To(countTopic)
		d := milltest.New(t, build(t, b), milltest.CacheBytes(cache))
		steps{
			{"A", "p1=north@1", "north=1@1"},
			{"A", "p2=north@2", "north=2@2"},
			{"A", "p1=south@3", "north=1@3 south=1@3"},
			{"A", "p2=~@4", "north=0@4"},
			{"A", "p1=~@5", "south=0@5"},
			{"A", "p9=~@6", ""},
		}.run(t, d, reader(d, countTopic))
	}
}

// history is an aggregate that shows the calls that made it.
func history(g millrace.GroupedTable[string, string], opts ...millrace.StepOption) texts {
	return millrace.AggregateTable(g, func() string { return "" },
		func(_, v, agg string) string { return agg + "+" + v },
		func(_, v, agg string) string { return agg + "-" + v }, serde.String, opts...)
}

func TestC058_SameGroup(t *testing.T) {
	run := func(t *testing.T, group func(k, v string) (string, string), s steps) *milltest.Driver {
		b := millrace.NewBuilder()
		history(groupTexts(textTable(b, "A"), group), millrace.As("history")).ToStream().To(outTopic)
		d := milltest.New(t, build(t, b), milltest.CacheBytes(0))
		s.run(t, d, reader(d, outTopic))
		return d
	}
	t.Run("one group", func(t *testing.T) {
		d := run(t, func(_, v string) (string, string) { return "g", v }, steps{
			{"A", "p1=5@1", "g=+5@1"},
			{"A", "p1=7@2", "g=+5-5+7@2"},
			{"A", "p2=1@3", "g=+5-5+7+1@3"},
			{"A", "p1=~@4", "g=+5-5+7+1-7@4"},
		})
		var got []string
		for _, r := range d.ReadRaw("test-history-repartition") {
			got = append(got, fmt.Sprintf("%s %x@%d", r.Key, r.Value, r.TimestampMs))
		}
		want := []string{"g 3501@1", "g 02373502@2", "g 3101@3", "g 3700@4"}
		if !slices.Equal(got, want) {
			t.Errorf("repartition topic: %v, want %v", got, want)
		}
	})
	t.Run("by the first letter", func(t *testing.T) {
		run(t, func(_, v string) (string, string) { return v[:1], v }, steps{
			{"A", "p1=a5@1", "a=+a5@1"},
			{"A", "p1=b7@9", "a=+a5-a5@9 b=+b7@9"},
			{"A", "p1=b8@4", "b=+b7-b7+b8@9"},
		})
	})
}

func TestC063_CountingRowsAgainstCountingUpdates(t *testing.T) {
	b := millrace.NewBuilder()
	millrace.Count(textTable(b, "A").ToStream().GroupByKey(), millrace.As("count")).ToStream().To(countTopic)
	d := milltest.New(t, build(t, b), milltest.CacheBytes(0))
	steps{
		{"A", "k=a@1", "k=1@1"},
		{"A", "k=a@2", "k=2@2"},
		{"A", "k=~@3", ""},
		{"A", "k=b@4", "k=3@4"},
	}.run(t, d, reader(d, countTopic))

	b = millrace.NewBuilder()
	all := func(_, v string) (string, string) { return "all", v }
	millrace.CountTable(groupTexts(textTable(b, "A"), all), millrace.As("count")).ToStream().To(countTopic)
	d = milltest.New(t, build(t, b), milltest.CacheBytes(0))
	steps{
		{"A", "k=a@1", "all=1@1"},
		{"A", "k=a@2", "all=1@2"},
		{"A", "k=~@3", "all=0@3"},
		{"A", "j=b@4", "all=1@4"},
		{"A", "k=b@5", "all=2@5"},
	}.run(t, d, reader(d, countTopic))
}

// A row whose new key or value is nil is in no group; a result that is nil deletes the group.
func TestTableGroup_nils(t *testing.T) {
	b := millrace.NewBuilder()
	grouped := millrace.GroupTableBy(textTable(b, "A"), func(_, v string) (textOf, textOf) {
		group, value, _ := strings.Cut(v, ":")
		return orNilText(group), orNilText(value)
	}, millrace.WithKey(nullText), millrace.WithValue(nullText), millrace.NodeName("group"))
	out := millrace.NewTopic("out", nullText, nullText)
	grouped.Reduce(func(agg, v textOf) textOf { return str(*agg + *v) }, func(agg, v textOf) textOf {
		return orNilText(strings.Replace(*agg, *v, "", 1))
	}, millrace.As("reduced")).ToStream().To(out)
	d := milltest.New(t, build(t, b), milltest.CacheBytes(0))
	steps{
		{"A", "p=g:a@1", "g=a@1"},
		{"A", "q=g:b@2", "g=ab@2"},
		{"A", "p=:a@3", "g=b@3"},   // no group
		{"A", "p=g:c@4", "g=bc@4"}, // in again
		{"A", "p=g:@5", "g=b@5"},   // no value
		{"A", "q=~@6", "g=~@6"},    // the last one goes
		{"A", "q=~@7", ""},         // was gone
		{"A", "r=g:x@3", "g=x@3"},  // begins again, with a time of its own
		{"A", "r=g:y@1", "g=y@3"},  // the time of the group stays
		{"A", "s=h:z@9", "h=z@9"},  // another group
		{"A", "s=g:z@8", "h=~@9 g=yz@8"},
	}.run(t, d, reader(d, out))
	wantDropped(t, d, "group", millrace.DroppedNullKey, 1)
	wantDropped(t, d, "group", millrace.DroppedNullValue, 1)
}

func orNilText(s string) textOf {
	if s == "" {
		return nil
	}
	return str(s)
}

// A join sends the values that stood before along, and so does what follows from it: groups of joined rows add up.
func TestTableGroup_ofDerivedTables(t *testing.T) {
	eachTableRun(t, func(t *testing.T, r tableRun) {
		if len(r.opts) == 0 {
			t.Skip("a cache makes one of two results")
		}
		b := millrace.NewBuilder()
		joined := leftTables.join(textTable(b, "L"), textTable(b, "R"), r.keep("join")...)
		mapped := millrace.MapTableValues(joined, strings.ToLower, r.keep("lower")...)
		kept := mapped.Filter(func(_, v string) bool { return !strings.HasPrefix(v, "x") }, r.keep("kept")...)
		history(groupTexts(kept, func(_, v string) (string, string) { return "g", v }), millrace.As("history")).ToStream().To(outTopic)
		d := milltest.New(t, build(t, b), r.opts...)
		steps{
			{"L", "k=A@1", "g=+a-null@1"},
			{"R", "k=B@2", "g=+a-null-a-null+a-b@2"},
			{"L", "k=X@3", "g=+a-null-a-null+a-b-a-b@3"},
			{"R", "k=C@4", ""},
			{"L", "k=Y@5", "g=+a-null-a-null+a-b-a-b+y-c@5"},
			{"L", "k=~@6", "g=+a-null-a-null+a-b-a-b+y-c-y-c@6"},
		}.run(t, d, reader(d, outTopic))
	})
}

// What a join of a table with one derived from it sends as the value before is what it sent before: sums of it add up.
func TestC048_aggregatesAddUp(t *testing.T) {
	eachTableRun(t, func(t *testing.T, r tableRun) {
		for _, kind := range []joinKind{innerTables, leftTables, outerTables} {
			for _, flip := range []bool{false, true} {
				b := millrace.NewBuilder()
				a := textTable(b, "A")
				l, right := evens(a, r.keep("evens")...), a
				if flip {
					l, right = a, l
				}
				joined := kind.join(l, right, r.keep("join")...)
				bag := millrace.AggregateTable(groupTexts(joined, func(k, v string) (string, string) { return "all", k + ":" + v }),
					func() []string { return nil },
					func(_, v string, bag []string) []string { return append(bag, v) },
					func(_, v string, bag []string) []string {
						i := slices.Index(bag, v)
						if i < 0 {
							return append(bag, "there is no "+v)
						}
						return slices.Delete(bag, i, i+1)
					}, serde.JSON[[]string](), millrace.As("bag"))
				millrace.MapTableValues(bag, func(bag []string) string {
					slices.Sort(bag)
					return strings.Join(bag, ",")
				}).ToStream().To(outTopic)
				d := milltest.New(t, build(t, b), r.opts...)
				rows := make(map[string]string)
				out, last := reader(d, outTopic), ""
				for i, record := range []string{"k=2", "k=3", "k=4", "j=6", "k=~", "k=5", "k=~", "j=8", "j=10", "k=12", "j=7", "k=1", "j=~", "k=~", "k=~"} {
					pipe(t, d, "A", fmt.Sprintf("%s@%d", record, i))
					key, value, _ := strings.Cut(record, "=")
					rows[key] = value
					if got := strings.Fields(out()); len(got) > 0 {
						last = strings.TrimPrefix(got[len(got)-1][:strings.LastIndex(got[len(got)-1], "@")], "all=")
					}
					var want []string
					for k, v := range rows {
						if s, ok := joinedEvens(kind.name, flip, v); ok {
							want = append(want, k+":"+s)
						}
					}
					slices.Sort(want)
					if got := strings.TrimSuffix(last, "~"); got != strings.Join(want, ",") {
						t.Fatalf("%s, flip %v, after %d. %s: the groups hold %s, want %v", kind.name, flip, i+1, record, got, want)
					}
				}
			}
		}
	})
}

// joinedEvens is what a join of a table's even numbers with the table has for a row.
func joinedEvens(kind string, flip bool, v string) (string, bool) {
	if v == "~" {
		return "", false
	}
	even := "null"
	if strings.Contains("02468", v[len(v)-1:]) {
		even = v
	}
	l, r := even, v
	if flip {
		l, r = v, even
	}
	if kind == "inner" && even == "null" || kind == "left" && l == "null" {
		return "", false
	}
	return l + "-" + r, true
}

func TestTableGroup_failures(t *testing.T) {
	b := millrace.NewBuilder()
	g := millrace.TryGroupTableBy(textTable(b, "A"), func(_ context.Context, _, v string) (string, string, error) { return "g", v, nil }, textKey, textValue)
	millrace.TryAggregateTable(g, func() string { return "" },
		func(_, v, agg string) (string, error) {
			if v == "bad" {
				return "", errors.New("bad row")
			}
			return agg + "+" + v, nil
		},
		func(_, v, agg string) (string, error) { return agg + "-" + v, nil }, serde.String, millrace.As("agg")).ToStream().To(outTopic)
	d := milltest.New(t, build(t, b), milltest.CacheBytes(0), milltest.OnProcessingError(millrace.LogAndContinue()))
	steps{
		{"A", "p=a@1", "g=+a@1"},
		{"A", "q=bad@2", ""},
		{"A", "q=c@3", "g=+a-bad+c@3"},
	}.run(t, d, reader(d, outTopic))
	wantDropped(t, d, "agg", millrace.DroppedProcessing, 1)
}
