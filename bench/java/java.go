// Package java builds the Java side of the benchmark, whose sources are embedded in it, with Maven.
package java

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

//go:embed pom.xml src
var sources embed.FS

// heap is the Java side's, the same at start and later, so that what it takes is not what a growing heap takes.
const heap = "512m"

// Command builds the program, unless this very source is built in the cache already, and returns the command that runs it
// without its arguments.
func Command(ctx context.Context) ([]string, error) {
	java, err := kafkatest.Java(ctx)
	if err != nil {
		return nil, err
	}
	cache, err := kafkatest.CacheDir()
	if err != nil {
		return nil, err
	}
	sum, err := kafkatest.SourceDigest(sources)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, "bench-java", sum)
	if err := kafkatest.MakeOnce(ctx, dir, func(tree string) error { return build(ctx, tree) }); err != nil {
		return nil, err
	}
	classpath := filepath.Join(dir, "target", "classes") + string(os.PathListSeparator) + filepath.Join(dir, "target", "lib", "*")
	return []string{
		java, "-Xms" + heap, "-Xmx" + heap, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", classpath, "io.millrace.bench.Main",
	}, nil
}

// build compiles into the folder tree.
func build(ctx context.Context, tree string) error {
	if err := os.CopyFS(tree, sources); err != nil {
		return fmt.Errorf("bench: sources of the Java side: %w", err)
	}
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return errors.New("bench: mvn is not on the PATH; the Java side is built with it")
	}
	cmd := exec.CommandContext(ctx, mvn, "-q", "-B", "-f", filepath.Join(tree, "pom.xml"), "compile", "dependency:copy-dependencies")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("bench: building the Java side: %w\n%s", err, bytes.TrimSpace(out))
	}
	return nil
}

// Version is what the java command says of itself, in one line.
func Version(ctx context.Context) (string, error) {
	java, err := kafkatest.Java(ctx)
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, java, "-version").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("bench: %s -version: %w", java, err)
	}
	line, _, _ := bytes.Cut(bytes.TrimSpace(out), []byte("\n"))
	return string(line), nil
}
