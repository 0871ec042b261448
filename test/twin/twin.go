// Package twin builds an application of Java Kafka Streams, and holds the one of millrace that can take its place: the same
// topics, stores and results.
package twin

import (
	"context"
	"embed"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

//go:embed pom.xml src
var sources embed.FS

// Topics are what both applications read (In, Rows) and write.
type Topics struct{ In, Rows, Sums, Windows, Joined string }

// Command is the command that runs the Java application, which is a child as package child wants it. It is built first, unless
// this very source is built in the cache already.
func Command(ctx context.Context, t Topics, settings map[string]string) (*exec.Cmd, error) {
	java, classpath, err := kafkatest.JavaProgram{Name: "twin-java", Sources: sources}.Build(ctx)
	if err != nil {
		return nil, err
	}
	args := []string{"-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS", "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.clients=warn",
		"-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common=warn",
		"-cp", classpath, "io.millrace.twin.Twin", t.In, t.Rows, t.Sums, t.Windows, t.Joined}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, fmt.Sprintf("%s=%s", name, settings[name]))
	}
	return exec.Command(java, args...), nil
}

// The windows of both applications.
const (
	Size  = 10 * time.Second
	Grace = 5 * time.Second
)

// Build builds the application of millrace.
func Build(b *millrace.Builder, t Topics) {
	values := millrace.From(b, millrace.NewTopic(t.In, serde.String, serde.Int64))
	rows := millrace.TableFrom(b, millrace.NewTopic(t.Rows, serde.String, serde.String), millrace.As("rows"))
	joined := millrace.JoinTable(values, rows, func(v int64, row string) string { return fmt.Sprintf("%s*%d", row, v) })
	joined.To(millrace.NewTopic(t.Joined, serde.String, serde.String))
	counts, _ := millrace.CountWindows(values.GroupByKey().WindowBy(window.Tumbling(Size).Grace(Grace)), millrace.As("windows"))
	counts.ToStream().To(millrace.NewTopic(t.Windows, serde.Windowed(serde.String, Size), serde.Int64))
	owners := millrace.GroupBy(values, func(key string, _ int64) string { return "of-" + key },
		millrace.RepartitionName("by-owner"), millrace.WithKey(serde.String), millrace.WithValue(serde.Int64))
	sums := millrace.Aggregate(owners, func() int64 { return 0 }, func(_ string, v, sum int64) int64 { return sum + v },
		serde.Int64, millrace.As("sums"))
	sums.ToStream().To(millrace.NewTopic(t.Sums, serde.String, serde.Int64))
}
