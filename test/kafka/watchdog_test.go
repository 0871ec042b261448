//go:build unix

package kafkatest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// childEnv makes TestOwnerOfBrokers the process that is killed.
const childEnv = "KAFKATEST_OWNER"

// owned is what the child tells of its cluster.
type owned struct {
	Addr string
	Root string
}

// TestOwnerOfBrokers is not a test by itself: it is what the process of TestBrokersEndWithTheirOwner runs. It starts a
// broker, says where it is, and waits to be killed.
func TestOwnerOfBrokers(t *testing.T) {
	if os.Getenv(childEnv) == "" {
		t.Skip("run by TestBrokersEndWithTheirOwner")
	}
	c := kafkatest.Start(t, kafkatest.Options{})
	line, err := json.Marshal(owned{Addr: c.Bootstrap()[0], Root: c.Root()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stdout.Write(append(line, '\n')); err != nil {
		t.Fatal(err)
	}
	<-t.Context().Done()
}

func TestBrokersEndWithTheirOwner(t *testing.T) {
	kafkatest.Shared(t) // skips where there is no broker, and fails where there must be one
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestOwnerOfBrokers$")
	child.Env = append(os.Environ(), childEnv+"=1")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	line, err := lines.ReadBytes('\n')
	if err != nil {
		t.Fatalf("the owner has ended: %v: %s", err, line)
	}
	var o owned
	if err := json.Unmarshal(line, &o); err != nil {
		t.Fatalf("%v: %s", err, line)
	}

	// A connection to the broker ends with the broker.
	conn, err := net.Dial("tcp", o.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // killed, as it should be
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); os.IsTimeout(err) {
		t.Fatal("the broker lives a minute after its owner was killed")
	}
	// The data is removed after that, by a process that nobody waits for: look until it is gone.
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(o.Root); os.IsNotExist(err) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s is left after its owner was killed", o.Root)
		}
	}
}
