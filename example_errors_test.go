package millrace_test

import (
	"context"
	"fmt"
	"log"
	"strconv"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

// A function that can fail has a twin with Try in its name. What becomes of a record at which it fails is the choice of the
// application's handler: here it goes to a topic of dead letters.
func ExampleDeadLetters() {
	texts := millrace.NewTopic("texts", serde.String, serde.String)
	numbers := millrace.NewTopic("numbers", serde.String, serde.Int64)

	b := millrace.NewBuilder()
	millrace.TryMapValues(millrace.From(b, texts), func(_ context.Context, text string) (int64, error) {
		return strconv.ParseInt(text, 10, 64)
	}, millrace.As("parse")).To(numbers)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology, milltest.OnProcessingError(millrace.DeadLetters("texts-that-fail")))
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	in := milltest.Input(d, texts)
	for i, text := range []string{"7", "seven", "8"} {
		in.PipeAt("k", text, time.Duration(i)*time.Second)
	}
	fmt.Println(milltest.Output(d, numbers).ReadValues())
	for _, dead := range d.ReadRaw("texts-that-fail") {
		why, _ := dead.Headers.Last("__streams.errors.message")
		fmt.Printf("%s: %s\n", dead.Value, why)
	}
	fmt.Println("dropped:", d.Dropped("parse", millrace.DroppedProcessing))
	// Output:
	// [7 8]
	// seven: strconv.ParseInt: parsing "seven": invalid syntax
	// dropped: 1
}

// A handler of one's own sees what failed, where and how often, and may ask for another try.
func ExampleLogAndContinue() {
	in := millrace.NewTopic("in", serde.String, serde.String)
	out := millrace.NewTopic("out", serde.String, serde.String)
	calls := 0

	b := millrace.NewBuilder()
	millrace.TryMapValues(millrace.From(b, in), func(_ context.Context, v string) (string, error) {
		if calls++; calls < 3 {
			return "", fmt.Errorf("the service is busy")
		}
		return v, nil
	}, millrace.As("ask")).To(out)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	giveUp := millrace.LogAndContinue()
	d, err := milltest.NewDriver(topology, milltest.OnProcessingError(func(f processor.Failure) processor.Response {
		fmt.Printf("%s failed at %s-%d@%d, attempt %d: %v\n", f.Step, f.Origin.Topic, f.Origin.Partition, f.Origin.Offset, f.Attempt, f.Err)
		if f.Attempt < 5 {
			return processor.Response{Action: processor.Retry}
		}
		return giveUp(f)
	}))
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	milltest.Input(d, in).PipeAt("k", "hello", 0)
	fmt.Println(milltest.Output(d, out).ReadValues())
	// Output:
	// ask failed at in-0@0, attempt 1: the service is busy
	// ask failed at in-0@0, attempt 2: the service is busy
	// [hello]
}
