package millrace_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

// A nil function is a mistake of the declaration, told with file and line, and not a panic at the first record.
func TestNilFunctionsAreBuildErrors(t *testing.T) {
	in := millrace.NewTopic("in", serde.String, serde.String)
	for name, declare := range map[string]func(b *millrace.Builder){
		"Filter":    func(b *millrace.Builder) { millrace.From(b, in).Filter(nil) },
		"MapValues": func(b *millrace.Builder) { millrace.MapValues[string, string, string](millrace.From(b, in), nil) },
		"Branch":    func(b *millrace.Builder) { millrace.From(b, in).Split().Branch(nil) },
		"Reduce": func(b *millrace.Builder) {
			millrace.From(b, in).GroupByKey().Reduce(nil, millrace.As("r"))
		},
		"JoinTable": func(b *millrace.Builder) {
			rows := millrace.TableFrom(b, millrace.NewTopic("rows", serde.String, serde.String), millrace.As("rows"))
			millrace.JoinTable[string, string, string, string](millrace.From(b, in), rows, nil)
		},
		"MapTableValues": func(b *millrace.Builder) {
			rows := millrace.TableFrom(b, millrace.NewTopic("rows", serde.String, serde.String), millrace.As("rows"))
			millrace.MapTableValues[string, string, string](rows, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := millrace.NewBuilder()
			declare(b)
			_, err := b.Build()
			var mistake *millrace.BuildError
			if !errors.As(err, &mistake) {
				t.Fatalf("Build returned %v, want a BuildError", err)
			}
			if want := name + " is given a nil function"; !strings.Contains(err.Error(), want) || mistake.Line == 0 {
				t.Errorf("the error is %q at line %d, want %q with its line", err, mistake.Line, want)
			}
		})
	}
}

// A topic that is chosen for a record and missing is not the record's fault: no handler may drop the record for it.
func TestMissingChosenTopicIsNotHandedToAHandler(t *testing.T) {
	in := millrace.NewTopic("in", serde.String, serde.String)
	b := millrace.NewBuilder()
	millrace.From(b, in).ToChosen(func(string, string, processor.Metadata) string { return "nowhere" }, serde.String, serde.String)
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	asked := false
	err = runOneTask(t, topology, func(processor.Failure) processor.Response {
		asked = true
		return processor.Response{Action: processor.Continue}
	})
	if asked {
		t.Error("the production handler was asked")
	}
	if !errors.Is(err, broker.ErrUnknownTopic) || !strings.Contains(err.Error(), "create the topic") {
		t.Errorf("the task failed with %v, want the unknown topic and what to do", err)
	}
}
