package milltest_test

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/serde"
)

// graceJoin joins the topic l with the versioned table of the topic r.
func graceJoin(t *testing.T, left bool, grace time.Duration, opts ...milltest.Option) (*milltest.Driver, func() string) {
	t.Helper()
	b := millrace.NewBuilder()
	rows := millrace.TableFrom(b, millrace.NewTopic("r", serde.String, serde.String), millrace.As("rows"), millrace.Versioned(time.Minute))
	l := millrace.From(b, millrace.NewTopic("l", serde.String, serde.String))
	out := millrace.NewTopic("out", serde.String, serde.String)
	if left {
		millrace.LeftJoinTable(l, rows, func(v, row string, ok bool) string {
			if !ok {
				row = "null"
			}
			return v + "-" + row
		}, millrace.As("join"), millrace.JoinGrace(grace)).To(out)
	} else {
		millrace.JoinTable(l, rows, func(v, row string) string { return v + "-" + row }, millrace.As("join"), millrace.JoinGrace(grace)).To(out)
	}
	d := milltest.New(t, build(t, b), opts...)
	return d, reader(d, out)
}

// The table of the join with a versioned table and a grace period of 2 ms, as Kafka Streams 4.4.0 gives it.
func TestJoinGrace_table(t *testing.T) {
	input := []string{"l ~@1", "r ~@2", "l A@3", "r a@4", "l B@5", "r b@6", "l ~@7", "r ~@8", "l C@9", "r c@10", "r ~@11", "l ~@12", "r ~@13",
		"r d@7", "l D@6", "l ~@2", "r ~@3", "r e@14", "l E@15", "l ~@10", "r ~@9", "l F@4", "r f@3"}
	for name, c := range map[string]struct {
		left bool
		want map[int]string
	}{
		"inner": {false, map[int]string{9: "B-a@5", 15: "D-b@6", 22: "F-a@4"}},
		"left":  {true, map[int]string{5: "A-null@3", 9: "B-a@5", 15: "D-b@6", 19: "C-null@9", 22: "F-a@4"}},
	} {
		for where, opts := range map[string][]milltest.Option{"in memory": nil, "on disk": {milltest.OnDisk()}} {
			for _, restarts := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %s restarts=%v", name, where, restarts), func(t *testing.T) {
					d, out := graceJoin(t, c.left, 2*ms, opts...)
					for i, in := range input {
						topic, rest, _ := strings.Cut(in, " ")
						pipe(t, d, topic, "k="+rest)
						want := c.want[i+1]
						if want != "" {
							want = "k=" + want
						}
						wantText(t, fmt.Sprintf("%d. %s", i+1, in), out(), want)
						if restarts {
							restart(t, d)
						}
					}
				})
			}
		}
	}
}

// Rows leave by time, key bytes, and then as they came; late ones are joined at once and move no time.
func TestJoinGrace_order(t *testing.T) {
	d, out := graceJoin(t, true, 10*ms)
	steps{
		{"r", "b=row@0", ""},
		{"l", "b=1@5", ""}, {"l", "a=2@5", ""}, {"l", "b=3@5", ""}, {"l", "ab=4@4", ""}, {"l", "a=5@6", ""},
		{"l", "~=6@99", "~=6-null@99"}, // no row can meet it: it does not wait, and moves no time
		{"l", "z=~@99", ""},
		{"l", "z=7@15", "ab=4-null@4 a=2-null@5 b=1-row@5 b=3-row@5"},
		{"l", "b=8@4", "b=8-row@4"},
		{"l", "b=9@5", "b=9-row@5"},
		{"l", "z=10@40", "a=5-null@6 z=7-null@15"},
	}.run(t, d, out)
	wantDropped(t, d, "join", millrace.DroppedNullValue, 1)
}

// A row keeps its headers, and its bytes in the changelog are those of Kafka Streams 4.4.0.
func TestJoinGrace_changelogAndHeaders(t *testing.T) {
	d, _ := graceJoin(t, false, 2*ms, milltest.ApplicationID("app"))
	pipe(t, d, "r", "k=row@0")
	if err := d.PipeRaw("l", 0, []byte("k"), []byte("v"), serde.Headers{{Key: "h", Value: []byte("1")}}, 3*ms); err != nil {
		t.Fatal(err)
	}
	restart(t, d)
	pipe(t, d, "l", "k=w@5")
	got := d.ReadRaw("out")
	if len(got) != 1 || string(got[0].Value) != "v-row" || fmt.Sprint(got[0].Headers) != fmt.Sprint(serde.Headers{{Key: "h", Value: []byte("1")}}) {
		t.Errorf("got %v", got)
	}
	var lines []string
	for _, r := range d.ReadRaw("app-join-Buffer-changelog") {
		lines = append(lines, fmt.Sprintf("%s %s %d", hex.EncodeToString(r.Key), hex.EncodeToString(r.Value), len(r.Headers)))
	}
	wantText(t, "changelog", strings.Join(lines, "\n"), strings.Join([]string{
		"0000000000000000036b00000001 00000000000000030000000000000000000000016c0000000000000001000000016800000001" + "31" + "ffffffffffffffff00000001760000000000000000 0",
		"0000000000000000056b00000002 00000000000000050000000000000001000000016c0000000000000000ffffffffffffffff00000001770000000000000000 0",
		"0000000000000000036b00000001  0",
	}, "\n"))
}
