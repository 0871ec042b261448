// Command millrace shows the library at work (millrace demo) and brings a Kafka broker to develop against (millrace broker).
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/millrace-io/millrace/internal/cli"
	"github.com/millrace-io/millrace/internal/demo"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		stop() // a second signal ends the program at once
	}()
	os.Exit(cli.Main(ctx, os.Args[1:], cli.Config{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Engine: demo.NewApp,
	}))
}
