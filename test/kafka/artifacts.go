package kafkatest

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Version is the version of the Apache Kafka that Start runs.
const Version = "4.4.0"

// minJava is the oldest Java release that the broker runs on.
const minJava = 17

// copyGoal copies the run-time jars of a pom into a folder. The plugin's version is pinned, so that a fetch does the same
// on every machine.
const copyGoal = "org.apache.maven.plugins:maven-dependency-plugin:3.9.0:copy-dependencies"

//go:embed pom.xml
var brokerPOM []byte

// ErrUnavailable is what every error about a missing tool or artifact wraps: the machine cannot run a real broker. Tests
// are skipped for it, unless MILLRACE_REQUIRE_KAFKA is set.
var ErrUnavailable = errors.New("no real Kafka on this machine")

// CacheDir is the folder in which fetched artifacts are kept: MILLRACE_CACHE, or millrace in the user's cache folder.
func CacheDir() (string, error) {
	if dir := os.Getenv("MILLRACE_CACHE"); dir != "" {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return "", fmt.Errorf("kafkatest: MILLRACE_CACHE %q: %w", dir, err)
		}
		return abs, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("kafkatest: no cache folder, set MILLRACE_CACHE: %w", err)
	}
	return filepath.Join(dir, "millrace"), nil
}

// Java finds the java command and checks its version. The error wraps ErrUnavailable.
func Java(ctx context.Context) (string, error) {
	path := ""
	if home := os.Getenv("JAVA_HOME"); home != "" {
		if p, err := exec.LookPath(filepath.Join(home, "bin", "java")); err == nil {
			path = p
		}
	}
	if path == "" {
		p, err := exec.LookPath("java")
		if err != nil {
			return "", fmt.Errorf("kafkatest: %w: java is not on the PATH, install Java %d or newer", ErrUnavailable, minJava)
		}
		path = p
	}
	out, err := exec.CommandContext(ctx, path, "-version").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("kafkatest: %w: %s -version: %v", ErrUnavailable, path, err)
	}
	major, err := javaMajor(string(out))
	if err != nil {
		return "", fmt.Errorf("kafkatest: %w: %s -version: %v", ErrUnavailable, path, err)
	}
	if major < minJava {
		return "", fmt.Errorf("kafkatest: %w: %s is Java %d, install Java %d or newer", ErrUnavailable, path, major, minJava)
	}
	return path, nil
}

var javaVersion = regexp.MustCompile(`version "(\d+)(?:\.(\d+))?`)

// javaMajor reads the release out of what java -version prints: 17 of "17.0.15", 8 of "1.8.0_392".
func javaMajor(out string) (int, error) {
	m := javaVersion.FindStringSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("no version in %q", firstLine(out))
	}
	major := m[1]
	if major == "1" && m[2] != "" {
		major = m[2]
	}
	return strconv.Atoi(major)
}

// Classpath returns the class path of the broker, fetching the jars through Maven if the cache does not have them yet.
// Processes that ask at the same time wait for one fetch. The error wraps ErrUnavailable.
func Classpath(ctx context.Context) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	return FetchClasspath(ctx, filepath.Join(cache, "kafka-"+Version), brokerPOM)
}

// FetchClasspath returns a class path with the run-time dependencies of a pom, kept under dir in a folder named after the
// pom's content. Nothing is fetched when they are there already. The error wraps ErrUnavailable.
func FetchClasspath(ctx context.Context, dir string, pom []byte) (string, error) {
	sum := sha256.Sum256(pom)
	lib := filepath.Join(dir, "lib-"+hex.EncodeToString(sum[:6]))
	if err := MakeOnce(ctx, lib, func(work string) error { return fetch(ctx, work, filepath.Base(lib), pom) }); err != nil {
		return "", err
	}
	return filepath.Join(lib, "*"), nil
}

// fetch has Maven copy the jars into the folder work, which is to be called lib.
func fetch(ctx context.Context, work, lib string, pom []byte) error {
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return fmt.Errorf("kafkatest: %w: mvn is not on the PATH, install Maven, or set MILLRACE_CACHE to a folder that holds %s",
			ErrUnavailable, lib)
	}
	pomFile := filepath.Join(work, "pom.xml")
	if err := os.WriteFile(pomFile, pom, 0o644); err != nil {
		return fmt.Errorf("kafkatest: cache folder: %w", err)
	}
	cmd := exec.CommandContext(ctx, mvn, "-q", "-B", "-f", pomFile, copyGoal,
		"-DincludeScope=runtime", "-DoutputDirectory="+work)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("kafkatest: %w: mvn cannot fetch Kafka %s: %v: %s", ErrUnavailable, Version, err, mavenError(out))
	}
	if found, err := filepath.Glob(filepath.Join(work, "*.jar")); err != nil || len(found) == 0 {
		return fmt.Errorf("kafkatest: %w: mvn fetched no jar for %s", ErrUnavailable, lib)
	}
	return nil
}

// mavenError picks the line of Maven's output that says what is wrong.
func mavenError(out []byte) string {
	for line := range bytes.Lines(out) {
		if s := strings.TrimSpace(string(line)); strings.HasPrefix(s, "[ERROR]") {
			return s
		}
	}
	return firstLine(string(out))
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}
