package conformance

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
)

// features has a method for each file of scenarios, which the registry finds by itself: two features that are added at the
// same time touch no line in common. Such a method is exported and takes the registry alone.
type features struct{}

// scenario is a program. Its twin in Java has the same name.
type scenario struct {
	name    string
	declare func(*millrace.Builder)
	build   []millrace.BuildOption
	driver  []milltest.Option
	judge   *judge // nil: Java's output
	fails   bool   // what it shows is that it fails
}

// judge decides what a program has to give where it differs from Kafka Streams on purpose.
type judge struct {
	rule  string                                 // what docs/kafka-streams.md calls the difference
	model func(input []step) map[string][]record // the topics that it judges, with all that they hold
}

// setting is a setting of a scenario.
type setting func(*scenario)

// driven runs the scenario with options of the test driver, such as handlers.
func driven(o ...milltest.Option) setting {
	return func(s *scenario) { s.driver = append(s.driver, o...) }
}

// builtWith builds the topology with options.
func builtWith(o ...millrace.BuildOption) setting {
	return func(s *scenario) { s.build = append(s.build, o...) }
}

// failing says that the run is meant to end with a failure. Without it one is taken for a mistake in the scenario.
func failing() setting { return func(s *scenario) { s.fails = true } }

// storage adds to the options of a step where its store is.
type storage func(opts ...millrace.StepOption) []millrace.StepOption

func onDisk(opts ...millrace.StepOption) []millrace.StepOption { return opts }

func inMemory(opts ...millrace.StepOption) []millrace.StepOption {
	return append(slices.Clone(opts), millrace.InMemory())
}

// registry holds all scenarios by name.
type registry struct {
	scenarios map[string]*scenario
	errs      []error
}

// add registers a scenario.
func (r *registry) add(name string, declare func(*millrace.Builder), settings ...setting) {
	s := &scenario{name: name, declare: declare}
	for _, set := range settings {
		set(s)
	}
	if !scenarioName.MatchString(name) {
		r.errs = append(r.errs, fmt.Errorf("scenario %s: a name has the characters a-z, 0-9 and -", name))
	}
	if r.scenarios[name] != nil {
		r.errs = append(r.errs, fmt.Errorf("there are two scenarios %s", name))
	}
	r.scenarios[name] = s
}

var scenarioName = regexp.MustCompile(`^[a-z0-9-]+$`)

// stores registers two scenarios with the same input: NAME with stores that live on disk, NAME-memory with those in
// memory. The options of each step with a store go through on.
func (r *registry) stores(name string, declare func(b *millrace.Builder, on storage), settings ...setting) {
	r.add(name, func(b *millrace.Builder) { declare(b, onDisk) }, settings...)
	r.add(name+"-memory", func(b *millrace.Builder) { declare(b, inMemory) }, settings...)
}

// differs registers a scenario in which millrace differs from Kafka Streams on purpose. rule is what the list of deliberate
// differences calls it; model says, from the input alone, all that some topics have to hold.
func (r *registry) differs(name, rule string, declare func(*millrace.Builder), model func([]step) map[string][]record, settings ...setting) {
	r.add(name, declare, append(settings, func(s *scenario) { s.judge = &judge{rule: rule, model: model} })...)
}

// load registers the scenarios of all features.
func load() (*registry, error) {
	r := &registry{scenarios: make(map[string]*scenario)}
	all := reflect.ValueOf(features{})
	for i := range all.NumMethod() {
		register, ok := all.Method(i).Interface().(func(*registry))
		if !ok {
			return nil, fmt.Errorf("method %s of features has to take a *registry alone", all.Type().Method(i).Name)
		}
		register(r)
	}
	if len(r.errs) > 0 {
		return nil, r.errs[0]
	}
	return r, nil
}

// names returns the names of all scenarios, sorted.
func (r *registry) names() []string {
	names := make([]string, 0, len(r.scenarios))
	for name := range r.scenarios {
		names = append(names, name)
	}
	slices.SortFunc(names, strings.Compare)
	return names
}
