package topology

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

func at(line int) Pos { return Pos{File: "/home/me/app/main.go", Line: line} }

// simple adds a source "in" of topic "t" and a step "step" behind it.
func simple(b *Builder) {
	b.AddSource(Source{Name: "in", Topics: []string{"t"}, Pos: at(1)})
	b.AddProcessor(Processor{Name: "step", Parents: []string{"in"}, Pos: at(2)})
}

func TestC123_OneCounterForAllNames(t *testing.T) {
	// groupByKey().count().to(out), with and without a filter in front: the store's number comes before its step's.
	for _, tt := range []struct {
		filter bool
		want   []string
	}{
		{false, []string{"KSTREAM-SOURCE-0000000000", "KSTREAM-AGGREGATE-STATE-STORE-0000000001", "KSTREAM-AGGREGATE-0000000002", "KTABLE-TOSTREAM-0000000003", "KSTREAM-SINK-0000000004"}},
		{true, []string{"KSTREAM-SOURCE-0000000000", "KSTREAM-FILTER-0000000001", "KSTREAM-AGGREGATE-STATE-STORE-0000000002", "KSTREAM-AGGREGATE-0000000003", "KTABLE-TOSTREAM-0000000004", "KSTREAM-SINK-0000000005"}},
	} {
		b := NewBuilder()
		got := []string{b.NextName("KSTREAM-SOURCE-")}
		if tt.filter {
			got = append(got, b.NextName("KSTREAM-FILTER-"))
		}
		got = append(got, b.NextStoreName("KSTREAM-AGGREGATE-"), b.NextName("KSTREAM-AGGREGATE-"), b.NextName("KTABLE-TOSTREAM-"), b.NextName("KSTREAM-SINK-"))
		if g, w := strings.Join(got, " "), strings.Join(tt.want, " "); g != w {
			t.Errorf("filter %v: got %s, want %s", tt.filter, g, w)
		}
	}
}

