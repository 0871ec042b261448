// Package java builds the Java side of the benchmark, whose sources are embedded in it, with Maven.
package java

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

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
	sum, err := digest()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, "bench-java", sum)
	if err := build(ctx, dir); err != nil {
		return nil, err
	}
	classpath := filepath.Join(dir, "target", "classes") + string(os.PathListSeparator) + filepath.Join(dir, "target", "lib", "*")
	return []string{
		java, "-Xms" + heap, "-Xmx" + heap, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", classpath, "io.millrace.bench.Main",
	}, nil
}

// digest names the sources by their content.
func digest() (string, error) {
	h := sha256.New()
	err := fs.WalkDir(sources, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := sources.ReadFile(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%s %d\n", path, len(text))
		h.Write(text)
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("bench: sources of the Java side: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}

// build compiles into dir, which gets its name when all is there.
func build(ctx context.Context, dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return fmt.Errorf("bench: cache folder: %w", err)
	}
	lock := flock.New(dir + ".lock")
	if _, err := lock.TryLockContext(ctx, 200*time.Millisecond); err != nil {
		return fmt.Errorf("bench: waiting for another build of the Java side: %w", err)
	}
	defer func() { _ = lock.Unlock() }()
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	work, err := os.MkdirTemp(parent, "build-")
	if err != nil {
		return fmt.Errorf("bench: cache folder: %w", err)
	}
	defer os.RemoveAll(work)
	tree := filepath.Join(work, "bench")
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
	if err := os.Rename(tree, dir); err != nil {
		return fmt.Errorf("bench: cache folder: %w", err)
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
