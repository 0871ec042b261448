// Package kgoclient implements the interfaces of package broker with franz-go. It is the engine's only importer of that
// library, and no type of it appears in what the package exports.
//
// The clients, each with connections of its own:
//
//   - [Fetcher] reads partitions that the engine chose; [Reader] reads single ones for restore. Both send their own Fetch
//     requests instead of using franz-go's consumer: see fetch.go for why.
//   - [Producer] writes, idempotently; [Transactions] writes in transactions.
//   - [Membership] is the instance's part in its group: a group client that joins, heartbeats and is assigned, and never
//     fetches a record, since its topics are paused and its assignor tells it of no partition. The group's members and its
//     leader speak of tasks, see docs/format/group-metadata.md.
//   - [Admin] does the rest: topics, configurations, offsets, commits.
//
// # Non-obvious
//
//   - An end of a partition cannot be recognised by records: markers, aborted data and compacted gaps move the position
//     without one. So positions come from the batches' own last offsets.
//   - A commit names the topic and its id (OffsetCommit v10 knows only the id, older ones only the name), and the member
//     and generation that the caller gives. franz-go's own commit would fill in whatever is newest.
//   - franz-go gives a member that was expelled a new id without a word to its callbacks: it keeps the assignment as if
//     nothing had happened. Membership notices in the assignor, which sees the id at each join.
//   - franz-go's record timeout counts from the record's timestamp, so every record with an old event time would fail at
//     once. Producer gives records a shared context with a deadline instead.
//   - A transaction ends through franz-go, whose bookkeeping decides what is sent: an end without an acknowledged record is
//     not sent at all, and one sent as a request of our own would take an epoch that franz-go does not learn of.
//   - franz-go may take a new epoch within a transaction and go on as if nothing had happened; the coordinator has aborted
//     what was written before. Transactions compares the epoch before each commit.
//   - franz-go forgets, at the end of a transaction, a record of a topic that it has just learnt of, and then commits nothing
//     without an error. See Transactions.settle.
//   - No context ends a record of a transaction that may have been written. Transactions fails all records when one
//     outlives its deadline, and takes a new client.
//   - franz-go's Close waits for a join that is under way, for as long as the group may take to rebalance. Membership.Leave
//     takes the member out by a request of its own and ends the client's context.
package kgoclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kslog"
)

// Config is what all clients of one App share. The zero value of each field is a sensible default; only Bootstrap is
// required.
type Config struct {
	// Bootstrap are the addresses to find the cluster by, host:port. Kafka property: bootstrap.servers.
	Bootstrap []string
	// Seeds, if set, are shared by all clients of an App, and Ping leaves in them the bootstrap addresses that answer.
	Seeds *Seeds
	// ClientID is what the brokers call the client in logs, quotas and group descriptions. Kafka property: client.id.
	ClientID string
	// Logger gets what franz-go has to say, warnings and errors as such, its information as debug. Nil is silence.
	Logger *slog.Logger
	// Outages is shared by the clients of one App: what they have to say of a broker that is away is told once for all of them. Nil
	// is one of its own.
	Outages *Outages

	// TLS, if set, encrypts every connection; the server's name is taken from the address unless ServerName is set.
	TLS *tls.Config
	// SASL, if set, authenticates every connection.
	SASL Mechanism
	// Dialer opens connections instead of the system's; TLS is laid over it.
	Dialer func(ctx context.Context, network, address string) (net.Conn, error)
	// DialTimeout bounds connecting, the TLS handshake included. Default 10 s.
	// Kafka property: socket.connection.setup.timeout.ms.
	DialTimeout time.Duration
	// RequestTimeout bounds the answer to one request, beyond the time that the request itself lets the broker wait.
	// Default 10 s. Kafka property: request.timeout.ms.
	RequestTimeout time.Duration
	// RetryBackoff and RetryBackoffMax are the least and the most pause before a request is sent again. Default 100 ms
	// and 1 s. Kafka properties: retry.backoff.ms, retry.backoff.max.ms.
	RetryBackoff, RetryBackoffMax time.Duration
	// MetadataMinAge is the least time between two looks at the cluster's metadata, and so the pause before a leader
	// change is noticed. Default 250 ms.
	MetadataMinAge time.Duration
	// MetadataMaxAge is after how long metadata is looked up again without a reason. Default 5 min.
	// Kafka property: metadata.max.age.ms.
	MetadataMaxAge time.Duration

	Fetch   FetchConfig
	Produce ProduceConfig
}

// FetchConfig bounds what Fetcher and Reader ask for.
type FetchConfig struct {
	// MaxWait is how long a broker holds a fetch for which it has no data. Default 500 ms. Kafka property:
	// fetch.max.wait.ms.
	MaxWait time.Duration
	// MinBytes is how much data ends that wait. Default 1. Kafka property: fetch.min.bytes.
	MinBytes int32
	// MaxBytes bounds the answer of one broker (a single larger batch still comes). Default 50 MiB. Kafka property:
	// fetch.max.bytes.
	MaxBytes int32
	// MaxPartitionBytes bounds one partition in it. Default 1 MiB. Kafka property: max.partition.fetch.bytes.
	MaxPartitionBytes int32
	// Rack is where the client runs, as brokers name racks. A leader may then have it read from a replica near by, where the
	// brokers have a replica.selector.class. Empty reads from leaders. Kafka property: client.rack.
	Rack string
}

