package kafkatest

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// JavaProgram is a program in Java that tests run beside millrace.
type JavaProgram struct {
	// Name names the folder of the cache in which the program and its libraries are kept.
	Name string
	// Sources hold pom.xml, which lists the libraries, and .java files in any folder.
	Sources fs.FS
}

// Build compiles the program, unless these very sources are in the cache already, and returns the java command and the class
// path to run it with. Maven fetches the libraries, once; the sources, which change more often, are compiled by javac alone,
// which takes two seconds. Where Java or Maven are missing the error wraps ErrUnavailable.
func (p JavaProgram) Build(ctx context.Context) (java, classpath string, err error) {
	if java, err = Java(ctx); err != nil {
		return "", "", err
	}
	cache, err := CacheDir()
	if err != nil {
		return "", "", err
	}
	pom, err := fs.ReadFile(p.Sources, "pom.xml")
	if err != nil {
		return "", "", fmt.Errorf("kafkatest: sources of %s: %w", p.Name, err)
	}
	cache = filepath.Join(cache, p.Name)
	libraries, err := FetchClasspath(ctx, cache, pom)
	if err != nil {
		return "", "", err
	}
	sum, err := SourceDigest(p.Sources)
	if err != nil {
		return "", "", err
	}
	classes := filepath.Join(cache, "classes-"+sum)
	if err := MakeOnce(ctx, classes, func(work string) error { return p.compile(ctx, java, libraries, work) }); err != nil {
		return "", "", err
	}
	return java, classes + string(os.PathListSeparator) + libraries, nil
}

// compile compiles into the folder classes.
func (p JavaProgram) compile(ctx context.Context, java, libraries, classes string) error {
	var files []string
	err := fs.WalkDir(p.Sources, ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".java" {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("kafkatest: sources of %s: %w", p.Name, err)
	}
	tree, err := os.MkdirTemp("", "millrace-java-")
	if err != nil {
		return fmt.Errorf("kafkatest: folder for the sources of %s: %w", p.Name, err)
	}
	defer os.RemoveAll(tree)
	if err := os.CopyFS(tree, p.Sources); err != nil {
		return fmt.Errorf("kafkatest: sources of %s: %w", p.Name, err)
	}
	javac, err := compiler(java)
	if err != nil {
		return err
	}
	args := []string{"--release", "17", "-cp", libraries, "-d", classes}
	cmd := exec.CommandContext(ctx, javac, append(args, files...)...)
	cmd.Dir = tree
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("kafkatest: compiling %s: %w\n%s", p.Name, err, bytes.TrimSpace(out))
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
		return "", fmt.Errorf("kafkatest: %w: javac is not on the PATH; install a JDK, a runtime environment alone does not do", ErrUnavailable)
	}
	return path, nil
}