func TestC122_TwoStoresWithOneName(t *testing.T) {
	global := GlobalStore{
		Store:     Store{Name: "st", Pos: at(20)},
		Source:    Source{Name: "global-in", Topics: []string{"g"}, Pos: at(20)},
		Processor: Processor{Name: "global-step", Pos: at(20)},
	}
	def := new(int)
	for _, tt := range []struct {
		name  string
		build func(b *Builder)
		want  string // empty: accepted
	}{
		{"two counts", func(b *Builder) {
			b.AddStore(Store{Name: "cnt", Pos: at(10)}, "step")
			b.AddStore(Store{Name: "cnt", Pos: at(11)}, "step")
		}, `main.go:11: a different store named "cnt" exists already, declared at main.go:10; give one of them another name`},
		{"global, then table", func(b *Builder) {
			b.AddGlobal(global)
			b.AddStore(Store{Name: "st", Pos: at(21)}, "step")
		}, `main.go:21: a different global store named "st" exists already, declared at main.go:20; give one of them another name`},
		{"table, then global", func(b *Builder) {
			b.AddStore(Store{Name: "st", Pos: at(19)}, "step")
			b.AddGlobal(global)
		}, `main.go:20: a different store named "st" exists already, declared at main.go:19; give one of them another name`},
		{"two definitions", func(b *Builder) {
			b.AddStore(Store{Name: "s", Def: new(int), Pos: at(10)}, "step")
			b.AddStore(Store{Name: "s", Def: new(int), Pos: at(11)}, "step")
		}, `main.go:11: a different store named "s" exists already, declared at main.go:10; give one of them another name`},
		{"two definitions that cannot be compared", func(b *Builder) {
			b.AddStore(Store{Name: "s", Def: []int{}, Pos: at(10)}, "step")
			b.AddStore(Store{Name: "s", Def: []int{}, Pos: at(11)}, "step")
		}, `main.go:11: a different store named "s" exists already, declared at main.go:10; give one of them another name`},
		{"two definitions that only look comparable", func(b *Builder) {
			type def struct{ inner any }
			b.AddStore(Store{Name: "s", Def: def{[]int{}}, Pos: at(10)}, "step")
			b.AddStore(Store{Name: "s", Def: def{[]int{}}, Pos: at(11)}, "step")
		}, `main.go:11: a different store named "s" exists already, declared at main.go:10; give one of them another name`},
		{"the same definition twice", func(b *Builder) {
			b.AddStore(Store{Name: "s", Def: def, Pos: at(10)}, "step")
			b.AddStore(Store{Name: "s", Def: def, Pos: at(11)}, "step", "other")
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := NewBuilder()
			simple(b)
			b.AddProcessor(Processor{Name: "other", Parents: []string{"in"}})
			tt.build(b)
			topo, err := b.Build(BuildOptions{})
			if tt.want != "" {
				if err == nil || err.Error() != tt.want {
					t.Errorf("got error %v, want %s", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if users := topo.Store("s").Users; len(users) != 2 || users[0].Name != "step" || users[1].Name != "other" {
				t.Errorf("got users %v, want step and other", users)
			}
		})
	}
}

func TestC125_RetentionShorterThanTheWindow(t *testing.T) {
	const day = 24 * 60 * 60 * 1000
	for _, tt := range []struct {
		store Store
		want  string
	}{
		{Store{Kind: Window, WindowSizeMs: 60, GraceMs: 60, RetentionMs: 100},
			`main.go:3: store "s" keeps its windows for 100 ms (retention), which is less than window size 60 ms plus grace 60 ms; set a retention of at least 120 ms`},
		{Store{Kind: Session, WindowSizeMs: 60, GraceMs: 60, RetentionMs: 100},
			`main.go:3: store "s" keeps its windows for 100 ms (retention), which is less than inactivity gap 60 ms plus grace 60 ms; set a retention of at least 120 ms`},
		{Store{Kind: Window, WindowSizeMs: 60, GraceMs: 60, RetentionMs: 120}, ""},
		{Store{Kind: Window, WindowSizeMs: 3 * day, GraceMs: 2 * day, RetentionMs: 5 * day}, ""},
		{Store{Kind: KeyValue, RetentionMs: 1, WindowSizeMs: 2}, ""},
		{Store{Kind: Window, WindowSizeMs: 1 << 62, GraceMs: 1 << 62, RetentionMs: 1<<63 - 1}, ""},
		{Store{Kind: Window, RetentionMs: -1}, `main.go:3: store "s" has a negative retention: -1 ms`},
		{Store{Kind: Versioned, HistoryMs: -1}, `main.go:3: store "s" has a negative history retention: -1 ms`},
		{Store{Kind: KeyValue, JoinWindow: true}, `main.go:3: store "s" is a join window but of kind key-value`},
	} {
		b := NewBuilder()
		simple(b)
		tt.store.Name, tt.store.Pos = "s", at(3)
		b.AddStore(tt.store, "step")
		_, err := b.Build(BuildOptions{})
		if got := text(err); got != tt.want {
			t.Errorf("%+v:\ngot  %s\nwant %s", tt.store, got, tt.want)
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestBuildErrors(t *testing.T) {
	long := strings.Repeat("x", 250)
	for _, tt := range []struct {
		name  string
		build func(b *Builder)
		want  string // all errors, a line each
	}{
		{"step name twice", func(b *Builder) {
			b.AddProcessor(Processor{Name: "step", Parents: []string{"in"}, Pos: at(3)})
		}, `main.go:3: a step named "step" exists already, declared at main.go:2; step names must be unique`},
		{"bad names", func(b *Builder) {
			b.AddProcessor(Processor{Name: "a b", Parents: []string{"in"}, Pos: at(3)})
			b.AddProcessor(Processor{Name: "..", Parents: []string{"in"}, Pos: at(4)})
			b.AddProcessor(Processor{Name: "", Parents: []string{"in"}, Pos: at(5)})
			b.AddProcessor(Processor{Name: long, Parents: []string{"in"}, Pos: at(6)})
			b.AddSink(Sink{Name: "out", Topic: "größe", Parents: []string{"in"}, Pos: at(7)})
			b.AddSource(Source{Name: "in2", Topics: []string{"."}, Pos: at(8)})
			b.AddStore(Store{Name: "s/t", Pos: at(9)}, "step")
		}, `main.go:3: step: the name "a b" has the character ' '; only ASCII letters, digits, '.', '_' and '-' are allowed
main.go:4: step: the name ".." is not allowed: it may be neither "." nor ".."
main.go:5: step: the name is empty
main.go:6: step: the name "` + long + `" is 250 characters long; at most 249 are allowed
main.go:7: sink "out": topic: the name "größe" has the character 'ö'; only ASCII letters, digits, '.', '_' and '-' are allowed
main.go:8: source "in2": topic: the name "." is not allowed: it may be neither "." nor ".."
main.go:9: store: the name "s/t" has the character '/'; only ASCII letters, digits, '.', '_' and '-' are allowed`},
		{"unknown parent", func(b *Builder) {
			b.AddProcessor(Processor{Name: "x", Parents: []string{"nobody"}, Pos: at(3)})
			b.AddSink(Sink{Name: "out", Topic: "o", Pos: at(4)})
		}, `main.go:4: sink "out" has no parent, so no record would ever reach it
main.go:3: step "x": its parent "nobody" does not exist`},
		{"sink as a parent", func(b *Builder) {
			b.AddSink(Sink{Name: "out", Topic: "o", Parents: []string{"in"}, Pos: at(3)})
			b.AddProcessor(Processor{Name: "x", Parents: []string{"out"}, Pos: at(4)})
		}, `main.go:4: step "x": its parent "out" is a sink, and nothing can follow a sink`},
		{"parent later", func(b *Builder) {
			b.AddProcessor(Processor{Name: "x", Parents: []string{"y"}, Pos: at(3)})
			b.AddProcessor(Processor{Name: "y", Parents: []string{"in"}, Pos: at(4)})
		}, `main.go:3: step "x": its parent "y" is added after it, at main.go:4; add parents first`},
		{"own parent", func(b *Builder) {
			b.AddProcessor(Processor{Name: "x", Parents: []string{"in", "x"}, Pos: at(3)})
		}, `main.go:3: the steps go round in a circle: x -> x`},
		{"cycle", func(b *Builder) {
			b.AddProcessor(Processor{Name: "x", Parents: []string{"in", "z"}, Pos: at(3)})
			b.AddProcessor(Processor{Name: "y", Parents: []string{"x"}, Pos: at(4)})
			b.AddProcessor(Processor{Name: "z", Parents: []string{"y"}, Pos: at(5)})
			b.AddProcessor(Processor{Name: "w", Parents: []string{"z"}, Pos: at(6)})
		}, `main.go:3: the steps go round in a circle: x -> y -> z -> x`},
		{"unknown store", func(b *Builder) {
			b.AddProcessor(Processor{Name: "x", Parents: []string{"in"}, Stores: []string{"nowhere"}, Pos: at(3)})
			b.Connect("step", "nothing")
		}, `main.go:3: "x" uses the store "nowhere", which does not exist; add it to the builder
main.go:2: "step" uses the store "nothing", which does not exist; add it to the builder`},
		{"store at the wrong node", func(b *Builder) {
			b.AddSink(Sink{Name: "out", Topic: "o", Parents: []string{"in"}, Pos: at(3)})
			b.AddStore(Store{Name: "a", Pos: at(4)}, "in")
			b.AddStore(Store{Name: "b", Pos: at(5)}, "out")
			b.AddStore(Store{Name: "c", Pos: at(6)}, "nobody")
		}, `main.go:4: the store "a" is connected to the source "in"; only a step between source and sink can use a store
main.go:5: the store "b" is connected to the sink "out"; only a step between source and sink can use a store
main.go:6: the store "c" is connected to "nobody", which does not exist`},
		{"store without a step", func(b *Builder) {
			b.AddStore(Store{Name: "s", Pos: at(3)})
		}, `main.go:3: no step uses the store "s"; connect one or leave the store out`},
		{"global store connected", func(b *Builder) {
			b.AddGlobal(GlobalStore{Store: Store{Name: "g", Pos: at(3)}, Source: Source{Name: "gs", Topics: []string{"gt"}, Pos: at(3)}, Processor: Processor{Name: "gp", Pos: at(3)}})
			b.Connect("step", "g")
			b.AddProcessor(Processor{Name: "x", Parents: []string{"gp"}, Pos: at(4)})
			b.AddStore(Store{Name: "s", Pos: at(5)}, "gp")
		}, `main.go:4: step "x": its parent "gp" belongs to a global store, and nothing can follow it
main.go:2: "step" is connected to the global store "g"; every step may use a global store without that
main.go:5: the store "s" is connected to "gp", which belongs to a global store`},
		{"global store of the wrong kind", func(b *Builder) {
			b.AddGlobal(GlobalStore{Store: Store{Name: "g", Kind: Versioned}, Source: Source{Name: "gs", Pattern: "g.*", Pos: at(3)}, Processor: Processor{Name: "gp"}})
		}, `main.go:3: global store "g" is versioned, which a global store cannot be
main.go:3: global store "g" must read exactly one topic by its name`},
		{"topic read twice", func(b *Builder) {
			b.AddSource(Source{Name: "in2", Topics: []string{"t"}, Pos: at(3)})
		}, `main.go:3: the topic "t" is read by source "in" already, declared at main.go:1; use one stream or table of it for both`},
		{"overlapping topics", func(b *Builder) {
			b.AddSource(Source{Name: "in2", Topics: []string{"u", "t"}, Pos: at(3)})
		}, `main.go:3: the topics [u t] of source "in2" overlap with the topics [t] of source "in", declared at main.go:1, and are not the same set (both have "t"); read them as separate streams and merge those`},
		{"topic of a global store read by tasks", func(b *Builder) {
			b.AddGlobal(GlobalStore{Store: Store{Name: "g"}, Source: Source{Name: "gs", Topics: []string{"t"}, Pos: at(3)}, Processor: Processor{Name: "gp"}})
		}, `main.go:3: the topic "t" is read by source "in" at main.go:1 already; it cannot fill a global store and be read by tasks too`},
		{"pattern and name", func(b *Builder) {
			b.AddSource(Source{Name: "p", Pattern: "[a-z]", Pos: at(3)})
			b.AddSource(Source{Name: "u", Topics: []string{"u"}, Pos: at(4)})
			b.AddSource(Source{Name: "uu", Topics: []string{"uu"}, Pos: at(5)})
		}, `main.go:3: the pattern "[a-z]" of source "p" matches the topic "t", which source "in" reads already, declared at main.go:1; make the pattern narrower
main.go:3: the pattern "[a-z]" of source "p" matches the topic "u", which source "u" reads already, declared at main.go:4; make the pattern narrower`},
		{"pattern twice", func(b *Builder) {
			b.AddSource(Source{Name: "p", Pattern: "p.*", Pos: at(3)})
			b.AddSource(Source{Name: "q", Pattern: "p.*", Pos: at(4)})
		}, `main.go:4: the pattern "p.*" is read by source "p" already, declared at main.go:3; use one stream of it for both`},
		{"pattern of Java", func(b *Builder) {
			b.AddSource(Source{Name: "p", Pattern: "(?!x).*", Pos: at(3)})
		}, "main.go:3: source \"p\": the pattern \"(?!x).*\" does not compile: error parsing regexp: invalid or unsupported Perl syntax: `(?!`; patterns are written in Go's syntax (RE2), which has no look-around, back-references or possessive quantifiers"},
		{"sources", func(b *Builder) {
			b.AddSource(Source{Name: "a", Pos: at(3)})
			b.AddSource(Source{Name: "b", Topics: []string{"x"}, Pattern: "y", Pos: at(4)})
			b.AddSource(Source{Name: "c", Topics: []string{"z", "z"}, Pos: at(5)})
			b.AddSource(Source{Name: "d", Topics: []string{"w"}, Reset: ResetByDuration, Pos: at(6)})
			b.AddSource(Source{Name: "e", Topics: []string{"v"}, Reset: ResetLatest, ResetBack: time.Second, Pos: at(7)})
		}, `main.go:3: source "a" has no topics
main.go:4: source "b" has both topics and a pattern
main.go:5: source "c" names the topic "z" twice
main.go:6: source "d": offset reset by_duration with duration 0s; a positive duration belongs to by_duration and to no other
main.go:7: source "e": offset reset latest with duration 1s; a positive duration belongs to by_duration and to no other`},
		{"sinks", func(b *Builder) {
			b.AddSink(Sink{Name: "a", Parents: []string{"in"}, Pos: at(3)})
			b.AddSink(Sink{Name: "b", Topic: "x", Dynamic: "y", Parents: []string{"in"}, Pos: at(4)})
		}, `main.go:3: sink "a" has no topic
main.go:4: sink "b" has both the topic "x" and a choice per record`},
		{"repartition topics", func(b *Builder) {
			b.InternalTopic(RepartitionTopic{Name: "a-repartition", Pos: at(3)})
			b.InternalTopic(RepartitionTopic{Name: "b-repartition", Partitions: -1, Pos: at(4)})
			b.AddSink(Sink{Name: "b-sink", Topic: "b-repartition", Parents: []string{"in"}})
			b.InternalTopic(RepartitionTopic{Name: "a-repartition", Partitions: 3, Pos: at(5)})
			b.InternalTopic(RepartitionTopic{Name: "c d", Pos: at(6)})
			b.AddSource(Source{Name: "e", Topics: []string{"b-repartition", "e"}, Pos: at(7)})
		}, `main.go:4: repartition topic "b-repartition" has -1 partitions; give a positive number, or none to derive it
main.go:5: repartition topic "a-repartition" is declared with 3 partitions here and with 0 at main.go:3
main.go:6: repartition topic: topic: the name "c d" has the character ' '; only ASCII letters, digits, '.', '_' and '-' are allowed
main.go:7: source "e" reads the repartition topic "b-repartition" together with others or for a global store; it needs a source of its own
main.go:3: no sink writes the repartition topic "a-repartition"
main.go:6: no sink writes the repartition topic "c d"`},
		{"repartition topic without a reader", func(b *Builder) {
			b.InternalTopic(RepartitionTopic{Name: "a-repartition", Pos: at(3)})
			b.AddSink(Sink{Name: "a-sink", Topic: "a-repartition", Parents: []string{"in"}})
		}, `main.go:3: no source reads the repartition topic "a-repartition"`},
		{"co-partitioning", func(b *Builder) {
			for i, name := range []string{"a", "b"} {
				b.InternalTopic(RepartitionTopic{Name: name, Partitions: int32(4 - i), Pos: at(3)})
				b.AddSink(Sink{Name: name + "-sink", Topic: name, Parents: []string{"in"}})
				b.AddSource(Source{Name: name + "-source", Topics: []string{name}, Pos: at(4 + i)})
			}
			b.CopartitionSources("join", at(1), "a-source", "b-source")
			b.CopartitionSources("join", at(1), "a-source", "nobody")
			b.CopartitionSources("join", at(1), "a-source", "step")
		}, `main.go:4: repartition topics that are joined have different numbers of partitions: "b" has 3, "a" has 4
main.go:1: the source "nobody", whose topics must have as many partitions as others, does not exist
main.go:2: "step" is no source of tasks, so its partitions cannot be compared with those of others`},
		{"settings", func(b *Builder) {
			b.AddStore(Store{Name: "s", TopicConfigs: map[string]string{"retention": "1", "cleanup.policy": "compact", "clean.policy": "x"}, Pos: at(3)}, "step")
		}, `main.go:3: store "s": changelog settings: topics have no setting "clean.policy"; did you mean "cleanup.policy"?
main.go:3: store "s": changelog settings: topics have no setting "retention"; did you mean "retention.ms"?`},
		{"changelogs", func(b *Builder) {
			b.AddStore(Store{Name: "s", SourceTopic: "u", Pos: at(3)}, "step")
		}, `main.go:3: the store "s" has the source topic "u" as its changelog, but that is not one of the user's topics that its sub-topology reads by name`},
		{"one changelog for two", func(b *Builder) {
			b.AddStore(Store{Name: "s", SourceTopic: "t", Pos: at(3)}, "step")
			b.AddStore(Store{Name: "r", SourceTopic: "t", Pos: at(4)}, "step")
		}, `main.go:4: the stores "r" and "s" (main.go:3) have the same changelog, the source topic "t"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := NewBuilder()
			simple(b)
			tt.build(b)
			topo, err := b.Build(BuildOptions{})
			if got := text(err); got != tt.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, tt.want)
			}
			if topo != nil {
				t.Error("a topology came with the error")
			}
		})
	}
}

func TestErrorfKeepsPlaceAndCause(t *testing.T) {
	b := NewBuilder()
	b.Errorf(at(7), "no serde for %q: %w, %w", "orders", io.ErrUnexpectedEOF, io.ErrClosedPipe)
	_, err := b.Build(BuildOptions{})
	var be *BuildError
	if !errors.As(err, &be) || be.Pos != at(7) {
		t.Errorf("got %#v, want a BuildError at line 7", err)
	}
	if !errors.Is(err, io.ErrUnexpectedEOF) || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a cause is lost in %v", err)
	}
	if want := `main.go:7: no serde for "orders": unexpected EOF, io: read/write on closed pipe`; text(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestRequireNames(t *testing.T) {
	b := NewBuilder()
	simple(b)
	b.AddStore(Store{Name: b.NextStoreName("X-"), Auto: true, Pos: at(3)}, "step")
	b.AddStore(Store{Name: "named", Pos: at(4)}, "step")
	b.InternalTopic(RepartitionTopic{Name: "X-repartition", Auto: true, Pos: at(5)})
	b.AddSink(Sink{Name: "r-sink", Topic: "X-repartition", Parents: []string{"step"}})
	b.AddSource(Source{Name: "r-source", Topics: []string{"X-repartition"}})
	if _, err := b.Build(BuildOptions{}); err != nil {
		t.Errorf("generated names are allowed, got %v", err)
	}
	_, err := b.Build(BuildOptions{RequireNames: true})
	want := `main.go:3: the store "X-STATE-STORE-0000000000" has a generated name, which changes when steps are added before it; name it
main.go:5: the repartition topic "X-repartition" has a generated name, which changes when steps are added before it; name it`
	if got := text(err); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestFindSource(t *testing.T) {
	b := NewBuilder()
	b.AddSource(Source{Name: "two", Topics: []string{"a", "b"}, Reset: ResetLatest})
	b.AddSource(Source{Name: "pattern", Pattern: "x.*"})
	b.AddGlobal(GlobalStore{Store: Store{Name: "g"}, Source: Source{Name: "global", Topics: []string{"c"}}, Processor: Processor{Name: "gp"}})
	for _, tt := range []struct {
		topics  []string
		pattern string
		want    string
	}{
		{[]string{"b", "a"}, "", "two"},
		{[]string{"a"}, "", ""},
		{nil, "x.*", "pattern"},
		{nil, "y.*", ""},
		{[]string{"c"}, "", ""},
	} {
		s, ok := b.FindSource(tt.topics, tt.pattern)
		if s.Name != tt.want || ok != (tt.want != "") {
			t.Errorf("%v %q: got %q, %v, want %q", tt.topics, tt.pattern, s.Name, ok, tt.want)
		}
	}
	if s, _ := b.FindSource([]string{"a", "b"}, ""); s.Reset != ResetLatest {
		t.Errorf("got offset reset %v, want that of the declaration", s.Reset)
	}
}

func TestBuiltTopologyIsApartFromTheBuilder(t *testing.T) {
	b := NewBuilder()
	topics := []string{"t"}
	configs := map[string]string{"retention.ms": "1"}
	b.AddSource(Source{Name: "in", Topics: topics})
	b.AddProcessor(Processor{Name: "step", Parents: []string{"in"}})
	b.AddStore(Store{Name: "s", Logged: true, TopicConfigs: configs}, "step")
	topo, err := b.Build(BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	before := topo.Describe()
	topics[0], configs["retention.ms"] = "changed", "2"
	b.AddProcessor(Processor{Name: "later", Parents: []string{"step"}})
	if topo.Describe() != before || topo.Store("s").TopicConfigs["retention.ms"] != "1" {
		t.Error("a built topology changed")
	}
	again, err := b.Build(BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if again.Node("later") == nil || topo.Node("later") != nil {
		t.Error("building again must see the new step, and only the new topology")
	}
}
