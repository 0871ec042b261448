package topology

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// mustBuild builds or fails the test.
func mustBuild(t *testing.T, b *Builder) *Topology {
	t.Helper()
	topo, err := b.Build(BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

// printTasks prints each task as "0_1: topic-1 other-1 | changelog-1".
func printTasks(p *Plan) string {
	var sb strings.Builder
	for _, task := range p.Tasks {
		fmt.Fprintf(&sb, "%d_%d:", task.Subtopology, task.Partition)
		for _, in := range task.Inputs {
			fmt.Fprintf(&sb, " %s-%d", in.Topic, in.Partition)
		}
		for i, c := range task.Changelogs {
			if i == 0 {
				sb.WriteString(" |")
			}
			fmt.Fprintf(&sb, " %s-%d", c.Topic, c.Partition)
			if c.Reused {
				sb.WriteString(" (reused)")
			}
		}
		sb.WriteByte('\n')
	}
	return sb.String()
}

// printTopics prints each internal topic with its partitions and settings.
func printTopics(specs []TopicSpec) string {
	var sb strings.Builder
	for _, s := range specs {
		fmt.Fprintf(&sb, "%s %d", s.Name, s.Partitions)
		for _, k := range slices.Sorted(maps.Keys(s.Configs)) {
			fmt.Fprintf(&sb, " %s=%s", k, s.Configs[k])
		}
		sb.WriteByte('\n')
	}
	return sb.String()
}

func TestC070_InternalTopics(t *testing.T) {
	topo := buildGraph(t, "c070-internal-topics")
	p, err := topo.Resolve("app", map[string]int32{"a": 3, "b": 2, "t": 2}, nil, DefaultResolveConfig())
	if err != nil {
		t.Fatal(err)
	}
	want := `app-g-repartition 3 cleanup.policy=delete message.timestamp.type=CreateTime retention.ms=-1 segment.bytes=52428800
app-gw-repartition 3 cleanup.policy=delete message.timestamp.type=CreateTime retention.ms=-1 segment.bytes=52428800
app-gs-repartition 3 cleanup.policy=delete message.timestamp.type=CreateTime retention.ms=-1 segment.bytes=52428800
app-five-repartition 5 cleanup.policy=delete message.timestamp.type=CreateTime retention.ms=-1 segment.bytes=52428800
`
	if diff := cmp.Diff(want, printTopics(p.Repartitions)); diff != "" {
		t.Errorf("repartition topics: -want +got\n%s", diff)
	}
	want = `app-cnt-changelog 3 cleanup.policy=compact message.timestamp.type=CreateTime
app-wcnt-changelog 3 cleanup.policy=compact,delete message.timestamp.type=CreateTime retention.ms=108000000
app-scnt-changelog 3 cleanup.policy=compact,delete message.timestamp.type=CreateTime retention.ms=87300000
app-ver-changelog 2 cleanup.policy=compact message.timestamp.type=CreateTime min.compaction.lag.ms=93600000
`
	if diff := cmp.Diff(want, printTopics(p.Changelogs)); diff != "" {
		t.Errorf("changelogs: -want +got\n%s", diff)
	}
	for _, s := range slices.Concat(p.Repartitions, p.Changelogs) {
		if s.ReplicationFactor != -1 {
			t.Errorf("%s has replication factor %d, want the broker's default", s.Name, s.ReplicationFactor)
		}
	}
}

func TestC064_OneRepartitionTopic(t *testing.T) {
	for name, want := range map[string]string{
		"c064-select-key-twice": "app-KSTREAM-AGGREGATE-STATE-STORE-0000000004-repartition",
		"c064-group-twice":      "app-KSTREAM-AGGREGATE-STATE-STORE-0000000002-repartition",
	} {
		topo := buildGraph(t, name)
		p, err := topo.Resolve("app", map[string]int32{"in": 4}, nil, DefaultResolveConfig())
		if err != nil {
			t.Fatal(err)
		}
		if len(topo.Subtopologies()) != 2 || len(p.Repartitions) != 1 || p.Repartitions[0].Name != want || p.Repartitions[0].Partitions != 4 {
			t.Errorf("%s: got %d sub-topologies and %v, want 2 and %s with 4 partitions", name, len(topo.Subtopologies()), p.Repartitions, want)
		}
	}
}

// joinOf builds a windowed join of topics a and b; with a repartition topic of that many partitions (0: derived) before it
// on a's side if repartition is set.
func joinOf(t *testing.T, repartition bool, partitions int32) *Topology {
	t.Helper()
	b := NewBuilder()
	b.AddSource(Source{Name: "a-source", Topics: []string{"a"}, Pos: at(1)})
	left := "a-source"
	if repartition {
		b.AddProcessor(Processor{Name: "select", Parents: []string{"a-source"}, Pos: at(2)})
		b.InternalTopic(RepartitionTopic{Name: "join-left-repartition", Partitions: partitions, Pos: at(3)})
		b.AddSink(Sink{Name: "left-sink", Topic: "join-left-repartition", Parents: []string{"select"}, Pos: at(3)})
		left = "left-source"
		b.AddSource(Source{Name: left, Topics: []string{"join-left-repartition"}, Pos: at(3)})
	}
	b.AddSource(Source{Name: "b-source", Topics: []string{"b"}, Pos: at(4)})
	b.AddProcessor(Processor{Name: "join-this", Parents: []string{left}, Pos: at(5)})
	b.AddProcessor(Processor{Name: "join-other", Parents: []string{"b-source"}, Pos: at(5)})
	b.AddProcessor(Processor{Name: "merge", Parents: []string{"join-this", "join-other"}, Pos: at(5)})
	b.AddStore(Store{Name: "join-this-store", Kind: Window, Logged: true, JoinWindow: true, WindowSizeMs: 10, RetentionMs: 10, Pos: at(5)}, "join-this", "join-other")
	b.CopartitionSources("Join", at(5), left, "b-source")
	return mustBuild(t, b)
}

func TestC069_CopartitionIsAlwaysChecked(t *testing.T) {
	cluster := map[string]int32{"a": 2, "b": 3}
	_, err := joinOf(t, false, 0).Resolve("app", cluster, nil, DefaultResolveConfig())
	var ce *CopartitionError
	if !errors.As(err, &ce) || !slices.Equal(ce.Topics, []TopicCount{{"a", 2}, {"b", 3}}) {
		t.Errorf("got %v, want a CopartitionError of a and b", err)
	}
	if want := `millrace: topics that are joined must have the same number of partitions, but "a" has 2, "b" has 3 (Join at main.go:5); give the topics the same number of partitions, or call Repartition on all of them but one before the join`; text(err) != want {
		t.Errorf("got %v\nwant %s", err, want)
	}

	p, err := joinOf(t, true, 0).Resolve("app", cluster, nil, DefaultResolveConfig())
	if err != nil {
		t.Fatal(err)
	}
	if r := p.Repartitions[0]; r.Name != "app-join-left-repartition" || r.Partitions != 3 {
		t.Errorf("got %s with %d partitions, want b's 3", r.Name, r.Partitions)
	}
	want := `0_0: a-0
0_1: a-1
1_0: app-join-left-repartition-0 b-0 | app-join-this-store-changelog-0
1_1: app-join-left-repartition-1 b-1 | app-join-this-store-changelog-1
1_2: app-join-left-repartition-2 b-2 | app-join-this-store-changelog-2
`
	if diff := cmp.Diff(want, printTasks(p)); diff != "" {
		t.Errorf("tasks: -want +got\n%s", diff)
	}
	if diff := cmp.Diff([][]string{{"app-join-left-repartition", "b"}}, p.Copartitions); diff != "" {
		t.Error(diff)
	}
	if got, want := printTopics(p.Changelogs), "app-join-this-store-changelog 3 cleanup.policy=delete message.timestamp.type=CreateTime retention.ms=86400010\n"; got != want {
		t.Errorf("got %swant %s", got, want)
	}

	_, err = joinOf(t, true, 5).Resolve("app", cluster, nil, DefaultResolveConfig())
	if want := `millrace: topics that are joined must have the same number of partitions, but "app-join-left-repartition" has 5, "b" has 3 (Join at main.go:5); "app-join-left-repartition" was given its number of partitions in the program: leave that out or make it fit`; text(err) != want {
		t.Errorf("got %v\nwant %s", err, want)
	}

	// b as a global table: no co-partitioning.
	g := buildGraph(t, "global-join")
	p, err = g.Resolve("app", map[string]int32{"clicks": 2, "countries": 3}, nil, DefaultResolveConfig())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := printTasks(p), "0_0: clicks-0\n0_1: clicks-1\n"; got != want {
		t.Errorf("tasks: got\n%swant\n%s", got, want)
	}
	if len(p.Globals) != 1 || len(p.Globals[0].Inputs) != 3 || p.Globals[0].Global.Store.Name != "countries-store" {
		t.Errorf("got globals %+v, want the three partitions of countries", p.Globals)
	}
	if len(p.Changelogs) != 0 {
		t.Errorf("a global store has no changelog, got %v", p.Changelogs)
	}
}

func TestMissingTopicsAreAllNamed(t *testing.T) {
	b := NewBuilder()
	b.AddSource(Source{Name: "s1", Topics: []string{"x", "there", "y"}, Pos: at(1)})
	b.AddSource(Source{Name: "s2", Topics: []string{"z"}, Pos: at(2)})
	b.AddSource(Source{Name: "s3", Pattern: "p.*", Pos: at(3)})
	b.AddGlobal(GlobalStore{Store: Store{Name: "g"}, Source: Source{Name: "gs", Topics: []string{"gt"}, Pos: at(4)}, Processor: Processor{Name: "gp"}})
	topo := mustBuild(t, b)
	// A topic may be deleted between the two requests that filled the arguments.
	_, err := topo.Resolve("app", map[string]int32{"there": 1}, map[string][]string{"p.*": {"p1"}}, DefaultResolveConfig())
	var me *MissingTopicsError
	if !errors.As(err, &me) {
		t.Fatalf("got %v, want a MissingTopicsError", err)
	}
	want := []MissingTopic{{"x", "s1", at(1)}, {"y", "s1", at(1)}, {"z", "s2", at(2)}, {"p1", "s3", at(3)}, {"gt", "gs", at(4)}}
	if diff := cmp.Diff(want, me.Topics); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(err.Error(), `"x" (main.go:1), "y" (main.go:1), "z" (main.go:2), "p1" (main.go:3), "gt" (main.go:4); create them`) {
		t.Errorf("got %v", err)
	}
}

func TestPatternSources(t *testing.T) {
	b := NewBuilder()
	b.AddSource(Source{Name: "orders", Pattern: "orders-[0-9]+", Pos: at(1)})
	b.AddSource(Source{Name: "all", Pattern: "app.*|other", Pos: at(2)})
	b.AddProcessor(Processor{Name: "step", Parents: []string{"orders"}})
	b.AddStore(Store{Name: "s", Logged: true}, "step")
	b.InternalTopic(RepartitionTopic{Name: "r-repartition", Pos: at(3)})
	b.AddSink(Sink{Name: "r-sink", Topic: "r-repartition", Parents: []string{"step"}})
	b.AddSource(Source{Name: "r-source", Topics: []string{"r-repartition"}})
	topo := mustBuild(t, b)
	if got := topo.Patterns(); !slices.Equal(got, []string{"orders-[0-9]+", "app.*|other"}) {
		t.Errorf("got patterns %v", got)
	}

	cluster := map[string]int32{"orders-2": 1, "orders-10": 2, "other": 1, "app-r-repartition": 2, "app-s-changelog": 2, "application": 1}
	p, err := topo.Resolve("app", cluster, map[string][]string{
		// xorders-1 is no match: patterns match whole names. Own internal topics are never input.
		"orders-[0-9]+": {"orders-2", "orders-10", "xorders-1"},
		"app.*|other":   {"other", "app-r-repartition", "app-s-changelog", "application"},
	}, DefaultResolveConfig())
	if err != nil {
		t.Fatal(err)
	}
	want := `0_0: orders-10-0 orders-2-0 | app-s-changelog-0
0_1: orders-10-1 | app-s-changelog-1
1_0: application-0 other-0
2_0: app-r-repartition-0
2_1: app-r-repartition-1
`
	if diff := cmp.Diff(want, printTasks(p)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if p.Tasks[0].Inputs[0].Source.Name != "orders" {
		t.Errorf("got source %q for %v", p.Tasks[0].Inputs[0].Source.Name, p.Tasks[0].Inputs[0])
	}

	// Nothing matches: no tasks, and no number for the topic behind.
	_, err = topo.Resolve("app", nil, nil, DefaultResolveConfig())
	if want := `the repartition topic "app-r-repartition" (main.go:3) has no known number of partitions`; !strings.Contains(text(err), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	// It has one once the topic exists.
	p, err = topo.Resolve("app", map[string]int32{"app-r-repartition": 2}, nil, DefaultResolveConfig())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := printTasks(p), "2_0: app-r-repartition-0\n2_1: app-r-repartition-1\n"; got != want || len(p.Changelogs) != 0 {
		t.Errorf("got tasks\n%sand changelogs %v, want\n%sand none", got, p.Changelogs, want)
	}
}

func TestTopicOfTwoPatterns(t *testing.T) {
	b := NewBuilder()
	b.AddSource(Source{Name: "one", Pattern: "a.*", Pos: at(1)})
	b.AddSource(Source{Name: "two", Pattern: ".*b", Pos: at(2)})
	_, err := mustBuild(t, b).Resolve("app", map[string]int32{"ab": 1}, map[string][]string{"a.*": {"ab"}, ".*b": {"ab"}}, DefaultResolveConfig())
	if want := `millrace: the topic "ab" matches the pattern "a.*" (main.go:1) and the pattern ".*b" (main.go:2); make one of them narrower`; text(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestUnevenInputsWithoutJoin(t *testing.T) {
	// A merge needs no co-partitioning: task 2 has only one input.
	topo := buildGraph(t, "cogroup")
	_, err := topo.Resolve("app", map[string]int32{"a": 3, "b": 1, "c": 2}, nil, DefaultResolveConfig())
	var ce *CopartitionError
	if !errors.As(err, &ce) {
		t.Errorf("a cogroup is joined by key; got %v", err)
	}
	p, err := buildGraph(t, "branches-merge").Resolve("app", map[string]int32{"in": 2}, nil, DefaultResolveConfig())
	if err != nil || printTasks(p) != "0_0: in-0\n0_1: in-1\n" {
		t.Errorf("got %v", err)
	}
	p, err = buildGraph(t, "c070-internal-topics").Resolve("app", map[string]int32{"a": 3, "b": 2, "t": 1}, nil, DefaultResolveConfig())
	if err != nil {
		t.Fatal(err)
	}
	if got := printTasks(p); !strings.HasPrefix(got, "0_0: a-0 b-0\n0_1: a-1 b-1\n0_2: a-2\n") {
		t.Errorf("got\n%s", got)
	}
}

func TestReusedSourceTopic(t *testing.T) {
	topo := buildGraph(t, "optimized")
	p, err := topo.Resolve("app", map[string]int32{"users": 2, "in": 6}, nil, DefaultResolveConfig())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := printTopics(p.Changelogs), "app-count-changelog 2 cleanup.policy=compact message.timestamp.type=CreateTime\napp-reduce-changelog 2 cleanup.policy=compact message.timestamp.type=CreateTime\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got, want := printTasks(p), "0_0: users-0 app-count-repartition-0 | app-count-changelog-0 app-reduce-changelog-0 users-0 (reused)\n"; !strings.HasPrefix(got, want) {
		t.Errorf("got\n%swant first\n%s", got, want)
	}
}

func TestTopicConfigPrecedence(t *testing.T) {
	b := NewBuilder()
	simple(b)
	b.AddStore(Store{Name: "kv", Logged: true, TopicConfigs: map[string]string{"cleanup.policy": "compact,delete", "min.insync.replicas": "3"}}, "step")
	b.AddStore(Store{Name: "w", Kind: Window, Logged: true, RetentionMs: 1000}, "step")
	b.AddStore(Store{Name: "w2", Kind: Window, Logged: true, RetentionMs: 1000, TopicConfigs: map[string]string{"retention.ms": "7"}}, "step")
	b.AddStore(Store{Name: "j", Kind: Window, Logged: true, JoinWindow: true, RetentionMs: 1<<63 - 1, TopicConfigs: map[string]string{"cleanup.policy": "compact"}}, "step")
	b.AddStore(Store{Name: "v", Kind: Versioned, Logged: true, HistoryMs: 1000}, "step")
	b.AddStore(Store{Name: "off"}, "step")
	b.InternalTopic(RepartitionTopic{Name: "r-repartition"})
	b.AddSink(Sink{Name: "r-sink", Topic: "r-repartition", Parents: []string{"step"}})
	b.AddSource(Source{Name: "r-source", Topics: []string{"r-repartition"}})
	topo := mustBuild(t, b)
	p, err := topo.Resolve("app", map[string]int32{"t": 1}, nil, ResolveConfig{
		TopicConfigs:                map[string]string{"min.insync.replicas": "2", "retention.ms": "5", "min.compaction.lag.ms": "6", "segment.bytes": "8"},
		ReplicationFactor:           3,
		WindowAdditionalRetentionMs: 50,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `app-r-repartition 1 cleanup.policy=delete message.timestamp.type=CreateTime min.compaction.lag.ms=6 min.insync.replicas=2 retention.ms=5 segment.bytes=8
app-kv-changelog 1 cleanup.policy=compact,delete message.timestamp.type=CreateTime min.compaction.lag.ms=6 min.insync.replicas=3 retention.ms=5 segment.bytes=8
app-w-changelog 1 cleanup.policy=compact,delete message.timestamp.type=CreateTime min.compaction.lag.ms=6 min.insync.replicas=2 retention.ms=1050 segment.bytes=8
app-w2-changelog 1 cleanup.policy=compact,delete message.timestamp.type=CreateTime min.compaction.lag.ms=6 min.insync.replicas=2 retention.ms=7 segment.bytes=8
app-j-changelog 1 cleanup.policy=delete message.timestamp.type=CreateTime min.compaction.lag.ms=6 min.insync.replicas=2 retention.ms=9223372036854775807 segment.bytes=8
app-v-changelog 1 cleanup.policy=compact message.timestamp.type=CreateTime min.compaction.lag.ms=86401000 min.insync.replicas=2 retention.ms=5 segment.bytes=8
`
	all := slices.Concat(p.Repartitions, p.Changelogs)
	if diff := cmp.Diff(want, printTopics(all)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	for _, s := range all {
		if s.ReplicationFactor != 3 {
			t.Errorf("%s has replication factor %d, want 3", s.Name, s.ReplicationFactor)
		}
	}
}

func TestResolveRefusesBadSettings(t *testing.T) {
	b := NewBuilder()
	simple(b)
	b.AddStore(Store{Name: strings.Repeat("s", 240), Logged: true}, "step")
	topo := mustBuild(t, b)
	cluster := map[string]int32{"t": 1}
	_, err := topo.Resolve("my app", cluster, nil, DefaultResolveConfig())
	if want := `millrace: application id: the name "my app" has the character ' '; only ASCII letters, digits, '.', '_' and '-' are allowed`; text(err) != want {
		t.Errorf("got %v", err)
	}
	_, err = topo.Resolve("app", cluster, nil, ResolveConfig{TopicConfigs: map[string]string{"retention.bites": "1"}, ReplicationFactor: -2, WindowAdditionalRetentionMs: -1})
	want := `millrace: replication factor -2 of internal topics: give a positive number, or -1 for the broker's default
millrace: additional retention of -1 ms for changelogs of windows: it cannot be negative
millrace: settings of internal topics: topics have no setting "retention.bites"; did you mean "retention.bytes"?
millrace: the internal topic "app-` + strings.Repeat("s", 240) + `-changelog" would have a name of 254 characters, and 249 are allowed; shorten the application id or the name of the step or store`
	if text(err) != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}
