package milltest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/serde"
)

type texts = millrace.Table[string, string]

// joinKind is one of the three joins of tables, of text.
type joinKind struct {
	name string
	join func(l, r texts, opts ...millrace.StepOption) texts
}

var (
	innerTables = joinKind{"inner", func(l, r texts, opts ...millrace.StepOption) texts {
		return millrace.JoinTables(l, r, func(l, r string) string { return l + "-" + r }, opts...)
	}}
	leftTables = joinKind{"left", func(l, r texts, opts ...millrace.StepOption) texts {
		return millrace.LeftJoinTables(l, r, func(l, r string, ok bool) string { return l + "-" + orText(r, ok) }, opts...)
	}}
	outerTables = joinKind{"outer", func(l, r texts, opts ...millrace.StepOption) texts {
		return millrace.OuterJoinTables(l, r, func(l string, okL bool, r string, okR bool) string { return orText(l, okL) + "-" + orText(r, okR) }, opts...)
	}}
)

// tableRun is a way to run a topology of tables; none may change a result.
type tableRun struct {
	name   string
	stored bool // the joined tables have stores
	opts   []milltest.Option
}

var tableRuns = []tableRun{
	{"computed", false, []milltest.Option{milltest.CacheBytes(0)}},
	{"stored", true, []milltest.Option{milltest.CacheBytes(0)}},
	{"computed, on disk", false, []milltest.Option{milltest.CacheBytes(0), milltest.OnDisk()}},
	{"stored, cached", true, nil},
	{"stored, no read cache", true, []milltest.Option{milltest.CacheBytes(0), milltest.ReadCacheBytes(0)}},
}

// keep names the store of a joined table if the run is one with stores.
func (r tableRun) keep(name string) []millrace.StepOption {
	if r.stored {
		return []millrace.StepOption{millrace.As(name), millrace.WithValue(serde.String)}
	}
	return []millrace.StepOption{millrace.NodeName(name)}
}

func eachTableRun(t *testing.T, f func(t *testing.T, r tableRun)) {
	for _, r := range tableRuns {
		t.Run(r.name, func(t *testing.T) { f(t, r) })
	}
}

// textTable is a table of a topic's name.
func textTable(b *millrace.Builder, name string) texts {
	return millrace.TableFrom(b, millrace.NewTopic(name, serde.String, serde.String), millrace.As(name))
}

// sharedInput runs records of joinInput into topics L and R; got is "n:value@ts" of what comes out after the n-th.
func sharedInput(t *testing.T, d *milltest.Driver, out func() string, input string) string {
	t.Helper()
	var got []string
	for i, record := range strings.Split(input, ",") {
		var side, value, at string
		if _, err := fmt.Sscan(record, &side, &value, &at); err != nil {
			t.Fatal(err)
		}
		if value == "null" {
			value = "~"
		}
		pipe(t, d, side, "k="+value+"@"+at)
		if s := out(); s != "" {
			got = append(got, fmt.Sprintf("%d:%s", i+1, strings.ReplaceAll(strings.ReplaceAll(s, "k=", ""), "~", "null")))
		}
	}
	return strings.Join(got, "; ")
}

func TestTableJoin_table(t *testing.T) {
	for _, c := range []struct {
		kind joinKind
		want string
	}{
		{innerTables, "4:A-a@4; 5:B-a@5; 6:B-b@6; 7:null@7; 10:C-c@10; 11:null@11; 15:D-d@7; 16:null@7; 19:E-e@15; 20:null@14; 23:F-f@4"},
		{leftTables, "3:A-null@3; 4:A-a@4; 5:B-a@5; 6:B-b@6; 7:null@7; 9:C-null@9; 10:C-c@10; 11:C-null@11; 12:null@12; 15:D-d@7; 16:null@7; 19:E-e@15; 20:null@14; 22:F-null@4; 23:F-f@4"},
		{outerTables, "3:A-null@3; 4:A-a@4; 5:B-a@5; 6:B-b@6; 7:null-b@7; 8:null@8; 9:C-null@9; 10:C-c@10; 11:C-null@11; 12:null@12; 14:null-d@7; 15:D-d@7; 16:null-d@7; 17:null@3; 18:null-e@14; 19:E-e@15; 20:null-e@14; 21:null@9; 22:F-null@4; 23:F-f@4"},
	} {
		t.Run(c.kind.name, func(t *testing.T) {
			eachTableRun(t, func(t *testing.T, r tableRun) {
				b := millrace.NewBuilder()
				c.kind.join(textTable(b, "L"), textTable(b, "R"), r.keep("join")...).ToStream().To(outTopic)
				d := milltest.New(t, build(t, b), r.opts...)
				wantText(t, c.kind.name, sharedInput(t, d, reader(d, outTopic), joinInput), c.want)
			})
		})
	}
}

