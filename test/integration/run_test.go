package integration_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/millrace-io/millrace"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// running is an App that runs beside the test.
type running struct {
	t      *testing.T
	app    *millrace.App
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// start runs a topology until the test ends or stop is called. Options given later win.
func start(t *testing.T, b kafkatest.Broker, appID string, topology *millrace.Topology, opts ...millrace.AppOption) *running {
	t.Helper()
	all := append([]millrace.AppOption{
		millrace.ApplicationID(appID), millrace.Brokers(b.Bootstrap()...), millrace.StateDir(filepath.Join(t.TempDir(), "state")),
		millrace.CommitInterval(100 * time.Millisecond),
	}, opts...)
	app, err := millrace.NewApp(topology, all...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{t: t, app: app, cancel: cancel, done: make(chan struct{})}
	go func() {
		r.err = app.Run(ctx)
		close(r.done)
	}()
	t.Cleanup(func() {
		cancel()
		<-r.done
	})
	return r
}

// stop drains the application and fails the test if it ends with an error.
func (r *running) stop() {
	r.t.Helper()
	r.cancel()
	<-r.done
	if r.err != nil && !errors.Is(r.err, context.Canceled) {
		r.t.Fatalf("the application ended with %v", r.err)
	}
}

// fails waits for the application to end by itself, and returns why.
func (r *running) fails() error {
	r.t.Helper()
	select {
	case <-r.done:
	case <-time.After(time.Minute):
		r.t.Fatal("the application runs on, it should have failed")
	}
	if r.err == nil {
		r.t.Fatal("the application ended without an error")
	}
	return r.err
}

func buildTopology(t *testing.T, b *millrace.Builder) *millrace.Topology {
	t.Helper()
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return topology
}

// awaitCommitted waits until a group has committed at least n records of a topic in all.
func awaitCommitted(t *testing.T, b kafkatest.Broker, group, topic string, n int64) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		sum := int64(0)
		for _, o := range kafkatest.GroupOffsets(t, b, group)[topic] {
			sum += o.At
		}
		if sum >= n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("group %s has committed %d records of %s within a minute, want %d", group, sum, topic, n)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("the test is over")
		}
	}
}
