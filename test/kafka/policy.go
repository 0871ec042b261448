package kafkatest

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
)

// required tells whether a real broker that cannot be had is a failure.
func required() bool {
	switch os.Getenv("MILLRACE_REQUIRE_KAFKA") {
	case "", "0", "false":
		return false
	}
	return true
}

// leftOut tells whether the real broker is switched off.
func leftOut() bool { return strings.EqualFold(os.Getenv("MILLRACE_KAFKA"), "off") }

// mustBeWanted skips the test if the real broker is left out.
func mustBeWanted(t testing.TB) {
	t.Helper()
	if !leftOut() {
		return
	}
	if required() {
		t.Fatal("kafkatest: MILLRACE_KAFKA=off contradicts MILLRACE_REQUIRE_KAFKA: unset one of them")
	}
	t.Skip("kafkatest: real Kafka left out: MILLRACE_KAFKA=off")
}

// unavailable ends the test for want of a real broker: it is skipped if the machine has none to offer and none is
// required, else it fails.
func unavailable(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, ErrUnavailable) && !required() {
		t.Skip(err)
	}
	t.Fatal(err)
}

// shared is the test binary's one broker. Tests cannot be handed a value by TestMain, so it has to be a variable of the
// package.
var shared sharedCluster

// sharedCluster starts a cluster at the first call and remembers how that went.
type sharedCluster struct {
	mu      sync.Mutex
	started bool
	cluster *Cluster
	err     error
}

func (s *sharedCluster) get() (*Cluster, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started {
		s.started = true
		s.cluster, s.err = Launch(context.Background(), Options{})
	}
	return s.cluster, s.err
}

func (s *sharedCluster) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cluster == nil {
		return nil
	}
	return s.cluster.Close()
}

// Main runs the tests of a package and ends the broker of Shared. It is for TestMain and does not return.
func Main(m *testing.M) {
	code := m.Run()
	if err := shared.close(); err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		code = max(code, 1)
	}
	os.Exit(code)
}
