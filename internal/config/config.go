// Package config holds every setting that the engine knows, in one plain struct, and fills it from typed options or from
// the property names of Kafka Streams.
//
// Default gives a Config that only lacks an application id and bootstrap servers. Options write its fields; FromProperties
// checks a set of Java properties and gives the Changes that they make. Validate then reports everything that is wrong
// with the result at once. All property names, with what each of them does here, stand in one table (Describe).
package config

import (
	"math"
	"os"
	"path/filepath"
	"time"
)

// Config is what an App runs with. The zero value is not usable: begin with Default.
//
// Durations are time.Duration; the property of the same setting is a number of milliseconds.
type Config struct {
	// ApplicationID is the group id, and the prefix of internal topics and of the state directory. Property:
	// application.id.
	ApplicationID string
	// BootstrapServers are the brokers that the clients ask first, each host:port. Property: bootstrap.servers.
	BootstrapServers []string
	// ClientID is the prefix of the client ids; empty is "<application.id>-<random UUID>". Property: client.id.
	ClientID string

	// StateDir is the directory under which stores are kept. Property: state.dir.
	StateDir string
	// DefaultStore says where a store lies for which the topology does not say it. Property: dsl.store.suppliers.class,
	// or default.dsl.store.
	DefaultStore StoreKind

	// Guarantee is the processing guarantee. Property: processing.guarantee.
	Guarantee Guarantee
	// CommitInterval is the longest time between two commits of a task that has something to commit; 0 commits after
	// each round. Unset leaves it to the guarantee: see CommitEvery. Property: commit.interval.ms.
	CommitInterval time.Duration
	// CommitTimeout is how long a commit is tried before the task fails. Property: default.api.timeout.ms of the
	// consumers.
	CommitTimeout time.Duration

	// MaxTaskIdle is how long a task waits for an input partition that is caught up and has no record, before it goes on
	// without it. 0 goes on at once, and still waits for a partition that has records to fetch; NeverIdle does not wait
	// for those either. Property: max.task.idle.ms.
	MaxTaskIdle time.Duration
	// MaxPollInterval is how long one record or timer may take before its task is given up. Property:
	// max.poll.interval.ms.
	MaxPollInterval time.Duration
	// TaskTimeout is how long a task is tried again after time-outs of the brokers before it fails; 0 fails at once. It is
	// also how long user code of a task that was given up (MaxPollInterval) may go on before the App stops.
	// Property: task.timeout.ms.
	TaskTimeout time.Duration

	// GroupProtocol says who assigns the tasks. Property: group.protocol.
	GroupProtocol GroupProtocol
	// SessionTimeout is how long the group waits for a silent member. Property: session.timeout.ms.
	SessionTimeout time.Duration
	// HeartbeatInterval is the time between two heartbeats. Property: heartbeat.interval.ms.
	HeartbeatInterval time.Duration
	// RebalanceTimeout is how long the group waits for members to rejoin in a rebalance. Property:
	// millrace.rebalance.timeout.ms. (Kafka Streams takes max.poll.interval.ms for it.)
	RebalanceTimeout time.Duration
	// InstanceID makes the App the static member of that name; empty leaves the name to StaticMembership. Property:
	// group.instance.id.
	InstanceID string
	// StaticMembership makes an App with persistent stores a static member under an id kept in its state directory, so
	// that a restart moves no task. Property: millrace.static.membership.
	StaticMembership bool

	// BufferedRecords is the number of records of one input partition above which it is paused. Property:
	// buffered.records.per.partition.
	BufferedRecords int
	// BufferedBytes is their size above which it is paused; 0 derives it from MemoryLimit. Property:
	// millrace.buffered.bytes.per.partition.
	BufferedBytes int64
	// CacheBytes is the size of the App's deduplicating record cache; 0 forwards and logs each update. Property:
	// statestore.cache.max.bytes.
	CacheBytes int64
	// MemoryLimit is the size, in bytes, from which all buffers and caches are derived (see Budgets). Property:
	// millrace.memory.limit.bytes.
	MemoryLimit int64
	// Workers is the hard limit of worker goroutines; 0 lets them follow GOMAXPROCS and replaces those that are held up
	// in user code. Property: num.stream.threads.
	Workers int

	// StateCleanupDelay is after how long the state of a task that has moved away is deleted; 0 never. Property:
	// state.cleanup.delay.ms.
	StateCleanupDelay time.Duration

	// Standbys is how many warm copies of each task's state other instances keep. Property: num.standby.replicas.
	Standbys int
	// MaxWarmups is how many copies may be made at once for tasks that are to move; 0 moves them at once. Property:
	// max.warmup.replicas.
	MaxWarmups int
	// AcceptableLag is how many records a copy may be behind and count as warm. Property: acceptable.recovery.lag.
	AcceptableLag int64
	// RackTags are the tags over which the copies of a task are spread. Property: rack.aware.assignment.tags.
	RackTags []string
	// RackStrategy says how much it counts that tasks run in the rack of what they read. Property:
	// rack.aware.assignment.strategy.
	RackStrategy RackStrategy
	// RackTrafficCost is the cost of a partition without a replica in the instance's rack, and RackMoveCost that of a task on
	// another instance than the one that runs it. Properties: rack.aware.assignment.traffic_cost, .non_overlap_cost.
	RackTrafficCost, RackMoveCost int
	// ClientTags say where the instance runs. Properties: client.tag.*.
	ClientTags map[string]string

	// ReplicationFactor is that of internal topics; -1 is the brokers' default. Property: replication.factor.
	ReplicationFactor int16
	// TopicConfigs are configs of internal topics, over the engine's own and under those of a single store. Properties:
	// topic.<config>.
	TopicConfigs map[string]string
	// RepartitionPurgeInterval is the time between two deletions of consumed records in repartition topics. Property:
	// repartition.purge.interval.ms.
	RepartitionPurgeInterval time.Duration
	// WindowChangelogRetention is added to a window store's retention to give that of its changelog topic. Property:
	// windowstore.changelog.additional.retention.ms.
	WindowChangelogRetention time.Duration
	// ExplicitNames refuses a topology in which a store or an internal topic has a generated name. Property:
	// ensure.explicit.internal.resource.naming.
	ExplicitNames bool
	// Optimization is how the topology has to have been built. Property: topology.optimization.
	Optimization []string

	// Timestamps says what gives a record its event time, where its topic does not say it. Property:
	// default.timestamp.extractor.
	Timestamps TimestampPolicy
	// OnDeserializationError is what becomes of a record that does not decode. Property:
	// deserialization.exception.handler.
	OnDeserializationError ErrorPolicy
	// OnProcessingError is what becomes of a record on which a step fails. Property: processing.exception.handler.
	OnProcessingError ErrorPolicy
	// OnProductionError is what becomes of a record that cannot be written. Property: production.exception.handler.
	OnProductionError ErrorPolicy
	// DeadLetterTopic is the topic to which records that fail are written; empty is none. The topic is not created.
	// Property: errors.dead.letter.queue.topic.name.
	DeadLetterTopic string

	// Main is the client that reads the input topics and belongs to the group. Properties: no prefix, consumer., and
	// main.consumer. over it.
	Main Consumer
	// Restore is the client that reads changelogs. Properties: no prefix, consumer., and restore.consumer. over it.
	Restore Consumer
	// Global is the client that reads the topics of global tables. Properties: no prefix, consumer., and
	// global.consumer. over it.
	Global Consumer
	// Producer is the client that writes. Properties: no prefix, and producer. over it.
	Producer Producer
	// Admin is the client that creates topics, asks for offsets and deletes records. Properties: no prefix, and admin.
	// over it.
	Admin Admin
}

