//go:build unix

package kafkatest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestJavaMajor(t *testing.T) {
	for out, want := range map[string]int{
		"openjdk version \"17.0.15\" 2025-04-15\nOpenJDK Runtime": 17,
		"openjdk version \"25\" 2025-09-16":                       25,
		"java version \"1.8.0_392\"":                              8,
	} {
		if got, err := javaMajor(out); err != nil || got != want {
			t.Errorf("%q: got %d, %v, want %d", out, got, err, want)
		}
	}
	if got, err := javaMajor("command not found"); err == nil {
		t.Errorf("got %d out of nothing", got)
	}
}

// fakeMaven puts a mvn in front of the PATH that runs a shell script. $out is the output folder that it was given.
func fakeMaven(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	text := "#!/bin/sh\nfor a; do case $a in -DoutputDirectory=*) out=${a#*=};; esac; done\n" + script + "\n"
	if err := os.WriteFile(filepath.Join(dir, "mvn"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func TestOneFetchForAllWhoAsk(t *testing.T) {
	calls := filepath.Join(t.TempDir(), "calls")
	t.Setenv("CALLS", calls)
	fakeMaven(t, `echo call >> "$CALLS"; mkdir -p "$out"; sleep 0.3; touch "$out/a.jar"`)
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			classpath, err := FetchClasspath(t.Context(), dir, []byte("<project/>"))
			if err != nil {
				t.Error(err)
				return
			}
			// Whoever gets an answer finds the jars complete.
			if _, err := os.Stat(filepath.Join(filepath.Dir(classpath), "a.jar")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	made, err := os.ReadFile(calls)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(made), "call"); got != 1 {
		t.Errorf("mvn was called %d times", got)
	}

	t.Run("and then none without a network or Maven", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		if _, err := FetchClasspath(t.Context(), dir, []byte("<project/>")); err != nil {
			t.Error(err)
		}
	})
	t.Run("another pom is another folder", func(t *testing.T) {
		if _, err := FetchClasspath(t.Context(), dir, []byte("<project></project>")); err != nil {
			t.Fatal(err)
		}
		made, err := os.ReadFile(calls)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(string(made), "call"); got != 2 {
			t.Errorf("mvn was called %d times", got)
		}
	})
}

func TestAFailedFetchLeavesNothing(t *testing.T) {
	for name, script := range map[string]string{
		"maven fails":   `mkdir -p "$out"; touch "$out/half.jar"; echo "[INFO] trying"; echo "[ERROR] no route to the registry"; exit 1`,
		"nothing comes": `mkdir -p "$out"`,
	} {
		t.Run(name, func(t *testing.T) {
			fakeMaven(t, script)
			dir := t.TempDir()
			_, err := FetchClasspath(t.Context(), dir, []byte("<project/>"))
			if !errors.Is(err, ErrUnavailable) {
				t.Fatalf("got %v", err)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %v", err)
			}
			if name == "maven fails" && !strings.Contains(err.Error(), "no route to the registry") {
				t.Errorf("Maven's reason is missing: %v", err)
			}
			jars, _ := filepath.Glob(filepath.Join(dir, "*", "*.jar"))
			folders, _ := filepath.Glob(filepath.Join(dir, "make-*"))
			if len(jars)+len(folders) != 0 {
				t.Errorf("left behind: %v %v", jars, folders)
			}
		})
	}
}

func TestMissingTools(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("JAVA_HOME", "")
	if _, err := Java(t.Context()); !errors.Is(err, ErrUnavailable) {
		t.Errorf("no java: %v", err)
	}
	if _, err := FetchClasspath(t.Context(), t.TempDir(), []byte("<project/>")); !errors.Is(err, ErrUnavailable) {
		t.Errorf("no mvn: %v", err)
	}
}

func TestOldJava(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n"
	if err := os.WriteFile(filepath.Join(dir, "java"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("JAVA_HOME", "")
	_, err := Java(context.Background())
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "Java 11") {
		t.Errorf("got %v", err)
	}
}

func TestCacheDir(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("MILLRACE_CACHE", dir)
	if got, err := CacheDir(); err != nil || got != dir {
		t.Errorf("got %q, %v", got, err)
	}
	t.Setenv("MILLRACE_CACHE", "")
	t.Setenv("XDG_CACHE_HOME", dir)
	t.Setenv("HOME", dir)
	if got, err := CacheDir(); err != nil || !strings.HasPrefix(got, dir) || filepath.Base(got) != "millrace" {
		t.Errorf("got %q, %v", got, err)
	}
}
