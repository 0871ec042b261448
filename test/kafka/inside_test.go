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

// killInside kills a process if it is inside an open transaction of the given id: it is halted, and killed if nobody has asked for
// the end of the transaction by then.
func killInside(ctx context.Context, admin *kadm.Client, p *child.Process, id string) (outcome, error) {
	if err := p.Pause(); err != nil {
		return spared, err
	}
	if !ongoing(ctx, admin, id) {
		return spared, p.Resume()
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