// NeverIdle is the MaxTaskIdle that never waits for a partition.
const NeverIdle = -1 * time.Millisecond

// DefaultMemoryLimit is the MemoryLimit of a Config from Default.
const DefaultMemoryLimit = 512 << 20

// Default returns the settings that hold where nothing is said: those of Kafka Streams 4.4, but for the ones below.
//
//   - HeartbeatInterval is 500 ms, not 3 s: a rebalance is over sooner, and a heartbeat costs next to nothing.
//   - RebalanceTimeout is 60 s, and not MaxPollInterval: no user code runs while a partition is handed over.
//   - StateDir is "millrace" in the directory for temporary files: the layout on disk is not that of Java.
//   - Workers is 0, and not one thread.
//   - How much is fetched and buffered for writing follows from MemoryLimit.
func Default() Config {
	conn := Connection{
		RequestTimeout:  30 * time.Second,
		RetryBackoff:    100 * time.Millisecond,
		RetryBackoffMax: time.Second,
		MetadataMaxAge:  5 * time.Minute,
		ConnectionSetup: 10 * time.Second,
		Security:        defaultSecurity(),
	}
	consumer := Consumer{
		Connection:      conn,
		FetchMinBytes:   1,
		FetchMaxWait:    500 * time.Millisecond,
		AutoOffsetReset: Reset{Kind: ResetEarliest},
		Isolation:       ReadUncommitted,
	}
	internal := consumer
	internal.AutoOffsetReset = Reset{Kind: ResetNone}
	internal.Isolation = ReadCommitted
	return Config{
		StateDir:                 filepath.Join(os.TempDir(), "millrace"),
		DefaultStore:             Persistent,
		Guarantee:                AtLeastOnce,
		CommitInterval:           Unset,
		CommitTimeout:            time.Minute,
		MaxPollInterval:          5 * time.Minute,
		TaskTimeout:              5 * time.Minute,
		SessionTimeout:           45 * time.Second,
		HeartbeatInterval:        500 * time.Millisecond,
		RebalanceTimeout:         time.Minute,
		StaticMembership:         true,
		BufferedRecords:          1000,
		CacheBytes:               10 << 20,
		MemoryLimit:              DefaultMemoryLimit,
		MaxWarmups:               2,
		AcceptableLag:            10_000,
		RackTrafficCost:          10,
		RackMoveCost:             1,
		StateCleanupDelay:        10 * time.Minute,
		ReplicationFactor:        -1,
		RepartitionPurgeInterval: 30 * time.Second,
		WindowChangelogRetention: 24 * time.Hour,
		Timestamps:               FailOnInvalidTimestamp,
		OnDeserializationError:   FailOnError,
		OnProcessingError:        FailOnError,
		OnProductionError:        FailOnError,
		Main:                     consumer,
		Restore:                  internal,
		Global:                   internal,
		Producer: Producer{
			Connection:      conn,
			Linger:          100 * time.Millisecond,
			DeliveryTimeout: 2 * time.Minute,
			MaxBlock:        time.Minute,
			MaxRequestBytes: 1 << 20,
			Compression:     Compression{Codec: CompressionNone},

			TransactionTimeout: 10 * time.Second,
		},
		Admin: Admin{Connection: conn, APITimeout: time.Minute},
	}
}

