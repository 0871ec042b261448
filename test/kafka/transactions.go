package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The states of a transaction of which nothing is left to do. In all others records or offsets may wait for its end.
var endedStates = []string{"Empty", "CompleteCommit", "CompleteAbort", "Dead"}

// OpenTransactions lists the transactions that are not over and whose ids start with a prefix. Coordinators that do not answer
// are an error; what the others say is returned all the same.
func OpenTransactions(ctx context.Context, admin *kadm.Client, prefix string) ([]kadm.ListedTransaction, error) {
	listed, err := admin.ListTransactions(ctx, nil, nil)
	var open []kadm.ListedTransaction
	for _, t := range listed.Sorted() {
		if strings.HasPrefix(t.TxnID, prefix) && !slices.Contains(endedStates, t.State) {
			open = append(open, t)
		}
	}
	if err != nil {
		return open, fmt.Errorf("kafkatest: list transactions: %w", err)
	}
	return open, nil
}

// ReadStable reads all committed records of a topic once no transaction is open in it. A transaction that is committed may have its
// markers written, partition by partition, after that was acknowledged.
func ReadStable(t testing.TB, b Broker, topic string) []*kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	err := withAdmin(b, func(admin *kadm.Client) error {
		return poll(ctx, func(ctx context.Context) error {
			unstable, err := UnstablePartitions(ctx, admin, topic)
			if err == nil && len(unstable) > 0 {
				err = errors.New(unstable[0])
			}
			return err
		})
	})
	if err != nil {
		t.Fatalf("kafkatest: a transaction is open in topic %q: %v", topic, err)
	}
	return ReadAll(t, b, topic, Committed)
}

// UnstablePartitions lists the partitions of topics below whose end an open transaction has records, with both ends.
func UnstablePartitions(ctx context.Context, admin *kadm.Client, topics ...string) ([]string, error) {
	ends, err := admin.ListEndOffsets(ctx, topics...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("kafkatest: ends of topics: %w", err)
	}
	stable, err := admin.ListCommittedOffsets(ctx, topics...)
	if err == nil {
		err = stable.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("kafkatest: last stable offsets of topics: %w", err)
	}
	var out []string
	ends.Each(func(end kadm.ListedOffset) {
		if s, ok := stable.Lookup(end.Topic, end.Partition); !ok || s.Offset < end.Offset {
			out = append(out, fmt.Sprintf("%s-%d is stable up to %d of %d", end.Topic, end.Partition, s.Offset, end.Offset))
		}
	})
	slices.Sort(out)
	return out, nil
}
