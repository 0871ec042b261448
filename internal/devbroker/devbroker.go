// Package devbroker is a Kafka broker for development that lives in this process: franz-go's kfake with what a user needs
// around it. It listens on a port of its own choice or a given one, keeps its data in memory or in a locked directory, has
// a cluster id of its own, and compacts and applies retention by itself every few seconds.
//
// It speaks the Kafka protocol, groups and transactions included, to any client. It has no authentication, no replication
// and no limits, so it is no broker for production.
package devbroker

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// DefaultListen is the address used when Options.Listen is empty: any free port, reachable from this machine only.
const DefaultListen = "127.0.0.1:0"

// DefaultMaintenance is the time between two rounds of compaction and retention when Options.Maintenance is zero.
const DefaultMaintenance = 5 * time.Second

// Options configure a Broker. The zero value is a broker in memory on a free port of 127.0.0.1.
type Options struct {
	// Listen is HOST:PORT to listen on; port 0 takes a free one. Default DefaultListen.
	Listen string

	// Advertise is the HOST:PORT that clients are told to connect to, where it differs from the address listened on.
	// It is required where Listen has no host or an unspecified one (0.0.0.0, ::), which no client can connect to.
	//
	// In Kafka: advertised.listeners.
	Advertise string

	// DataDir keeps topics, records and committed offsets over restarts. It is created if needed and locked while the
	// broker runs. Empty keeps everything in memory.
	DataDir string

	// Maintenance is the time between two rounds of compaction and retention; negative turns both off. A round that takes
	// long delays the next one, so that no more than a twentieth of the broker's time is spent on it. Default
	// DefaultMaintenance.
	Maintenance time.Duration

	// AutoCreateTopics lets a client create a topic by asking for it.
	//
	// In Kafka: auto.create.topics.enable.
	AutoCreateTopics bool

	// Partitions is the number of partitions of a topic that is created without one. Default 1, as in Kafka.
	//
	// In Kafka: num.partitions.
	Partitions int

	// Logger gets warnings and errors of the broker. Nil discards them.
	Logger *slog.Logger
}

// Broker is a running broker. Close it when done.
type Broker struct {
	cluster *kfake.Cluster
	addr    string // as clients are told
	lock    *flock.Flock
	log     *slog.Logger

	client *kgo.Client   // for maintenance
	stop   func()        // ends the maintenance goroutine
	done   chan struct{} // closed when it has ended; nil if there is none

	closeOnce sync.Once
	closeErr  error
}

// Start starts a broker. The errors that a user can meet, each of which says what to do: an address that cannot be listened
// on or that no client could connect to, and a data directory in use, unreadable or written by a newer version.
func Start(o Options) (*Broker, error) {
	if o.Listen == "" {
		o.Listen = DefaultListen
	}
	if o.Maintenance == 0 {
		o.Maintenance = DefaultMaintenance
	}
	if o.Partitions == 0 {
		o.Partitions = 1
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Partitions < 0 {
		return nil, fmt.Errorf("millrace: broker: %d partitions by default: give at least 1", o.Partitions)
	}

	b := &Broker{log: o.Logger}
	started := false
	defer func() {
		if !started {
			b.unlock()
		}
	}()
	if o.DataDir != "" {
		if err := b.lockDir(o.DataDir); err != nil {
			return nil, err
		}
	}
	ln, err := listen(o.Listen, o.Advertise)
	if err != nil {
		return nil, err
	}
	b.addr = ln.Addr().String()

	opts := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.ListenFn(func(string, string) (net.Listener, error) { return ln, nil }),
		// A cluster id of its own, so that local state of an earlier broker's topics is never taken for this one's. A
		// data directory brings back the id it was made with.
		kfake.ClusterID(newClusterID()),
		kfake.DefaultNumPartitions(o.Partitions),
		kfake.WithLogger(kfakeLogger{o.Logger}),
		kfake.BrokerConfigs(map[string]string{
			// kfake applies retention to topics that are only compacted, too, and would take the seven days that Kafka
			// has as its default for the tables and changelogs of anyone who loads records with old event times. So a
			// topic keeps its records for ever unless it says otherwise.
			"log.retention.ms": "-1",
			// Maintenance is ours: keep kfake's own timer out of the way.
			"log.cleaner.backoff.ms": strconv.FormatInt((10 * 365 * 24 * time.Hour).Milliseconds(), 10),
		}),
	}
	if o.AutoCreateTopics {
		opts = append(opts, kfake.AllowAutoTopicCreation())
	}
	if o.DataDir != "" {
		opts = append(opts, kfake.DataDir(o.DataDir))
	}
	b.cluster, err = kfake.NewCluster(opts...)
	if err != nil {
		_ = ln.Close() // closed already, or of no use to anyone
		if o.DataDir != "" {
			return nil, fmt.Errorf("millrace: broker: cannot load data directory %s: %w; repair or move it away, or choose "+
				"another with --data", o.DataDir, err)
		}
		return nil, fmt.Errorf("millrace: broker: cannot start: %w", err)
	}
	b.client, err = kgo.NewClient(
		kgo.SeedBrokers(b.addr),
		// The advertised address may be out of this process's reach, the one listened on is not.
		kgo.Dialer(dialOnly(ln.dialAddr())),
	)
	if err != nil {
		b.cluster.Close()
		return nil, fmt.Errorf("millrace: broker: cannot make the client for compaction: %w", err)
	}
	if o.Maintenance > 0 {
		b.startMaintenance(o.Maintenance)
	}
	started = true
	return b, nil
}

