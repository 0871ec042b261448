package kafkatest

import (
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Broker is what a suite needs that runs on the real broker and on the embedded one.
type Broker interface {
	// Bootstrap is the addresses to connect to.
	Bootstrap() []string
	// Name makes a name for a topic, group or application that no other test on the same broker uses.
	Name(base string) string
	// Real tells whether this is Apache Kafka.
	Real() bool
}

// prefixes numbers the tests of this binary, so that two runs of one test (-count) differ too.
var prefixes atomic.Int64

// named gives names with a prefix of the test's own.
type named struct{ prefix string }

func newNamed(t testing.TB) named {
	legal := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '-'
	}, t.Name())
	// Kafka's limit for a topic is 249, and changelogs append to what they are given.
	if len(legal) > 60 {
		legal = legal[:60]
	}
	return named{legal + "-" + strconv.FormatInt(prefixes.Add(1), 10)}
}

func (n named) Name(base string) string { return n.prefix + "-" + base }

// onKafka is a test's view of a real cluster.
type onKafka struct {
	named
	*Cluster
}

func (onKafka) Real() bool { return true }

// OnCluster gives a test its view of a cluster, with names of its own.
func OnCluster(t testing.TB, c *Cluster) Broker { return onKafka{newNamed(t), c} }

// Renamed is a broker with names for a subtest of the test that it was given to.
func Renamed(t testing.TB, b Broker) Broker { return renamed{newNamed(t), b} }

// renamed is a broker whose names are those of another test.
type renamed struct {
	named
	Broker
}

// Name makes a name of the test's own.
func (r renamed) Name(base string) string { return r.named.Name(base) }

// Broker is the cluster for the functions of this package outside of a test; names start with the prefix.
func (c *Cluster) Broker(prefix string) Broker { return onKafka{named{prefix}, c} }

// Shared is the one real broker of the test binary: it is started at the first call and ended by Main (or else with the
// process). Skips and fails like Start.
func Shared(t testing.TB) Broker {
	t.Helper()
	return OnCluster(t, SharedCluster(t))
}

// SharedCluster is the cluster behind Shared, for a test that asks more of it. It must not be stopped.
func SharedCluster(t testing.TB) *Cluster {
	t.Helper()
	mustBeWanted(t)
	c, err := shared.get()
	if err != nil {
		unavailable(t, err)
	}
	return c
}

// Fake is franz-go's broker in process, with what a fault test needs of it.
type Fake struct {
	named
	*kfake.Cluster
}

// Bootstrap is the addresses of the embedded brokers.
func (f *Fake) Bootstrap() []string { return f.ListenAddrs() }

// Real is false.
func (*Fake) Real() bool { return false }

// Embedded starts an embedded broker that belongs to the test. Groups rebalance fast, and short session timeouts are
// allowed, as on the real broker of this package.
func Embedded(t testing.TB, opts ...kfake.Opt) *Fake {
	t.Helper()
	base := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.GroupMinSessionTimeout(500 * time.Millisecond),
		kfake.BrokerConfigs(map[string]string{
			"group.consumer.heartbeat.interval.ms": "100",
			"transaction.state.log.min.isr":        "1",
		}),
	}
	c, err := kfake.NewCluster(append(base, opts...)...)
	if err != nil {
		t.Fatalf("kafkatest: embedded broker: %v", err)
	}
	t.Cleanup(c.Close)
	return &Fake{newNamed(t), c}
}

// Each runs a suite on the embedded broker and on the shared real one, as subtests named embedded and kafka.
func Each(t *testing.T, suite func(t *testing.T, b Broker)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) { suite(t, Embedded(t)) })
	t.Run("kafka", func(t *testing.T) { suite(t, Shared(t)) })
}

// NewClient is a franz-go client of the broker that is closed with the test. It retries quickly and does not shrink from
// topics that are made a moment later.
func NewClient(t testing.TB, b Broker, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	base := []kgo.Opt{
		kgo.SeedBrokers(b.Bootstrap()...),
		kgo.MetadataMinAge(50 * time.Millisecond),
		kgo.UnknownTopicRetries(20),
	}
	c, err := kgo.NewClient(append(base, opts...)...)
	if err != nil {
		t.Fatalf("kafkatest: client: %v", err)
	}
	t.Cleanup(c.Close)
	return c
}
