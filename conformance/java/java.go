// Package java builds the Java side of the conformance tests, whose sources are embedded in it.
package java

import (
	"context"
	"embed"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

//go:embed pom.xml src
var sources embed.FS

// Command builds the program, unless this very source is built in the cache already, and returns the command that runs it
// without its arguments.
func Command(ctx context.Context) ([]string, error) {
	java, classpath, err := kafkatest.JavaProgram{Name: "conformance-java", Sources: sources}.Build(ctx)
	if err != nil {
		return nil, err
	}
	return []string{
		java, "-Xmx1g", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
		"-cp", classpath, "io.millrace.conformance.Main",
	}, nil
}
