package kgoclient

import (
	"context"
	"errors"
	"testing"
)

// Whoever waits for somebody else's request for metadata waits no longer than its own context lasts: a request without an answer
// holds up for its whole timeout.
func TestMetadata_waitingEndsWithTheContext(t *testing.T) {
	m := newMetadata(nil)
	m.loading <- struct{}{} // somebody's request is under way
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.load(ctx, 0, "topic"); !errors.Is(err, context.Canceled) {
		t.Errorf("load returned %v, want the error of its context", err)
	}
	<-m.loading
	if len(m.loading) != 0 {
		t.Error("the turn was given back by one who did not have it")
	}
}
