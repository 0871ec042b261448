// Package java builds the Java side of the conformance tests, whose sources are embedded in it.
package java

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

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
	sum, err := kafkatest.SourceDigest(sources)
	if err != nil {
		return nil, err
	}
	classes := filepath.Join(cache, "classes-"+sum)
	if err := kafkatest.MakeOnce(ctx, classes, func(work string) error { return build(ctx, java, libraries, work) }); err != nil {
		return nil, err
	}
	return []string{
		java, "-Xmx1g", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
		"-cp", classes + string(os.PathListSeparator) + libraries, "io.millrace.conformance.Main",
	}, nil
}

// build compiles into the folder classes.
func build(ctx context.Context, java, libraries, classes string) error {
	var files []string
	err := fs.WalkDir(sources, ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".java" {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("conformance: sources of the Java side: %w", err)
	}
	tree, err := os.MkdirTemp("", "millrace-conformance-")
	if err != nil {
		return fmt.Errorf("conformance: folder for the sources of the Java side: %w", err)
	}
	defer os.RemoveAll(tree)
	if err := os.CopyFS(tree, sources); err != nil {
		return fmt.Errorf("conformance: sources of the Java side: %w", err)
	}
	javac, err := compiler(java)
	if err != nil {
		return err
	}
	args := []string{"--release", "17", "-cp", libraries, "-d", classes}
	cmd := exec.CommandContext(ctx, javac, append(args, files...)...)
	cmd.Dir = tree
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("conformance: compiling the Java side: %w\n%s", err, bytes.TrimSpace(out))
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
