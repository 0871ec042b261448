package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// pollInterval is how often a question is put again to the brokers while waiting for an answer.
const pollInterval = 25 * time.Millisecond

// Stop shuts a broker down in order: it hands over the partitions that it leads and leaves the cluster. Stopping a broker
// that does not run does nothing.
func (c *Cluster) Stop(ctx context.Context, broker int) error {
	n := c.nodes[broker]
	if !n.running() {
		return nil
	}
	if err := terminate(n.cmd); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kafkatest: broker %d: stop: %w", n.id, err)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	select {
	case <-n.exited:
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("kafkatest: broker %d does not stop: %w\n%s", n.id, ctx.Err(), n.logTail()), n.kill())
	}
}

// Kill ends a broker with SIGKILL. What it had not written to disk stays in the operating system's page cache, so nothing
// that it acknowledged is lost.
func (c *Cluster) Kill(broker int) error { return c.nodes[broker].kill() }

// Restart starts a broker that was stopped or killed, on the same ports and data, and waits until all running brokers
// know each other. A broker that runs is stopped first.
func (c *Cluster) Restart(ctx context.Context, broker int) error {
	if err := c.Stop(ctx, broker); err != nil {
		return err
	}
	if err := c.nodes[broker].start(c.command); err != nil {
		return err
	}
	return c.AwaitBrokers(ctx)
}

// Running tells whether a broker's process runs.
func (c *Cluster) Running(broker int) bool { return c.nodes[broker].running() }

// AwaitBrokers waits until each of the brokers that run serves requests and lists all of them as members of the cluster.
// It fails as soon as one of them ends by itself.
func (c *Cluster) AwaitBrokers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var want []*node
	for _, n := range c.nodes {
		if n.exited != nil && n.running() {
			want = append(want, n)
		}
	}
	for _, n := range want {
		if err := c.awaitNode(ctx, n, want); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) awaitNode(ctx context.Context, n *node, want []*node) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ended := make(chan struct{})
	defer close(ended)
	for _, w := range want {
		go func() {
			select {
			case <-w.exited:
				stop(c.endedEarly(w))
			case <-ended:
			}
		}()
	}
	probe, err := newProbe(n.endpoints[0].addr())
	if err != nil {
		return err
	}
	defer probe.close()
	err = poll(ctx, func(ctx context.Context) error {
		listed, err := probe.members(ctx)
		if err != nil {
			return err
		}
		for _, w := range want {
			if !listed[int32(w.id)] {
				return fmt.Errorf("broker %d is not listed by broker %d", w.id, n.id)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("kafkatest: broker %d is not ready: %w\n%s", n.id, err, n.logTail())
	}
	return nil
}

// endedEarly is the error for a broker that ended while it was waited for.
func (c *Cluster) endedEarly(n *node) error {
	if n.portTaken() {
		return fmt.Errorf("broker %d: %w", n.id, errPortTaken)
	}
	return fmt.Errorf("broker %d has ended: %s\n%s", n.id, n.cmd.ProcessState, n.logTail())
}

// AwaitInSync waits until every partition has a leader and all its replicas are in sync, as between two steps of a
// rolling restart.
func (c *Cluster) AwaitInSync(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err := poll(ctx, func(ctx context.Context) error {
		meta, err := c.admin.Metadata(ctx)
		if err != nil {
			return err
		}
		for _, topic := range meta.Topics {
			for _, p := range topic.Partitions {
				if p.Err != nil {
					return fmt.Errorf("%s-%d: %w", p.Topic, p.Partition, p.Err)
				}
				if p.Leader < 0 || len(p.ISR) < len(p.Replicas) {
					return fmt.Errorf("%s-%d: leader %d, in sync %v of %v", p.Topic, p.Partition, p.Leader, p.ISR, p.Replicas)
				}
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("kafkatest: replicas do not get in sync: %w", err)
	}
	return nil
}

// Leader is the broker that leads a partition.
func (c *Cluster) Leader(ctx context.Context, topic string, partition int32) (int, error) {
	meta, err := c.admin.Metadata(ctx, topic)
	if err != nil {
		return 0, fmt.Errorf("kafkatest: leader of %s-%d: %w", topic, partition, err)
	}
	p, ok := meta.Topics[topic].Partitions[partition]
	if !ok || p.Leader < 0 {
		return 0, fmt.Errorf("kafkatest: leader of %s-%d: there is none", topic, partition)
	}
	return int(p.Leader) - 1, nil
}

// GroupCoordinator is the broker that coordinates a group.
func (c *Cluster) GroupCoordinator(ctx context.Context, group string) (int, error) {
	return c.coordinator(ctx, "group", group, c.admin.FindGroupCoordinators)
}

// TxnCoordinator is the broker that coordinates the transactions of a transactional id.
func (c *Cluster) TxnCoordinator(ctx context.Context, id string) (int, error) {
	return c.coordinator(ctx, "transactional id", id, c.admin.FindTxnCoordinators)
}

func (c *Cluster) coordinator(ctx context.Context, what, name string,
	find func(context.Context, ...string) kadm.FindCoordinatorResponses,
) (int, error) {
	var node int
	err := poll(ctx, func(ctx context.Context) error {
		r, ok := find(ctx, name)[name]
		if !ok {
			return errors.New("no answer")
		}
		node = int(r.NodeID) - 1
		return r.Err
	})
	if err != nil {
		return 0, fmt.Errorf("kafkatest: coordinator of %s %q: %w", what, name, err)
	}
	return node, nil
}

// AlterBrokers changes dynamic settings of all brokers and waits until those that run have them.
func (c *Cluster) AlterBrokers(ctx context.Context, settings map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	rs, err := c.admin.AlterBrokerConfigs(ctx, alterations(settings))
	if err != nil {
		return fmt.Errorf("kafkatest: broker settings: %w", err)
	}
	for _, r := range rs {
		if r.Err != nil {
			return fmt.Errorf("kafkatest: broker settings: %w: %s", r.Err, r.ErrMessage)
		}
	}
	for _, n := range c.nodes {
		if !n.running() {
			continue
		}
		if err := poll(ctx, func(ctx context.Context) error { return c.hasSettings(ctx, n, settings) }); err != nil {
			return fmt.Errorf("kafkatest: settings of broker %d: %w", n.id, err)
		}
	}
	return nil
}

// hasSettings fails while a broker still has other values.
func (c *Cluster) hasSettings(ctx context.Context, n *node, settings map[string]string) error {
	rs, err := c.admin.DescribeBrokerConfigs(ctx, int32(n.id))
	if err != nil {
		return err
	}
	for _, r := range rs {
		if r.Err != nil {
			return r.Err
		}
		for _, s := range r.Configs {
			if want, ok := settings[s.Key]; ok && s.MaybeValue() != want {
				return fmt.Errorf("%s is %q, not yet %q", s.Key, s.MaybeValue(), want)
			}
		}
	}
	return nil
}

func alterations(settings map[string]string) []kadm.AlterConfig {
	var out []kadm.AlterConfig
	for name, value := range settings {
		out = append(out, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: kadm.StringPtr(value)})
	}
	return out
}
