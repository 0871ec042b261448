// Package java builds the Java side of the conformance tests, whose sources are embedded in it.
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

// Command builds the program, unless this very source is built in the cache already, and returns the command that runs it
// without its arguments. Maven fetches the libraries, once; the sources, which change with each new scenario, are compiled
// by javac alone, which takes two seconds.
func Command(ctx context.Context) ([]string, error) {
	java, err := kafkatest.Java(ctx)
	if err != nil {
		return nil, err
	}
	cache, err := kafkatest.CacheDir()
	if err != nil {
		return nil, err
	}
	pom, err := sources.ReadFile("pom.xml")
	if err != nil {
		return nil, fmt.Errorf("conformance: sources of the Java side: %w", err)
	}
	cache = filepath.Join(cache, "conformance-java")
	libraries, err := kafkatest.FetchClasspath(ctx, cache, pom)
	if err != nil {
		return nil, err
	}
	sum, files, err := digest()
	if err != nil {
		return nil, err
	}
	classes := filepath.Join(cache, "classes-"+sum)
	if err := build(ctx, java, libraries, classes, files); err != nil {
		return nil, err
	}
	return []string{
		java, "-Xmx1g", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
		"-cp", classes + string(os.PathListSeparator) + libraries, "io.millrace.conformance.Main",
	}, nil
}

// digest names the sources by their content, and lists the Java files.
func digest() (sum string, files []string, err error) {
	h := sha256.New()
	err = fs.WalkDir(sources, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := sources.ReadFile(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%s %d\n", path, len(text))
		h.Write(text)
		if filepath.Ext(path) == ".java" {
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		return "", nil, fmt.Errorf("conformance: sources of the Java side: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), files, nil
}

// build compiles into the folder classes, which gets its name when all is there.
func build(ctx context.Context, java, libraries, classes string, files []string) error {
	if _, err := os.Stat(classes); err == nil {
		return nil
	}
	lock := flock.New(classes + ".lock")
	if _, err := lock.TryLockContext(ctx, 200*time.Millisecond); err != nil {
		return fmt.Errorf("conformance: waiting for another build of the Java side: %w", err)
	}
	defer func() { _ = lock.Unlock() }()
	if _, err := os.Stat(classes); err == nil {
		return nil
	}
	work, err := os.MkdirTemp(filepath.Dir(classes), "build-")
	if err != nil {
		return fmt.Errorf("conformance: cache folder: %w", err)
	}
	defer os.RemoveAll(work)
	if err := os.CopyFS(work, sources); err != nil {
		return fmt.Errorf("conformance: sources of the Java side: %w", err)
	}
	javac, err := compiler(java)
	if err != nil {
		return err
	}
	args := []string{"--release", "17", "-cp", libraries, "-d", "classes"}
	cmd := exec.CommandContext(ctx, javac, append(args, files...)...)
	cmd.Dir = work
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("conformance: compiling the Java side: %w\n%s", err, bytes.TrimSpace(out))
	}
	if err := os.Rename(filepath.Join(work, "classes"), classes); err != nil {
		return fmt.Errorf("conformance: cache folder: %w", err)
	}
	return nil
}

// compiler finds javac: beside java, or on the PATH.
func compiler(java string) (string, error) {
	if path, err := exec.LookPath(filepath.Join(filepath.Dir(java), "javac")); err == nil {
		return path, nil
	}
	path, err := exec.LookPath("javac")
	if err != nil {
		return "", errors.New("conformance: javac is not on the PATH; install a JDK, a runtime environment alone does not do")
	}
	return path, nil
}
