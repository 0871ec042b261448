package kafkatest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// vanished is a transactional id whose owner the leader of a group takes for gone.
type vanished struct {
	t     *testing.T
	ctx   context.Context
	b     kafkatest.Broker
	admin *kadm.Client
	topic string
	id    string
}

func newVanished(t *testing.T, ctx context.Context, b kafkatest.Broker) *vanished {
	t.Helper()
	b = kafkatest.Renamed(t, b)
	return &vanished{t: t, ctx: ctx, b: b, admin: kadm.NewClient(kafkatest.NewClient(t, b)), topic: kafkatest.CreateTopic(t, b, "out", 1), id: b.Name("id")}
}

// owner is a life of whoever has the id. It proves the id with its first transaction.
func (v *vanished) owner() *kgo.Client {
	return kafkatest.NewClient(v.t, v.b, kgo.TransactionalID(v.id), kgo.DefaultProduceTopic(v.topic), kgo.TransactionTimeout(5*time.Minute))
}

// open begins a transaction with a record in it.
func (v *vanished) open(cl *kgo.Client, value string) {
	v.t.Helper()
	if err := cl.BeginTransaction(); err != nil {
		v.t.Fatal(err)
	}
	if err := cl.ProduceSync(v.ctx, kgo.StringRecord(value)).FirstErr(); err != nil {
		v.t.Fatal(err)
	}
}

func (v *vanished) commit(cl *kgo.Client) {
	v.t.Helper()
	if err := cl.EndTransaction(v.ctx, kgo.TryCommit); err != nil {
		v.t.Errorf("a transaction cannot be committed: %v", err)
	}
}

// describe tells what the coordinator says about the open transaction.
func (v *vanished) describe() kadm.DescribedTransaction {
	v.t.Helper()
	all, err := v.admin.DescribeTransactions(v.ctx, v.id)
	if err == nil {
		err = all[v.id].Err
	}
	if err != nil || all[v.id].State != "Ongoing" {
		v.t.Fatalf("%+v, %v", all[v.id], err)
	}
	return all[v.id]
}

// end is the request by which the leader ends a transaction as it was described: ADR 19, step 3.
func (v *vanished) end(tx kadm.DescribedTransaction) error {
	v.t.Helper()
	for state := "Prepare"; strings.HasPrefix(state, "Prepare"); { // a commit that was acknowledged is being written
		all, err := v.admin.DescribeTransactions(v.ctx, v.id)
		if err == nil {
			err = all[v.id].Err
		}
		if err != nil {
			v.t.Fatal(err)
		}
		state = all[v.id].State
	}
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = &v.id, tx.TimeoutMillis
	req.ProducerID, req.ProducerEpoch = tx.ProducerID, tx.ProducerEpoch
	at := v.admin.FindTxnCoordinators(v.ctx, v.id)[v.id]
	if at.Err != nil {
		v.t.Fatal(at.Err)
	}
	// Straight to the broker: a client asks again for as long as it gets CONCURRENT_TRANSACTIONS.
	resp, err := kafkatest.NewClient(v.t, v.b).Broker(int(at.NodeID)).Request(v.ctx, req)
	if err != nil {
		v.t.Fatal(err)
	}
	return kerr.ErrorForCode(resp.(*kmsg.InitProducerIDResponse).ErrorCode)
}

// again is what an owner does whose transaction was ended: it proves the id anew, and does again what was in it.
func (v *vanished) again(cl *kgo.Client, value string) {
	v.t.Helper()
	if err := cl.EndTransaction(v.ctx, kgo.TryCommit); err == nil {
		v.t.Error("a transaction is committed that was ended")
	}
	cl.Close()
	next := v.owner()
	v.open(next, value)
	v.commit(next)
}

// The leader of a group ends the transaction of a member that is gone by InitProducerID, with the producer id and epoch that it
// has been told. A coordinator ends what is open, even if the epoch is not that one any more: so the leader must be sure that
// nobody has begun another transaction since. If nothing is open, the epoch decides, and an owner that lives goes on.
func TestVanished_whatACoordinatorEnds(t *testing.T) {
	b := kafkatest.Shared(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	nextLife := func(v *vanished, _ *kgo.Client) *kgo.Client {
		next := v.owner()
		if _, _, err := next.ProducerID(ctx); err != nil {
			t.Fatal(err)
		}
		return next
	}
	for _, c := range []struct {
		name  string
		since func(v *vanished, cl *kgo.Client) *kgo.Client // what has happened since the transaction was described; who has the id then
		gets  error
		then  func(v *vanished, cl *kgo.Client)
		want  []string
	}{
		{
			"nothing has happened", func(_ *vanished, cl *kgo.Client) *kgo.Client { return cl },
			kerr.ConcurrentTransactions, func(v *vanished, cl *kgo.Client) { v.again(cl, "first again") }, []string{"first again"},
		}, {
			"it was committed", func(v *vanished, cl *kgo.Client) *kgo.Client { v.commit(cl); return cl },
			nil, func(v *vanished, cl *kgo.Client) { v.open(cl, "second"); v.commit(cl) }, []string{"first", "second"},
		}, {
			"it was committed, and another one is open", func(v *vanished, cl *kgo.Client) *kgo.Client { v.commit(cl); v.open(cl, "second"); return cl },
			kerr.ConcurrentTransactions, func(v *vanished, cl *kgo.Client) { v.again(cl, "second again") }, []string{"first", "second again"},
		}, {
			"two were committed", func(v *vanished, cl *kgo.Client) *kgo.Client {
				v.commit(cl)
				v.open(cl, "second")
				v.commit(cl)
				return cl
			},
			kerr.ProducerFenced, func(v *vanished, cl *kgo.Client) { v.open(cl, "third"); v.commit(cl) }, []string{"first", "second", "third"},
		}, {
			"a new life has proved the id", nextLife,
			kerr.ProducerFenced, func(v *vanished, cl *kgo.Client) { v.open(cl, "second"); v.commit(cl) }, []string{"second"},
		}, {
			"a new life has a transaction open", func(v *vanished, cl *kgo.Client) *kgo.Client {
				next := nextLife(v, cl)
				v.open(next, "second")
				return next
			},
			kerr.ConcurrentTransactions, func(v *vanished, cl *kgo.Client) { v.again(cl, "second again") }, []string{"second again"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := newVanished(t, ctx, b)
			cl := v.owner()
			v.open(cl, "first")
			tx := v.describe()
			cl = c.since(v, cl)
			if err := v.end(tx); !errors.Is(err, c.gets) {
				t.Errorf("the request gets %v, want %v", err, c.gets)
			}
			c.then(v, cl)
			v.check(c.want)
		})
	}
}

// check reads what is committed once nothing is open.
func (v *vanished) check(want []string) {
	v.t.Helper()
	var got []string
	for _, r := range kafkatest.ReadStable(v.t, v.b, v.topic) {
		got = append(got, string(r.Value))
	}
	if !slices.Equal(got, want) {
		v.t.Errorf("committed are %q, want %q", got, want)
	}
}
