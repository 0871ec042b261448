// Command generate has Java Kafka Streams run the conformance scenarios and write what comes out: see conformance/README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"time"

	"github.com/millrace-io/millrace/conformance/java"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("conformance/generate", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), "usage: conformance/generate --seed N [--scenario NAME]... --out DIR\n"+
			"writes DIR/seed-N; replay it with MILLRACE_VECTORS=DIR go test ./conformance\n")
		flags.PrintDefaults()
	}
	seed := flags.Int64("seed", -1, "what the input is drawn from")
	out := flags.String("out", "", "the folder to write to")
	compress := flags.Bool("gzip", false, "compress, and leave out what stores in memory do not change, as in the committed vectors")
	list := flags.Bool("list", false, "list the scenarios of the Java side instead")
	var names []string
	flags.Func("scenario", "one scenario rather than all of them; may be given more than once", func(s string) error {
		names = append(names, s)
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || !*list && (*seed < 0 || *out == "") {
		flags.Usage()
		return errors.New("conformance: --seed, which is not negative, and --out are needed")
	}
	command, err := java.Command(ctx)
	if err != nil {
		return err
	}
	if *list {
		command = append(command, "--list")
	} else {
		dir, err := filepath.Abs(*out)
		if err != nil {
			return fmt.Errorf("conformance: --out: %w", err)
		}
		command = append(command, "--seed", strconv.FormatInt(*seed, 10), "--out", dir)
	}
	if *compress {
		command = append(command, "--gzip")
	}
	for _, name := range names {
		command = append(command, "--scenario", name)
	}
	began := time.Now()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("conformance: the Java side: %w", err)
	}
	if !*list {
		if *compress {
			if err := leaveOutTwins(filepath.Join(*out, fmt.Sprintf("seed-%d", *seed))); err != nil {
				return fmt.Errorf("conformance: leaving out twins: %w", err)
			}
		}
		fmt.Printf("seed %d written to %s in %.1f s\n", *seed, *out, time.Since(began).Seconds())
	}
	return nil
}