// Unset is a duration that was not set.
const Unset = time.Duration(math.MinInt64)

// CommitEvery is CommitInterval, or where that is unset what Kafka Streams takes: 30 s, and 100 ms under exactly-once.
func (c *Config) CommitEvery() time.Duration {
	switch {
	case c.CommitInterval != Unset:
		return c.CommitInterval
	case c.Guarantee == ExactlyOnceV2:
		return 100 * time.Millisecond
	}
	return 30 * time.Second
}

// Connections calls fn with the connection settings of each client, to set something for all of them.
func (c *Config) Connections(fn func(client string, conn *Connection)) {
	fn("main.consumer", &c.Main.Connection)
	fn("restore.consumer", &c.Restore.Connection)
	fn("global.consumer", &c.Global.Connection)
	fn("producer", &c.Producer.Connection)
	fn("admin", &c.Admin.Connection)
}

// Clone returns a copy that shares nothing that can be changed with c.
func (c *Config) Clone() Config {
	out := *c
	out.BootstrapServers = append([]string(nil), c.BootstrapServers...)
	if c.TopicConfigs != nil {
		out.TopicConfigs = make(map[string]string, len(c.TopicConfigs))
		for k, v := range c.TopicConfigs {
			out.TopicConfigs[k] = v
		}
	}
	out.Connections(func(_ string, conn *Connection) { conn.Security = conn.Security.clone() })
	return out
}
