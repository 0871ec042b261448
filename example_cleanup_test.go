package millrace_test

import (
	"fmt"
	"log"
	"os"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
)

// State that was left on a disk is deleted before a start: the stores are filled from their changelogs then.
func ExampleApp_CleanUp() {
	addrs, stop := brokerWith([]string{"words"}, "mill", "race", "mill")
	defer stop()
	dir, err := os.MkdirTemp("", "words")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	b := millrace.NewBuilder()
	words := millrace.From(b, millrace.NewTopic("words", serde.String, serde.String))
	millrace.Count(words.GroupByKey(), millrace.As("counts"))
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	restored := make(chan string, 1)
	run := func(clean bool) {
		app, err := millrace.NewApp(topology, millrace.ApplicationID("words"), millrace.Brokers(addrs...), millrace.StateDir(dir),
			millrace.CommitInterval(100*time.Millisecond), millrace.OnRestore(func(p millrace.RestoreProgress) {
				if p.Done {
					restored <- fmt.Sprint(p.Store, " restored: ", p.Records, " records")
				}
			}))
		if err != nil {
			log.Fatal(err)
		}
		if clean {
			if err := app.CleanUp(); err != nil {
				log.Fatal(err)
			}
		}
		runUntilDone(app, func() { fmt.Println(<-restored) })
	}
	run(false)
	run(false)
	run(true)
	// Output:
	// counts restored: 0 records
	// counts restored: 0 records
	// counts restored: 2 records
}
