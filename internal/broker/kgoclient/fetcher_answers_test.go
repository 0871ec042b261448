package kgoclient

import (
	"testing"
	"time"
)

// An empty partition is never polled again, but whoever asks can tell that the broker goes on answering for it.
func TestFetcher_countsAnswersThatTellNothingNew(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 1, nil)
	cfg.Fetch.MaxWait = 10 * time.Millisecond
	f := newFetcher(t, cfg, false)
	if n := f.Answers(tp("in", 0)); n != 0 {
		t.Errorf("%d answers for a partition that is not assigned", n)
	}
	f.Assign(tp("in", 0), 0, 1)
	pollUntil(t, f, positionIs(0))
	f.Assign(tp("in", 0), 0, 2) // counts anew
	pollUntil(t, f, positionIs(0))
	ctx := testCtx(t)
	for f.Answers(tp("in", 0)) < 3 {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%d answers for an empty partition", f.Answers(tp("in", 0)))
		}
	}
	f.Pause(tp("in", 0))
	f.Unassign(tp("in", 0))
	if n := f.Answers(tp("in", 0)); n != 0 {
		t.Errorf("%d answers for a partition that is not assigned any more", n)
	}
}
