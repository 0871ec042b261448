package cli

import (
	"fmt"
	"log/slog"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace-io/millrace/internal/devbroker"
)

func newBroker() *cobra.Command {
	o := devbroker.Options{AutoCreateTopics: true}
	cmd := &cobra.Command{
		Use:   "broker",
		Short: "Run a Kafka broker for development",
		Long: `Run a Kafka broker for development in this process, for any Kafka client, until SIGINT or SIGTERM.

It knows topics, consumer groups and transactions, creates a topic when a client asks for one that does not exist, and
compacts and applies retention every few seconds. A topic keeps its records for ever unless it has a retention.ms. It holds
everything in memory; with --data it keeps it in a directory over restarts.

It has no authentication, no replication and no limits: it is no broker for production, and it listens on this machine only
unless told otherwise.`,
		Example: `  millrace broker
  millrace broker --listen 127.0.0.1:19092 --data ./kafka-data
  millrace broker --listen 0.0.0.0:9092 --advertise devbox:9092
  millrace demo --brokers 127.0.0.1:9092      in another terminal`,
		Args: noArgs,
	}
	cmd.Flags().StringVar(&o.Listen, "listen", "127.0.0.1:9092", "`HOST:PORT` to listen on; port 0 takes a free one")
	cmd.Flags().StringVar(&o.Advertise, "advertise", "", "`HOST:PORT` that clients are told to connect to (default: the one listened on)")
	cmd.Flags().StringVar(&o.DataDir, "data", "", "`DIR` to keep topics, records and offsets in (default: in memory)")
	cmd.Flags().IntVar(&o.Partitions, "partitions", 1, "partitions of a topic that is created without a count")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if o.Partitions < 1 {
			return usagef(cmd, "--partitions %d: at least 1 is needed", o.Partitions)
		}
		o.Logger = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
		return runBroker(cmd, o)
	}
	return cmd
}

func runBroker(cmd *cobra.Command, o devbroker.Options) error {
	b, err := devbroker.Start(o)
	if err != nil {
		return err
	}
	addr := strings.Join(b.Addrs(), ",")
	kept := "in memory, gone when it stops"
	if o.DataDir != "" {
		kept = "in " + o.DataDir
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "Kafka broker for development on %s\n", addr)
	fmt.Fprintf(out, "  clients:  bootstrap.servers=%s\n", addr)
	fmt.Fprintf(out, "  try:      millrace demo --brokers %s\n", addr)
	fmt.Fprintf(out, "  data:     %s\n", kept)
	if host, _, err := net.SplitHostPort(o.Listen); err == nil && !isLoopback(host) {
		fmt.Fprintf(out, "  warning:  it listens beyond this machine, and whoever reaches it can read and write everything\n")
	}
	fmt.Fprintln(out, "  stop:     Ctrl-C")
	<-cmd.Context().Done()
	return b.Close()
}

// isLoopback says whether a host to listen on is this machine alone.
func isLoopback(host string) bool {
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback()
	}
	return host == "localhost"
}