// ProduceConfig tunes the Producer.
type ProduceConfig struct {
	// Linger is how long a record waits for others to share its batch. Default 5 ms, below 0 is none. Kafka property:
	// linger.ms.
	Linger time.Duration
	// BatchMaxBytes bounds one batch, and so one record, before compression. Default 1,000,012, as much as a broker takes
	// by default. Kafka property: max.request.size.
	BatchMaxBytes int32
	// Compression is snappy, lz4, zstd, gzip or none. Default snappy. Kafka property: compression.type.
	Compression string
	// MaxBufferedBytes is the hard bound of what is queued: Produce blocks there. Default 256 MiB. Kafka property:
	// buffer.memory.
	MaxBufferedBytes int
	// RequestTimeout is how long a broker may wait for its followers. Default 10 s.
	RequestTimeout time.Duration
	// DeliveryTimeout is after how long a record that cannot be written fails. Default 2 min. Kafka property:
	// delivery.timeout.ms.
	DeliveryTimeout time.Duration
}

func (c Config) withDefaults() Config {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&c.DialTimeout, 10*time.Second)
	def(&c.RequestTimeout, 10*time.Second)
	def(&c.RetryBackoff, 100*time.Millisecond)
	def(&c.RetryBackoffMax, max(time.Second, c.RetryBackoff))
	def(&c.MetadataMinAge, 250*time.Millisecond)
	def(&c.MetadataMaxAge, 5*time.Minute)
	def(&c.Fetch.MaxWait, 500*time.Millisecond)
	def(&c.Produce.Linger, 5*time.Millisecond)
	def(&c.Produce.RequestTimeout, 10*time.Second)
	def(&c.Produce.DeliveryTimeout, 2*time.Minute)
	def32 := func(n *int32, v int32) {
		if *n == 0 {
			*n = v
		}
	}
	def32(&c.Fetch.MinBytes, 1)
	def32(&c.Fetch.MaxBytes, 50<<20)
	def32(&c.Fetch.MaxPartitionBytes, 1<<20)
	def32(&c.Produce.BatchMaxBytes, 1_000_012)
	if c.Produce.MaxBufferedBytes == 0 {
		c.Produce.MaxBufferedBytes = 256 << 20
	}
	if c.Produce.Compression == "" {
		c.Produce.Compression = "snappy"
	}
	if c.ClientID == "" {
		c.ClientID = "millrace"
	}
	if c.Outages == nil {
		c.Outages = NewOutages()
	}
	return c
}

func (c Config) validate() error {
	if len(c.Bootstrap) == 0 {
		return errors.New("millrace: no bootstrap address: set bootstrap.servers to host:port of at least one broker")
	}
	for _, a := range c.Bootstrap {
		if _, _, err := net.SplitHostPort(a); err != nil {
			return fmt.Errorf("millrace: bootstrap address %q is not host:port: %w", a, err)
		}
	}
	if c.RetryBackoffMax < c.RetryBackoff {
		return fmt.Errorf("millrace: retry.backoff.max.ms (%v) is below retry.backoff.ms (%v)", c.RetryBackoffMax, c.RetryBackoff)
	}
	_, err := compression(c.Produce.Compression)
	return err
}

// opts are the franz-go options of all clients.
func (c Config) opts() []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Seeds.addresses(c.Bootstrap)...),
		kgo.ClientID(c.ClientID),
		kgo.SoftwareNameAndVersion("millrace", "1"),
		kgo.DisableClientMetrics(),
		kgo.RequestTimeoutOverhead(c.RequestTimeout),
		kgo.MetadataMinAge(min(c.MetadataMinAge, c.MetadataMaxAge)),
		kgo.MetadataMaxAge(c.MetadataMaxAge),
		kgo.RetryBackoffFn(c.backoff),
		kgo.Dialer(c.dial),
		// The caller's context bounds retries, not a count.
		kgo.RequestRetries(1 << 30),
		kgo.RetryTimeout(0),
	}
	if c.SASL != nil {
		opts = append(opts, kgo.SASL(c.SASL.mechanism()))
	}
	if c.Logger != nil {
		opts = append(opts, kgo.WithLogger(kslog.New(slog.New(quieter{c.Logger.Handler(), c.Outages}))))
	}
	return opts
}

// backoff is the pause after the nth failure, doubling from RetryBackoff to RetryBackoffMax.
func (c Config) backoff(n int) time.Duration {
	d := c.RetryBackoff
	for i := 1; i < n && d < c.RetryBackoffMax; i++ {
		d *= 2
	}
	return min(d, c.RetryBackoffMax)
}

// dial connects, and tells of a broker that was away and is back.
func (c Config) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := c.connect(ctx, network, address)
	if err != nil && ctx.Err() != nil {
		return conn, err // it was given up, and says nothing of the broker
	}
	if away, back := c.Outages.dialed(address, err); back && c.Logger != nil {
		c.Logger.Info("a broker can be reached again", "addr", address, "away", away.Round(time.Millisecond))
	}
	return conn, err
}

// connect connects and, with TLS, shakes hands, all within DialTimeout.
func (c Config) connect(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.DialTimeout)
	defer cancel()
	dial := c.Dialer
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	conn, err := dial(ctx, network, address)
	if err != nil || c.TLS == nil {
		return conn, err
	}
	conf := c.TLS.Clone()
	if conf.ServerName == "" {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			host = address
		}
		conf.ServerName = host
	}
	tc := tls.Client(conn, conf)
	if err := tc.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, &tlsError{err}
	}
	return tc, nil
}

// tlsError marks what went wrong while shaking hands, for the advice given with it.
type tlsError struct{ err error }

func (e *tlsError) Error() string { return "TLS handshake: " + e.err.Error() }
func (e *tlsError) Unwrap() error { return e.err }
