package millrace

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/serde"
)

// Builder collects the steps of a topology. Its calls never fail: mistakes are collected, each with the file and line of
// the call, and Build returns all of them. A Builder is for one goroutine.
//
// In Kafka Streams: StreamsBuilder.
type Builder struct {
	t *topology.Builder
	// shared holds the repartitioned form of streams that unnamed joins share, by node.
	shared map[string]repartitioned
	// sources remembers what each source node was declared as: a second stream of the same topics hangs under it.
	sources map[string]declaredSource
	// nullFilters say, by repartition topic, whether the step in front of it keeps null keys.
	nullFilters map[string]*bool
	// closeMs is how long after the end of a window a windowed step closes it, by node: its grace, with the gap of sessions,
	// or neverCloses.
	closeMs map[string]int64
	// relaxed are the left joins, which keep records with a null key.
	relaxed []string
	opts    topology.BuildOptions
	// optimized holds the optimisations asked for.
	optimized map[Optimization]bool
	// selfJoins rewrite the inner joins whose sides are one stream, see SingleStoreSelfJoin.
	selfJoins []func(*topology.Builder)
	// results are what calls returned that must be used.
	results []result
}

// result is what a call returned, and what is wrong if nothing is done with it.
type result struct {
	used *bool
	pos  topology.Pos
	what string
}

// mustBeUsed makes it an error if nothing is done with the result of a step. The function says that something is.
func (b *Builder) mustBeUsed(s *step, what string) (used func()) {
	r := result{new(bool), s.pos, s.verb + ": " + what}
	b.results = append(b.results, r)
	return func() { *r.used = true }
}

func (b *Builder) checkResults() {
	for _, r := range b.results {
		if !*r.used {
			b.t.Errorf(r.pos, "%s", r.what)
			*r.used = true // told once
		}
	}
}

// BuildOption is an option of a Builder.
type BuildOption interface {
	applyBuild(*Builder)
}

type buildOption func(*Builder)

func (f buildOption) applyBuild(b *Builder) { f(b) }

// RequireNames refuses steps with AutoName: every store and internal topic must be named.
//
// In Kafka Streams: ensure.explicit.internal.resource.naming.
func RequireNames() BuildOption {
	return buildOption(func(b *Builder) { b.opts.RequireNames = true })
}

// NewBuilder returns an empty Builder.
func NewBuilder(opts ...BuildOption) *Builder {
	b := &Builder{
		t: topology.NewBuilder(), shared: make(map[string]repartitioned), sources: make(map[string]declaredSource),
		nullFilters: make(map[string]*bool), closeMs: make(map[string]int64),
	}
	for _, o := range opts {
		o.applyBuild(b)
	}
	return b
}

// Build checks the topology and returns it, or all mistakes joined into one error, each a *BuildError.
//
// In Kafka Streams: StreamsBuilder#build.
func (b *Builder) Build() (*Topology, error) {
	b.checkResults()
	declared, wider := b.optimizeGraph()
	t, err := declared.Build(b.opts)
	if err != nil {
		return nil, buildErrors(err)
	}
	for _, topic := range wider {
		*b.nullFilters[topic] = true
	}
	b.relaxNullKeys(t)
	return &Topology{t: t, optimized: maps.Clone(b.optimized)}, nil
}

// relaxNullKeys lets records with a null key pass the repartition topics before a left join, however far away: the join
// keeps them.
func (b *Builder) relaxNullKeys(t *topology.Topology) {
	seen := make(map[string]bool)
	var up func(name string)
	up = func(name string) {
		n := t.Node(name)
		if n == nil || seen[name] {
			return
		}
		seen[name] = true
		if n.Kind == topology.SourceNode && n.Internal {
			if keep := b.nullFilters[n.Topics[0]]; keep != nil {
				*keep = true
			}
			for _, before := range t.Writers(n.Topics[0]) {
				up(before.Name)
			}
		}
		for _, p := range n.Parents {
			up(p.Name)
		}
	}
	for _, name := range b.relaxed {
		up(name)
	}
}

// BuildError is one mistake in the declaration of a topology. errors.As finds the first one in the error of Build.
type BuildError struct {
	File    string // where the mistaken call stands
	Line    int
	Message string
	Err     error // the cause, if there is one
}

// Error tells the place and what to do about it.
func (e *BuildError) Error() string {
	if e.File == "" {
		return e.Message
	}
	return fmt.Sprintf("%s:%d: %s", filepath.Base(e.File), e.Line, e.Message)
}

// Unwrap returns the cause.
func (e *BuildError) Unwrap() error { return e.Err }

// BuildErrors is what Build returns: all mistakes, in the order of the calls.
type BuildErrors []*BuildError

