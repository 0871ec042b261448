// Package cli is the command line of millrace: one file for each command. It only reads flags, calls the packages that do
// the work, and prints.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/millrace-io/millrace/internal/demo"
)

// Exit codes.
const (
	exitOK    = 0
	exitError = 1 // something went wrong; stderr says what, where and what to do
	exitUsage = 2 // the command line cannot be understood
)

// Config is what the commands are given from outside.
type Config struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	// Engine makes the application of the demo.
	Engine demo.NewEngine
}

// Main runs a command line and returns the exit code. Ending ctx stops a running command in good order.
func Main(ctx context.Context, args []string, c Config) int {
	root := newRoot(c)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(c.Stderr, err)
	var u *usageError
	if errors.As(err, &u) {
		fmt.Fprintf(c.Stderr, "Run '%s --help' for usage.\n", u.command)
		return exitUsage
	}
	return exitError
}

func newRoot(c Config) *cobra.Command {
	root := &cobra.Command{
		Use:   "millrace",
		Short: "Stream processing for Kafka as a Go library: demo, development broker, reset of applications",
		Long: `millrace is stream processing for Apache Kafka as a Go library. This command shows it at work, brings a broker to
develop against, and takes an application back to the beginning of its input.`,
		Example: `  millrace demo                     a month of flights through a topology, on a broker in this process
  millrace demo --once --out out    the same without a terminal, results in files
  millrace broker                   a Kafka broker for development on 127.0.0.1:9092
  millrace reset --help             how to let an application begin anew`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		Args:              cobra.ArbitraryArgs, // so that an unknown command comes to RunE, and is a usage error
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef(cmd, "unknown command %q", args[0])
			}
			return cmd.Help()
		},
	}
	root.SetIn(c.Stdin)
	root.SetOut(c.Stdout)
	root.SetErr(c.Stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return &usageError{cmd.CommandPath(), err} })
	root.AddCommand(newDemo(c), newBroker(), newReset(new(resetFlags)), newVersion())
	return root
}

// usageError is a command line that cannot be understood.
type usageError struct {
	command string
	err     error
}

func (e *usageError) Error() string { return "millrace: " + e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(cmd *cobra.Command, format string, args ...any) error {
	return &usageError{cmd.CommandPath(), fmt.Errorf(format, args...)}
}

// noArgs refuses arguments beside flags.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef(cmd, "%s takes no argument, but got %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// isTerminal says whether a stream is a terminal: a character device that is not the null device.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