// Addrs returns the bootstrap addresses, HOST:PORT each, as a client's bootstrap.servers takes them.
func (b *Broker) Addrs() []string { return []string{b.addr} }

// Close stops the broker: it ends its connections, writes what a data directory needs and unlocks it. It may be called
// more than once.
func (b *Broker) Close() error {
	b.closeOnce.Do(func() {
		// kfake blocks for ever in a call that it gets after Close, so maintenance ends first.
		if b.done != nil {
			b.stop()
			<-b.done
		}
		b.client.Close()
		b.cluster.Close()
		b.closeErr = b.unlock()
	})
	return b.closeErr
}

// lockDir makes the data directory and takes its lock.
func (b *Broker) lockDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("millrace: broker: cannot make data directory %s: %w; choose another with --data", dir, err)
	}
	lock := flock.New(filepath.Join(dir, "lock"))
	ok, err := lock.TryLock()
	if err != nil {
		return fmt.Errorf("millrace: broker: cannot lock data directory %s: %w", dir, err)
	}
	if !ok {
		return fmt.Errorf("millrace: broker: data directory %s is in use by another broker; stop that one, or choose "+
			"another with --data", dir)
	}
	b.lock = lock
	return nil
}

func (b *Broker) unlock() error {
	if b.lock == nil {
		return nil
	}
	if err := b.lock.Unlock(); err != nil {
		return fmt.Errorf("millrace: broker: cannot unlock the data directory: %w", err)
	}
	return nil
}

// listener is a listener that may tell clients another address than its own.
type listener struct {
	net.Listener
	advertised net.Addr // nil: its own
}

func (l listener) Addr() net.Addr {
	if l.advertised != nil {
		return l.advertised
	}
	return l.Listener.Addr()
}

// dialAddr is where this process itself reaches the listener.
func (l listener) dialAddr() string {
	a, ok := l.Listener.Addr().(*net.TCPAddr)
	if !ok || !a.IP.IsUnspecified() {
		return l.Listener.Addr().String()
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(a.Port))
}

// hostPort is an address that is only a name, which kfake splits into host and port.
type hostPort string

func (hostPort) Network() string  { return "tcp" }
func (a hostPort) String() string { return string(a) }

func listen(addr, advertise string) (listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return listener{}, fmt.Errorf("millrace: broker: listen address %q is not HOST:PORT: %w", addr, err)
	}
	if advertise == "" {
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			return listener{}, fmt.Errorf("millrace: broker: clients cannot connect to listen address %q, which stands for "+
				"every interface; give the address that they use with --advertise HOST:PORT", addr)
		}
	} else if _, port, err := net.SplitHostPort(advertise); err != nil {
		return listener{}, fmt.Errorf("millrace: broker: advertised address %q is not HOST:PORT: %w", advertise, err)
	} else if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return listener{}, fmt.Errorf("millrace: broker: advertised address %q needs a port from 1 to 65535", advertise)
	}

	ln, err := net.Listen("tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return listener{}, fmt.Errorf("millrace: broker: port of %s is in use by another program; stop that one, or choose "+
			"another port with --listen (port 0 takes a free one)", addr)
	case errors.Is(err, syscall.EACCES):
		return listener{}, fmt.Errorf("millrace: broker: no permission to listen on %s; choose a port above 1023 with "+
			"--listen", addr)
	case err != nil:
		return listener{}, fmt.Errorf("millrace: broker: cannot listen on %s: %w; choose another address with --listen",
			addr, err)
	}
	l := listener{Listener: ln}
	if advertise != "" {
		l.advertised = hostPort(advertise)
	}
	return l, nil
}

// newClusterID makes an id of the same form as Kafka's: 22 characters of URL-safe base64.
func newClusterID() string {
	id := uuid.New()
	return base64.RawURLEncoding.EncodeToString(id[:])
}
