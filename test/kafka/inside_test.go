//go:build unix

package kafkatest_test

import (
	"context"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/millrace-io/millrace/test/child"
)

// outcome is what killInside has done.
type outcome int8

const (
	spared  outcome = iota // its transaction was over: it was not killed
	missed                 // it was killed, and what it had sent last has ended its transaction
	aborted                // it was killed inside its transaction
)

// haltInside halts a process if it is inside an open transaction of the given id, and tells whether it was: nobody has asked for the
// end of the transaction by then. If it was not, it runs on.
func haltInside(ctx context.Context, admin *kadm.Client, p *child.Process, id string) (bool, error) {
	if err := p.Pause(); err != nil {
		return false, err
	}
	if ongoing(ctx, admin, id) {
		return true, nil
	}
	return false, p.Resume()
}

// killInside kills a process if it is inside an open transaction of the given id.
func killInside(ctx context.Context, admin *kadm.Client, p *child.Process, id string) (outcome, error) {
	halted, err := haltInside(ctx, admin, p, id)
	if err != nil || !halted {
		return spared, err
	}
	p.Kill()
	if !ongoing(ctx, admin, id) {
		return missed, nil
	}
	return aborted, nil
}

// ongoing tells whether a transaction has begun and nobody has asked for its end. A coordinator that does not say so is asked
// again by the caller.
func ongoing(ctx context.Context, admin *kadm.Client, id string) bool {
	described, err := admin.DescribeTransactions(ctx, id)
	return err == nil && described[id].Err == nil && described[id].State == "Ongoing"
}
