package kafkatest

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Bounds of one start, restart or stop of brokers, and of fetching Kafka before the first. They are generous because test
// machines are busy, and some far from a registry.
const (
	startTimeout = 2 * time.Minute
	fetchTimeout = 10 * time.Minute
)

// Cluster is a running Apache Kafka of one or three brokers. Brokers are counted from 0; the node id of broker i is i+1.
// Its methods may be called by several goroutines, but only one of them may stop and start brokers.
type Cluster struct {
	id      string
	root    string
	options Options
	command nodeCommand
	nodes   []*node
	tls     *TLSFiles
	client  *kgo.Client
	admin   *kadm.Client

	closeOnce sync.Once
	closeErr  error
}

// Start starts a cluster that belongs to the test and ends with it. Where no real Kafka can be had the test is skipped, or
// fails if MILLRACE_REQUIRE_KAFKA is set. If the test fails the end of the brokers' logs is shown.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	mustBeWanted(t)
	c, err := Launch(t.Context(), o)
	if err != nil {
		unavailable(t, err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for i := range c.nodes {
				t.Logf("end of the log of broker %d:\n%s", i, c.LogTail(i))
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Launch starts a cluster outside of a test. The caller must Close it; if it dies before it can, the brokers end with it.
// The error wraps ErrUnavailable if Java or the jars are not to be had.
func Launch(ctx context.Context, o Options) (*Cluster, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	java, err := Java(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := exec.LookPath("sh"); err != nil {
		return nil, fmt.Errorf("kafkatest: %w: no sh on the PATH, which watches over the brokers", ErrUnavailable)
	}
	fetchCtx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	classpath, err := Classpath(fetchCtx)
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		c, err := launch(ctx, o, java, classpath)
		if err == nil {
			return c, nil
		}
		if !errors.Is(err, errPortTaken) || attempt == 5 {
			return nil, err
		}
	}
}

// errPortTaken says that another process was quicker to one of the ports: other ones will do.
var errPortTaken = errors.New("a port was taken")

func launch(ctx context.Context, o Options, java, classpath string) (*Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	root, err := os.MkdirTemp("", "millrace-kafka-")
	if err != nil {
		return nil, fmt.Errorf("kafkatest: data folder: %w", err)
	}
	c := &Cluster{root: root, options: o}
	err = c.prepare(java, classpath)
	if err == nil {
		err = c.boot(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// prepare lays out folders, ports, certificates and server.properties.
func (c *Cluster) prepare(java, classpath string) error {
	id, err := newClusterID()
	if err != nil {
		return err
	}
	c.id = id
	if c.options.usesTLS() {
		if c.tls, err = WriteTLS(c.root); err != nil {
			return err
		}
	}
	layouts, err := c.layouts()
	if err != nil {
		return err
	}
	for _, l := range layouts {
		if err := os.Mkdir(l.dir, 0o755); err != nil {
			return fmt.Errorf("kafkatest: data folder: %w", err)
		}
		text := renderProperties(properties(c.options, layouts, l, c.tls))
		if err := os.WriteFile(l.propertiesFile(), []byte(text), 0o600); err != nil {
			return fmt.Errorf("kafkatest: broker %d: %w", l.id, err)
		}
		c.nodes = append(c.nodes, &node{layout: l})
	}
	heap := strconv.Itoa(c.options.HeapMB) + "m"
	jvm := []string{"-Xmx" + heap, "-Djava.awt.headless=true", "-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS"}
	if c.options.Throughput {
		jvm = append(jvm, "-Xms"+heap, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
	} else {
		jvm = append(jvm, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
	}
	c.command = nodeCommand{java: java, classpath: classpath, jvm: jvm, root: c.root}
	return nil
}

// layouts gives each broker an id, a folder and ports.
func (c *Cluster) layouts() ([]layout, error) {
	taken := make(map[int]bool)
	var out []layout
	for i := range c.options.Brokers {
		ports, err := freePorts(2+len(c.options.Listeners), taken)
		if err != nil {
			return nil, err
		}
		l := layout{id: i + 1, dir: filepath.Join(c.root, "broker-"+strconv.Itoa(i+1)), controller: ports[0]}
		l.endpoints = append(l.endpoints, endpoint{Listener{Name: plainListener}, ports[1]})
		for j, listener := range c.options.Listeners {
			l.endpoints = append(l.endpoints, endpoint{listener, ports[2+j]})
		}
		out = append(out, l)
	}
	return out, nil
}

// boot formats the brokers' folders, starts them and waits until they answer.
func (c *Cluster) boot(ctx context.Context) error {
	errs := make(chan error, len(c.nodes))
	for _, n := range c.nodes {
		go func() { errs <- c.format(ctx, n) }()
	}
	var failed error
	for range c.nodes {
		failed = errors.Join(failed, <-errs)
	}
	if failed != nil {
		return failed
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()...), kgo.MetadataMinAge(50*time.Millisecond),
		kgo.RetryTimeout(5*time.Second), kgo.RequestRetries(2))
	if err != nil {
		return fmt.Errorf("kafkatest: admin client: %w", err)
	}
	c.client, c.admin = client, kadm.NewClient(client)
	for _, n := range c.nodes {
		if err := n.start(c.command); err != nil {
			return err
		}
	}
	return c.AwaitBrokers(ctx)
}

// format writes the metadata with which a broker's first start begins.
func (c *Cluster) format(ctx context.Context, n *node) error {
	args := []string{"-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", c.command.classpath,
		"kafka.tools.StorageTool", "format", "-t", c.id, "-c", n.propertiesFile()}
	args = append(args, c.options.scramArgs()...)
	args = append(args, c.options.featureArgs()...)
	if out, err := exec.CommandContext(ctx, c.command.java, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("kafkatest: broker %d: formatting: %w: %s", n.id, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// newClusterID is a random UUID in Kafka's form. One that starts with a dash would be read as an option.
func newClusterID() (string, error) {
	for {
		var raw [16]byte
		if _, err := rand.Read(raw[:]); err != nil {
			return "", fmt.Errorf("kafkatest: cluster id: %w", err)
		}
		if id := base64.RawURLEncoding.EncodeToString(raw[:]); !strings.HasPrefix(id, "-") {
			return id, nil
		}
	}
}

// Close ends the brokers at once and removes their data. A second call does nothing.
func (c *Cluster) Close() error {
	c.closeOnce.Do(func() {
		if c.client != nil {
			c.client.Close()
		}
		for _, n := range c.nodes {
			c.closeErr = errors.Join(c.closeErr, n.kill())
		}
		if err := os.RemoveAll(c.root); err != nil {
			c.closeErr = errors.Join(c.closeErr, fmt.Errorf("kafkatest: data folder: %w", err))
		}
	})
	return c.closeErr
}

// Size is the number of brokers.
func (c *Cluster) Size() int { return len(c.nodes) }

// ID is the cluster's id.
func (c *Cluster) ID() string { return c.id }

// Bootstrap is the addresses of the plaintext listeners, running or not.
func (c *Cluster) Bootstrap() []string { return c.Addrs(plainListener) }

// Addrs is the addresses of the named listener, one for each broker; empty if there is no such listener.
func (c *Cluster) Addrs(listener string) []string {
	var out []string
	for _, n := range c.nodes {
		for _, e := range n.endpoints {
			if e.Name == listener {
				out = append(out, e.addr())
			}
		}
	}
	return out
}

// TLS is the cluster's certificates; nil if no listener uses TLS.
func (c *Cluster) TLS() *TLSFiles { return c.tls }

// Admin is a client of the plaintext listeners for whatever this package has no helper for. It is closed with the cluster.
func (c *Cluster) Admin() *kadm.Client { return c.admin }

// LogTail is the end of a broker's log.
func (c *Cluster) LogTail(broker int) string { return c.nodes[broker].logTail() }

// DataDir is the folder in which a broker keeps its logs.
func (c *Cluster) DataDir(broker int) string { return c.nodes[broker].dataDir() }

// Root is the folder that holds all of the cluster's files. It is removed with the cluster.
func (c *Cluster) Root() string { return c.root }