// The results of Kafka Streams, but for the deletion after the eleventh record of inner/inner and the eighth of outer/inner:
// there the right side loses the row that both levels read, and Kafka Streams leaves the joined row behind; see C048.
func TestTableJoin_twoLevels(t *testing.T) {
	const input = `L null 1, R null 2, L A 3, R a 4, L B 5, R b 6, L null 7, R null 8, L C 9, R c 10, R null 11, L null 12,
	R null 13, R d 14, L D 15`
	const common = "4:A-a-a x2; 5:B-a-a; 6:B-b-b x2; 10:C-c-c x2; 15:D-d-d"
	for _, c := range []struct {
		first, second joinKind
		want          string
	}{
		{innerTables, innerTables, "7:null; 11:null"},
		{innerTables, leftTables, "7:null; 11:null"},
		{innerTables, outerTables, "7:null-b; 8:null; 11:null x2; 14:null-d"},
		{leftTables, innerTables, "7:null; 11:null"},
		{leftTables, leftTables, "3:A-null-null; 7:null; 9:C-null-null; 11:C-null-null x2; 12:null"},
		{leftTables, outerTables, "3:A-null-null; 7:null-b; 8:null; 9:C-null-null; 11:C-null-null x2; 12:null; 14:null-d"},
		{outerTables, innerTables, "7:null-b-b; 8:null; 11:null; 14:null-d-d x2"},
		{outerTables, leftTables, "3:A-null-null; 7:null-b-b; 8:null; 9:C-null-null; 11:C-null-null x2; 12:null; 14:null-d-d x2"},
		{outerTables, outerTables, "3:A-null-null; 7:null-b-b; 8:null x2; 9:C-null-null; 11:C-null-null x2; 12:null; 14:null-d-d x2"},
	} {
		t.Run(c.first.name+" "+c.second.name, func(t *testing.T) {
			eachTableRun(t, func(t *testing.T, r tableRun) {
				if len(r.opts) == 0 {
					t.Skip("a cache makes one of two equal results")
				}
				b := millrace.NewBuilder()
				l, right := textTable(b, "L"), textTable(b, "R")
				c.second.join(c.first.join(l, right, r.keep("first")...), right, r.keep("second")...).ToStream().To(outTopic)
				d := milltest.New(t, build(t, b), r.opts...)
				wantText(t, "out", sharedInput(t, d, reader(d, outTopic), input), atInputTime(common, c.want))
			})
		})
	}
}

// atInputTime puts the results of two lists together, by the number of the record: "7:null; 11:null x2" has the timestamps
// of the records, which are their numbers.
func atInputTime(lists ...string) string {
	byNumber := make(map[int]string)
	last := 0
	for _, list := range lists {
		for _, part := range strings.Split(list, "; ") {
			number, value, _ := strings.Cut(part, ":")
			var n int
			fmt.Sscan(number, &n)
			value, twice := strings.CutSuffix(value, " x2")
			text := fmt.Sprintf("%s@%d", value, n)
			if twice {
				text += " " + text
			}
			byNumber[n], last = text, max(last, n)
		}
	}
	var out []string
	for n := range last + 1 {
		if s, ok := byNumber[n]; ok {
			out = append(out, fmt.Sprintf("%d:%s", n, s))
		}
	}
	return strings.Join(out, "; ")
}

var pairTables = joinKind{"pair", func(l, r texts, opts ...millrace.StepOption) texts {
	return millrace.JoinTables(l, r, func(l, r string) string { return "(" + l + "," + r + ")" }, opts...)
}}

func TestC044_InnerJoinAndTombstones(t *testing.T) {
	eachTableRun(t, func(t *testing.T, r tableRun) {
		b := millrace.NewBuilder()
		pairTables.join(textTable(b, "A"), textTable(b, "B"), r.keep("join")...).ToStream().To(outTopic)
		d := milltest.New(t, build(t, b), r.opts...)
		again := "k=~@12" // the other side still exists, so the deletion is repeated
		if len(r.opts) == 0 {
			again = "" // a cache has nothing to delete
		}
		steps{
			{"A", "k=~@1", ""},
			{"A", "k=a1@2", ""},
			{"B", "k=b1@3", "k=(a1,b1)@3"},
			{"A", "k=a2@10", "k=(a2,b1)@10"},
			{"B", "k=b2@5", "k=(a2,b2)@10"},
			{"A", "k=~@11", "k=~@11"},
			{"A", "k=~@12", again},
			{"B", "k=~@13", ""},
			{"B", "k=~@14", ""},
			{"B", "k=b3@15", ""},
			{"A", "k=a3@16", "k=(a3,b3)@16"},
			{"B", "k=~@17", "k=~@17"},
		}.run(t, d, reader(d, outTopic))
	})
}