// Error lists the mistakes, one a line.
func (e BuildErrors) Error() string {
	lines := make([]string, 0, len(e)+1)
	lines = append(lines, "millrace: the topology cannot be built:")
	for _, m := range e {
		lines = append(lines, m.Error())
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the mistakes.
func (e BuildErrors) Unwrap() []error {
	out := make([]error, len(e))
	for i, m := range e {
		out[i] = m
	}
	return out
}

func buildErrors(err error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return fmt.Errorf("millrace: the topology cannot be built: %w", err)
	}
	var all BuildErrors
	for _, e := range joined.Unwrap() {
		var b *topology.BuildError
		if !errors.As(e, &b) {
			all = append(all, &BuildError{Message: e.Error(), Err: e})
			continue
		}
		all = append(all, &BuildError{File: b.Pos.File, Line: b.Pos.Line, Message: b.Msg, Err: b.Err})
	}
	return all
}

// step is a DSL call in the making: where it stands and what options it has.
type step struct {
	b    *Builder
	verb string
	pos  topology.Pos
	role topology.Role
	// ownTopic says that the step's repartition topic is the user's: none is merged with it.
	ownTopic bool
	// keyTold and valueTold say that the lack of the serde of the step's input has been told.
	keyTold, valueTold bool
	stepOptions
}

// begin starts a DSL call. allowed lists the options that it has a use for.
func (b *Builder) begin(verb string, opts []StepOption, allowed ...string) *step {
	s := &step{b: b, verb: verb, pos: callerPos()}
	for _, o := range opts {
		if o != nil {
			o.applyStep(&s.stepOptions)
		}
	}
	s.needs(!s.nilFunc)
	s.contradictions(func(what string) { s.errorf("%s: %s", verb, what) })
	s.checkNames()
	s.dropMissingStores()
	for _, name := range s.set {
		if !slices.Contains(allowed, name) {
			s.errorf("%s has no use for the option %s", verb, name)
		}
	}
	return s
}

// Names of options for begin.
const (
	optAs, optNode, optStore, optRepartition, optAuto    = "As", "NodeName", "StoreName", "RepartitionName", "AutoName"
	optMemory, optRetain, optLogConfig, optNoLog         = "InMemory", "Retain", "LogConfig", "WithoutLog"
	optNoCache, optKey, optValue, optPartitions          = "WithoutCache", "WithKey", "WithValue", "Partitions"
	optEarliest, optLatest, optBack, optNoStart, optTime = "StartEarliest", "StartLatest", "StartBack", "NoStart", "Timestamps"
	optStores, optIdle, optOtherValue                    = "WithStores", "IdleTimeout", "WithOtherValue"
	optVersioned                                         = "Versioned"
	optPartitionBy                                       = "PartitionBy"
	optEmitOnClose                                       = "EmitOnClose"
	optHeaders                                           = "KeepHeaders"
	optJoinGrace                                         = "JoinGrace"
	optPartitionLeft, optPartitionRight                  = "PartitionLeftBy", "PartitionRightBy"
)

var (
	startOptions = []string{optEarliest, optLatest, optBack, optNoStart}
	// singleOptions hold a value, so giving one twice leaves open which value counts.
	singleOptions = []string{
		optAs, optNode, optStore, optRepartition, optRetain, optLogConfig, optKey, optValue, optOtherValue, optPartitions, optBack,
		optTime, optIdle, optVersioned, optPartitionBy, optPartitionLeft, optPartitionRight, optJoinGrace,
	}
)

var (
	nodeOptions   = []string{optAs, optNode}
	sourceOptions = []string{optAs, optNode, optEarliest, optLatest, optBack, optNoStart, optTime, optIdle}
	storeOptions  = []string{optAs, optNode, optStore, optRepartition, optAuto, optMemory, optLogConfig, optNoLog, optNoCache, optKey, optValue, optHeaders}
	windowOptions = append([]string{optRetain, optEmitOnClose}, storeOptions...)
	tableOptions  = []string{optAs, optNode, optStore, optAuto, optMemory, optLogConfig, optNoLog, optNoCache, optKey, optValue, optVersioned, optHeaders}
	// tableSourceOptions are those of a table that is read from a topic, which has the serdes.
	tableSourceOptions = append([]string{optStore, optAuto, optMemory, optLogConfig, optNoLog, optNoCache, optVersioned, optHeaders}, sourceOptions...)
	// keyedOptions are those of an aggregation by key.
	keyedOptions = append([]string{optVersioned}, storeOptions...)
	joinOptions  = []string{optAs, optNode, optRepartition, optAuto, optKey, optValue}
)

// checkNames refuses the names given that cannot be, and replaces them, so that each is told once and by its step.
func (s *step) checkNames() {
	var told []string
	for _, name := range []*string{&s.as, &s.node, &s.store, &s.repartition} {
		if *name == "" {
			continue
		}
		if err := topology.CheckName(*name); err != nil {
			if !slices.Contains(told, *name) {
				s.errorf("%s: %w", s.verb, err)
			}
			told = append(told, *name)
			*name = s.b.t.NextName("MISNAMED-")
		}
	}
}

// needs refuses a nil function.
func (s *step) needs(given bool) {
	if !given {
		s.errorf("%s is given a nil function", s.verb)
	}
}

func (s *step) errorf(format string, args ...any) { s.b.t.Errorf(s.pos, format, args...) }

// nodeName returns the name of the step's node. A number is used up even where it is named, as in Kafka Streams.
func (s *step) nodeName(prefix string) string {
	generated := s.b.t.NextName(prefix)
	switch {
	case s.node != "":
		return s.node
	case s.as != "":
		return s.as
	}
	return generated
}

// storeName returns the name of the step's store; named is false if it was generated, which uses up a number.
func (s *step) storeName(prefix string) (name string, named bool) {
	switch {
	case s.store != "":
		return s.store, true
	case s.as != "":
		return s.as, true
	}
	return s.b.t.NextStoreName(prefix), false
}

// repartitionName returns what the user calls the step's repartition topic, empty if nothing.
func (s *step) repartitionName() string {
	if s.repartition != "" {
		return s.repartition
	}
	return s.as
}

// requireName refuses a step that makes something durable without a name.
func (s *step) requireName(named bool, what string) {
	if !named && !s.auto {
		s.errorf("%s makes %s, which needs a name that outlives changes of the topology: use millrace.As(\"…\"), or millrace.AutoName() for a numbered one", s.verb, what)
	}
}

// keySerde returns the serde of the step's keys: the one given as an option, or the one known.
func keySerde[K any](s *step, known serde.Serde[K]) serde.Serde[K] {
	return givenSerde(s, s.key, known, "keys of type %T, but WithKey gives")
}

// valueSerde returns the serde of the step's values: the one given as an option, or the one known.
func valueSerde[V any](s *step, known serde.Serde[V]) serde.Serde[V] {
	return givenSerde(s, s.value, known, "values of type %T, but WithValue gives")
}

// otherValueSerde is valueSerde for the other side of a join.
func otherValueSerde[V any](s *step, known serde.Serde[V]) serde.Serde[V] {
	return givenSerde(s, s.otherValue, known, "values of type %T on its right side, but WithOtherValue gives")
}

// givenSerde returns the serde that an option gives, or the one known. has says what the step has and which option it is.
func givenSerde[T any](s *step, given any, known serde.Serde[T], has string) serde.Serde[T] {
	if given == nil {
		return known
	}
	typed, ok := given.(serde.Serde[T])
	if !ok {
		s.errorf("%s has "+has+" a serde of another type (%T)", s.verb, *new(T), given)
		return known
	}
	return typed
}

// fitKey fits the serde of a topic's keys to the stream that is written to it: windowed keys learn the size of their
// windows from the step that made them.
func fitKey[K any](s *step, topic string, in, out serde.Serde[K]) serde.Serde[K] {
	if have, want := windowsOf(in), windowsOf(out); !have.fits(want) {
		s.errorf("%s: the keys of topic %s have %s, those of the stream %s; %s", s.verb, topic, want, have, have.hint())
		return out
	}
	want, ok := out.(serde.WindowSizer[K])
	if !ok {
		return out
	}
	if have, ok := in.(serde.WindowFitter[K]); ok && have.Windows() != nil {
		return fitWindows(have, want)
	}
	have, ok := in.(serde.WindowSizer[K])
	if !ok || have.WindowSizeMs() == 0 || have.WindowSizeMs() == want.WindowSizeMs() {
		return out
	}
	return want.WithWindowSizeMs(have.WindowSizeMs())
}

// fitWindows is fitKey for keys whose windows have no common size: the serde of the topic finds their ends by the step's
// windows.
func fitWindows[K any](have serde.WindowFitter[K], want serde.WindowSizer[K]) serde.Serde[K] {
	fit, ok := want.(serde.WindowFitter[K])
	if !ok || fit.Windows() != nil {
		return want
	}
	return fit.WithWindows(have.Windows())
}

// checkSerde refuses a serde that was made of arguments that make no sense.
func (s *step) checkSerde(what string, serdes ...any) {
	for _, x := range serdes {
		if c, ok := x.(serde.Checker); ok {
			if err := c.Check(); err != nil {
				s.errorf("%s: %s: %w", s.verb, what, err)
			}
		}
	}
}

// materialized tells whether options speak of the step's store without naming it: Kafka Streams counts a number more then.
func (s *step) materialized() bool {
	if s.store != "" || s.as != "" {
		return false
	}
	return slices.ContainsFunc(s.set, func(name string) bool {
		return slices.Contains([]string{optMemory, optRetain, optLogConfig, optNoLog, optNoCache, optKey, optValue}, name)
	})
}

// declaredSource is a source node as From or TableFrom declared it.
type declaredSource struct {
	verb     string
	types    string
	extracts bool
	idle     time.Duration
}

// repartitioned is what stands behind a repartition topic.
type repartitioned struct {
	node string
}

// generatedPrefix tells a generated name from a user's, by the rule of Kafka Streams.
func generatedPrefix(name string) bool {
	if !strings.HasPrefix(name, "KSTREAM") || len(name) < 11 {
		return false
	}
	digits := name[len(name)-10:]
	for _, c := range digits {
		if c < '0' || c > '9' {
			return false
		}
	}
	return name[len(name)-11] == '-'
}

const repartitionSuffix = "-repartition"

// repartition puts a repartition topic behind a stream: a step that drops null keys (unless a left join follows), a sink,
// and a source of the topic.
// Three numbers are used up in any case.
func repartition[K, V any](s *step, in Stream[K, V], prefix string, key serde.Serde[K], value serde.Serde[V], auto bool) Stream[K, V] {
	topic := prefix
	if !strings.HasSuffix(prefix, repartitionSuffix) {
		topic += repartitionSuffix
	}
	sink, filter, source := s.b.t.NextName("KSTREAM-SINK-"), s.b.t.NextName("KSTREAM-FILTER-"), s.b.t.NextName("KSTREAM-SOURCE-")
	if !generatedPrefix(prefix) {
		sink, filter, source = topic+"-sink", topic+"-filter", topic+"-source"
	}
	if key == nil || value == nil {
		s.missingSerde(topic, key == nil, value == nil, in.origin)
		return Stream[K, V]{b: in.b, node: in.parent(), sources: in.sources, key: key, value: value}
	}
	s.checkSerde("repartition topic "+topic, key, value)
	s.b.t.InternalTopic(topology.RepartitionTopic{Name: topic, Partitions: int32(s.partitions), Auto: auto, Mergeable: !s.ownTopic, Pos: s.pos})
	keep := new(bool)
	s.b.nullFilters[topic] = keep
	s.b.t.AddProcessor(topology.Processor{Name: filter, Parents: []string{in.parent()}, Op: op.NewDropNullKeys[K, V](keep), Pos: s.pos})
	s.b.t.AddSink(topology.Sink{Name: sink, Topic: topic, Parents: []string{filter}, Pos: s.pos,
		Op: op.NewSink(op.SinkSpec[K, V]{Topic: topic, Internal: true, Partition: partitioner[K, V](s), Key: key, Value: value})})
	s.b.t.AddSource(topology.Source{Name: source, Topics: []string{topic}, Pos: s.pos,
		Op: op.NewSource(op.SourceSpec[K, V]{Key: key, Value: value})})
	return Stream[K, V]{b: in.b, node: source, sources: []string{source}, key: key, value: value, origin: topic}
}

func (s *step) missingSerde(topic string, key, value bool, origin string) {
	s.keyTold, s.valueTold = s.keyTold || key, s.valueTold || value
	if origin != "" {
		origin = " behind " + origin
	}
	s.errorf("%s%s needs the repartition topic %s, and does not know the serde of %s: a step that changes types, or a merge, drops it; give it as an option",
		s.verb, origin, topic, missingSerdes(key, value))
}

// storeSerdes tells what serdes a step's store lacks, unless the same are missing in front of it and have been told.
func (s *step) storeSerdes(store string, key, value bool) {
	if key, value = key && !s.keyTold, value && !s.valueTold; key || value {
		s.errorf("%s does not know the serde of %s, which the store %s needs; give it as an option", s.verb, missingSerdes(key, value), store)
	}
}

// missingSerdes says what serdes are missing, and the options that give them.
func missingSerdes(key, value bool) string {
	var what []string
	if key {
		what = append(what, "the key (WithKey)")
	}
	if value {
		what = append(what, "the value (WithValue)")
	}
	return strings.Join(what, " and of ")
}

// callerPos finds the first frame outside of this package: the user's call.
func callerPos() topology.Pos {
	var pcs [16]uintptr
	n := runtime.Callers(2, pcs[:])
	frames := runtime.CallersFrames(pcs[:n])
	for {
		f, more := frames.Next()
		own := strings.HasPrefix(f.Function, "github.com/millrace-io/millrace.") && !strings.HasSuffix(f.File, "_test.go")
		if !own || !more {
			return topology.Pos{File: f.File, Line: f.Line}
		}
	}
}
