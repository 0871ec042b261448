package millrace_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// The internal topics of steps of the DSL. The test of this case against a broker is in test/integration.
func TestC070_InternalTopicsOfTheDSL(t *testing.T) {
	b := millrace.NewBuilder()
	merged := from(b, "a").Merge(from(b, "b"))
	group := func(name string) millrace.Grouped[string, string] {
		return millrace.GroupBy(merged, byValue, millrace.RepartitionName(name), millrace.WithKey(serde.String), millrace.WithValue(serde.String))
	}
	store := func(name string, more ...millrace.StepOption) []millrace.StepOption {
		return append(more, millrace.StoreName(name))
	}
	hours := window.Tumbling(time.Hour).Grace(30 * time.Minute)
	millrace.Count(group("g"), store("cnt")...)
	windows := group("gw")
	millrace.CountWindows(windows.WindowBy(hours), store("wcnt", millrace.Retain(6*time.Hour))...)
	millrace.CountWindows(windows.WindowBy(hours), store("closed", millrace.EmitOnClose())...)
	millrace.CountWindows(windows.WindowBy(window.Sliding(time.Hour).Grace(time.Minute)), store("sliding")...)
	millrace.CountWindows(windows.WindowBy(window.Days(time.UTC)), store("days")...)
	millrace.CountWindows(windows.WindowBy(window.Unlimited()), store("unlimited")...)
	millrace.CountSessions(group("gs").SessionBy(window.Session(10*time.Minute).Grace(5*time.Minute)), store("scnt")...)
	tableOf(b, "t", store("ver", millrace.Versioned(2*time.Hour))...)
	to(merged.Repartition(millrace.As("five"), millrace.Partitions(5), millrace.WithKey(serde.String), millrace.WithValue(serde.String)), "out")
	built, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	p, err := built.Internal().Resolve("app", map[string]int32{"a": 3, "b": 2, "t": 2}, nil, topology.DefaultResolveConfig())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range slices.Concat(p.Repartitions, p.Changelogs) {
		text := fmt.Sprintf("%s %d", s.Name, s.Partitions)
		for _, k := range slices.Sorted(maps.Keys(s.Configs)) {
			text += fmt.Sprintf(" %s=%s", k, s.Configs[k])
		}
		got = append(got, text)
	}
	slices.Sort(got)
	const repartition = " cleanup.policy=delete message.timestamp.type=CreateTime retention.ms=-1 segment.bytes=52428800"
	const compact = " cleanup.policy=compact message.timestamp.type=CreateTime"
	const cut = " cleanup.policy=compact,delete message.timestamp.type=CreateTime retention.ms="
	want := []string{
		"app-closed-changelog 3" + cut + "91800000", // an hour and a half, and a day
		"app-cnt-changelog 3" + compact,
		"app-days-changelog 3" + cut + "172800000", // a day of 24 hours, and a day
		"app-five-repartition 5" + repartition,
		"app-g-repartition 3" + repartition,
		"app-gs-repartition 3" + repartition,
		"app-gw-repartition 3" + repartition,
		"app-scnt-changelog 3" + cut + "87300000",
		"app-sliding-changelog 3" + cut + "93660000", // two hours and a minute, and a day
		"app-unlimited-changelog 3" + cut + "9223372036854775807",
		"app-ver-changelog 2" + compact + " min.compaction.lag.ms=93600000",
		"app-wcnt-changelog 3" + cut + "108000000",
	}
	if diff := strings.Join(got, "\n"); diff != strings.Join(want, "\n") {
		t.Errorf("internal topics:\n%s\nwant\n%s", diff, strings.Join(want, "\n"))
	}
}