func TestC046_TimestampOfAJoinedRow(t *testing.T) {
	eachTableRun(t, func(t *testing.T, r tableRun) {
		b := millrace.NewBuilder()
		pairTables.join(textTable(b, "A"), textTable(b, "B"), r.keep("join")...).ToStream().To(outTopic)
		d := milltest.New(t, build(t, b), r.opts...)
		steps{
			{"A", "k=a@50", ""},
			{"B", "k=b@20", "k=(a,b)@50"},
			{"A", "k=a2@30", "k=(a2,b)@30"},
			{"B", "k=b2@10", "k=(a2,b2)@30"},
		}.run(t, d, reader(d, outTopic))
	})
}

// evens is the table of a table's even numbers.
func evens(a texts, opts ...millrace.StepOption) texts {
	return a.Filter(func(_, v string) bool { return strings.Contains("02468", v[len(v)-1:]) }, opts...)
}

func TestC048_ATableJoinedWithOneDerivedFromIt(t *testing.T) {
	eachTableRun(t, func(t *testing.T, r tableRun) {
		for _, flip := range []bool{false, true} {
			b := millrace.NewBuilder()
			a := textTable(b, "A")
			even := evens(a, r.keep("evens")...)
			if flip {
				pairTables.join(a, even, millrace.NodeName("join")).ToStream().To(outTopic)
			} else {
				pairTables.join(even, a, millrace.NodeName("join")).ToStream().To(outTopic)
			}
			d := milltest.New(t, build(t, b), r.opts...)
			steps{
				{"A", "k=2@1", "k=(2,2)@1 k=(2,2)@1"},
				{"A", "k=3@2", "k=~@2"},
				{"A", "k=4@3", "k=(4,4)@3 k=(4,4)@3"},
				{"A", "k=~@4", "k=~@4"},
				{"A", "j=~@5", ""},
			}.run(t, d, reader(d, outTopic))
		}
	})
}

// A join of two tables that a third one is the origin of, and a join of such a join.
func TestC048_kin(t *testing.T) {
	eachTableRun(t, func(t *testing.T, r tableRun) {
		if len(r.opts) == 0 {
			t.Skip("a cache makes one of two equal results")
		}
		b := millrace.NewBuilder()
		a, c := textTable(b, "A"), textTable(b, "C")
		even := evens(a, r.keep("evens")...)
		long := a.Filter(func(_, v string) bool { return len(v) > 1 }, r.keep("long")...)
		both := pairTables.join(even, long, r.keep("both")...)
		pairTables.join(pairTables.join(both, c, r.keep("with")...), a, r.keep("join")...).ToStream().To(outTopic)
		d := milltest.New(t, build(t, b), r.opts...)
		out := reader(d, outTopic)
		records := steps{
			{"C", "k=c@1", ""},
			{"A", "k=12@2", "k=(((12,12),c),12)@2"},
			{"A", "k=13@3", "k=~@3"},
			{"A", "k=14@4", "k=(((14,14),c),14)@4"},
			{"C", "k=~@5", "k=~@5"},
			{"C", "k=d@6", "k=(((14,14),d),14)@6"},
			{"A", "k=~@7", "k=~@7"},
			{"A", "k=~@8", ""},
		}
		for _, step := range records {
			pipe(t, d, step.topic, step.record)
			got := out()
			if strings.Contains(step.want, "(") {
				got = got[strings.LastIndex(got, " ")+1:] // each side has a result, the last one holds
			}
			wantText(t, step.record, got, step.want)
		}
	})
}

// Two independent tables whose rows are deleted within one commit interval.
func TestC048_deletionsThatWaitInCaches(t *testing.T) {
	b := millrace.NewBuilder()
	pairTables.join(textTable(b, "A"), textTable(b, "B"), millrace.NodeName("join")).ToStream().To(outTopic)
	d := milltest.New(t, build(t, b), milltest.ManualCommit())
	out := reader(d, outTopic)
	pipe(t, d, "A", "k=a@1")
	pipe(t, d, "B", "k=b@2")
	d.Commit()
	wantText(t, "the join", out(), "k=(a,b)@2 k=(a,b)@2")
	pipe(t, d, "A", "k=~@3")
	pipe(t, d, "B", "k=~@4")
	d.Commit()
	wantText(t, "the deletion", out(), "k=~@3")
}

func TestTableJoin_nilResultIsNoRow(t *testing.T) {
	b := millrace.NewBuilder()
	millrace.JoinTables(textTable(b, "A"), textTable(b, "B"), func(a, b string) textOf {
		if a == b {
			return nil
		}
		return str(a + b)
	}, millrace.As("join"), millrace.WithValue(nullText)).ToStream().To(millrace.NewTopic("out", serde.String, nullText))
	d := milltest.New(t, build(t, b), milltest.CacheBytes(0))
	steps{
		{"A", "k=x@1", ""},
		{"B", "k=y@2", "k=xy@2"},
		{"B", "k=x@3", "k=~@3"},
		{"B", "k=z@4", "k=xz@4"},
	}.run(t, d, reader(d, millrace.NewTopic("out", serde.String, nullText)))
}
