package kgoclient

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A request for the id that was sent and got no answer may arrive late, and fence who has sent it: that is remembered, over the client
// that asks anew too. One that has not left this machine cannot.
func TestTransactions_strayProof(t *testing.T) {
	for name, x := range map[string]struct {
		fault wireFault
		stray bool
	}{"answered": {passes, false}, "no answer": {losesReply, true}, "not sent": {losesAsk, false}} {
		t.Run(name, func(t *testing.T) {
			p := newTxnPlace(t)
			txn := newTransactions(t, p.cfg, "x")
			p.w.set(kmsg.InitProducerID, x.fault, 1)
			proved(t, txn)
			if txn.Stray() != x.stray {
				t.Errorf("stray %t, want %t", txn.Stray(), x.stray)
			}
			proved(t, txn)
			if txn.Stray() != x.stray {
				t.Errorf("after another proof: stray %t, want %t", txn.Stray(), x.stray)
			}
		})
	}
}
