package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// poll asks until there is no error or the context ends; its error is then the context's cause and the last answer.
func poll(ctx context.Context, ask func(context.Context) error) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			cause := context.Cause(ctx)
			if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
				return cause
			}
			return fmt.Errorf("%w (last: %v)", cause, err)
		}
	}
}

// probeTimeout is how long a broker may take to answer. It is asked again after that.
const probeTimeout = 10 * time.Second

// probe asks one broker, and does not try again by itself.
type probe struct{ client *kgo.Client }

func newProbe(addr string) (probe, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.RequestRetries(0), kgo.RetryTimeout(probeTimeout))
	if err != nil {
		return probe{}, fmt.Errorf("kafkatest: client of %s: %w", addr, err)
	}
	return probe{client}, nil
}

// members are the node ids of the brokers that this one knows to be in service. It gives an answer in time or
// fails, so that a broker that accepts connections and then says nothing is asked again.
func (p probe) members(ctx context.Context) (map[int32]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	resp, err := p.client.SeedBrokers()[0].Request(ctx, kmsg.NewPtrMetadataRequest())
	if err != nil {
		return nil, err
	}
	meta, ok := resp.(*kmsg.MetadataResponse)
	if !ok {
		return nil, fmt.Errorf("unexpected answer %T to a metadata request", resp)
	}
	members := make(map[int32]bool)
	for _, b := range meta.Brokers {
		members[b.NodeID] = true
	}
	return members, nil
}

func (p probe) close() { p.client.Close() }
