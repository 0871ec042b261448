package millrace

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/millrace-io/millrace/internal/clock"
	"github.com/millrace-io/millrace/internal/config"
	"github.com/millrace-io/millrace/internal/runtime"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/processor"
)

// AppOption is a setting of an App. Options are applied in order: a later one wins.
type AppOption interface {
	applyApp(*appOptions)
}

type appOption func(*appOptions)

func (f appOption) applyApp(o *appOptions) { f(o) }

// appOptions collects the settings of an App.
type appOptions struct {
	cfg       config.Config
	memorySet bool
	logger    *slog.Logger
	dial      func(ctx context.Context, network, address string) (net.Conn, error)
	clock     clock.Clock
	warnings  []string
	errs      []error

	deserialization, processing, production processor.Handler

	onState   []func(State)
	onRestore []func(RestoreProgress)
	onStandby []func(StandbyUpdate)
	uncaught  func(UncaughtError) UncaughtAction
	stay      bool

	tune func(*runtime.RunnerConfig) // tests
}

// check reports what the settings have against the topology.
func (o *appOptions) check(t *Topology) error {
	if o.cfg.Timestamps != config.FailOnInvalidTimestamp {
		return fmt.Errorf("millrace: setting default.timestamp.extractor = %q: the topology says for each source how it finds event times: give it millrace.Timestamps", o.cfg.Timestamps)
	}
	if len(t.t.Subtopologies()) == 0 && len(t.t.Globals()) == 0 {
		return errors.New("millrace: the topology reads nothing: it needs a source, such as millrace.From")
	}
	if err := t.checkOptimization(o.cfg.Optimization); err != nil {
		return err
	}
	if err := o.checkGroupProtocol(t); err != nil {
		return err
	}
	o.warnNoEffect(t)
	if !o.cfg.ExplicitNames {
		return nil
	}
	var errs []error
	for _, s := range t.t.Stores() {
		if s.Auto && s.Logged {
			errs = append(errs, fmt.Errorf("millrace: %s: store %s has a generated name, which ensure.explicit.internal.resource.naming refuses: name its step with millrace.As", s.Pos, s.Name))
		}
	}
	for _, r := range t.t.InternalTopics() {
		if r.Auto {
			errs = append(errs, fmt.Errorf("millrace: %s: repartition topic %s has a generated name, which ensure.explicit.internal.resource.naming refuses: name its step with millrace.As", r.Pos, r.Name))
		}
	}
	return errors.Join(errs...)
}

// checkGroupProtocol reports what cannot be had where brokers assign the tasks, and warns of settings that count for nothing there.
func (o *appOptions) checkGroupProtocol(t *Topology) error {
	if o.cfg.GroupProtocol != config.Streams {
		return nil
	}
	for _, n := range t.t.Sources() {
		if n.Pattern != "" {
			return fmt.Errorf("millrace: %s: %s reads topics by the pattern %q, which group.protocol=streams does not do: name the topics, or set group.protocol=classic", n.Pos, n.Name, n.Pattern)
		}
	}
	d, c := config.Default(), &o.cfg
	for _, s := range []struct {
		differs      bool
		name, option string
		group        string // the config of the group that takes its place
	}{
		{c.Standbys != d.Standbys, "num.standby.replicas", "Standbys", "streams.num.standby.replicas"},
		{c.MaxWarmups != d.MaxWarmups, "max.warmup.replicas", "MaxWarmups", "streams.num.warmup.replicas"},
		{c.AcceptableLag != d.AcceptableLag, "acceptable.recovery.lag", "AcceptableLag", "streams.acceptable.recovery.lag"},
		{len(c.RackTags) > 0, "rack.aware.assignment.tags", "", "streams.rack.aware.assignment.tags"},
		{c.SessionTimeout != d.SessionTimeout, "session.timeout.ms", "SessionTimeout", "streams.session.timeout.ms"},
		{c.HeartbeatInterval != d.HeartbeatInterval, "heartbeat.interval.ms", "", "streams.heartbeat.interval.ms"},
	} {
		if !s.differs {
			continue
		}
		name := s.name
		if s.option != "" {
			name += " (millrace." + s.option + ")"
		}
		o.warnings = append(o.warnings, "millrace: setting "+name+" has no effect with group.protocol=streams: brokers go by the config "+s.group+" of the group: kafka-configs.sh --alter --entity-type groups --entity-name "+
			c.ApplicationID+" --add-config "+s.group+"=...")
	}
	if c.RackStrategy != config.RackNone {
		o.warnings = append(o.warnings, "millrace: setting rack.aware.assignment.strategy has no effect with group.protocol=streams: brokers assign tasks without regard to the racks of replicas; set group.protocol=classic if it should count")
	}
	return nil
}

// warnNoEffect warns of settings that count for nothing beside others.
func (o *appOptions) warnNoEffect(t *Topology) {
	c := &o.cfg
	if o.stay && c.InstanceID == "" && (!c.StaticMembership || !o.usesDir(t)) {
		why := "millrace.static.membership=false"
		if c.StaticMembership {
			why = "no store is kept in a state directory"
		}
		o.warnings = append(o.warnings, "millrace: millrace.StayInGroup has no effect: only a static member keeps its place, and this instance is none ("+why+"): set group.instance.id to an id of its own")
	}
	if c.GroupProtocol == config.Streams {
		return // there tags for the copies are configs of the group
	}
	for _, tag := range c.RackTags {
		if _, ok := c.ClientTags[tag]; !ok {
			o.warnings = append(o.warnings, "millrace: setting rack.aware.assignment.tags names the tag "+tag+", which this instance does not have: its copies of tasks are not spread by it; set client.tag."+tag)
		}
	}
}

// usesDir tells whether any store is kept in the state directory.
func (o *appOptions) usesDir(t *Topology) bool {
	return o.cfg.DefaultStore == config.Persistent &&
		slices.ContainsFunc(t.t.Stores(), func(s *topology.StateStore) bool { return s.Persistent && !s.Global })
}

// ApplicationID names the application: its group, the prefix of its internal topics, and its directory under StateDir.
//
// In Kafka Streams: application.id.
func ApplicationID(id string) AppOption {
	return appOption(func(o *appOptions) { o.cfg.ApplicationID = id })
}

// Brokers are the addresses, host:port, by which the cluster is found.
//
// In Kafka Streams: bootstrap.servers.
func Brokers(addresses ...string) AppOption {
	return appOption(func(o *appOptions) { o.cfg.BootstrapServers = addresses })
}

// ClientID is the prefix of the names under which the App's clients appear in logs and quotas of the brokers.
//
// In Kafka Streams: client.id.
func ClientID(id string) AppOption {
	return appOption(func(o *appOptions) { o.cfg.ClientID = id })
}

// StateDir is the directory under which persistent stores are kept, in a directory for each application. One process uses
// it at a time. Without it they are kept among the temporary files, which a restart of the machine may empty: that costs
// a restore.
//
// A copy of it must never run beside the original: it holds the identity of the instance (identity.json), by which the group and the
// transaction coordinator know it, and two that claim to be one put each other out until both stop with an error. A second
// instance starts with a directory of its own, empty: its stores are restored from the changelogs. If a copy is to save it that, remove
// identity.json from the copy before it starts. Moving a directory to another machine is fine, as is a backup that takes its place.
//
// In Kafka Streams: state.dir.
func StateDir(dir string) AppOption {
	return appOption(func(o *appOptions) { o.cfg.StateDir = dir })
}

// InMemoryState keeps all stores in memory: no directory is used, and each start restores them from their changelogs.
//
// In Kafka Streams: dsl.store.suppliers.class with the in-memory suppliers.
func InMemoryState() AppOption {
	return appOption(func(o *appOptions) { o.cfg.DefaultStore = config.InMemory })
}

// CommitInterval is the longest time between two commits of a task that has something to commit, and with a record cache
// also how often results are sent on. 0 commits after each turn of a task. Default 30 s, under ExactlyOnceV2 100 ms.
//
// In Kafka Streams: commit.interval.ms.
func CommitInterval(d time.Duration) AppOption {
	return appOption(func(o *appOptions) { o.cfg.CommitInterval = d })
}

// ProcessingGuarantee is what a failure may do to results.
type ProcessingGuarantee = config.Guarantee

// The guarantees.
const (
	// AtLeastOnce processes every record; after a failure some are processed again. A crash between the changelog record of a
	// table's row and the record that the row sends on can lose the latter, as in Kafka Streams: the row is no update any more
	// when it comes again, and a group of the table, or a join with it, misses it. ExactlyOnceV2 has no such moment.
	AtLeastOnce = config.AtLeastOnce
	// ExactlyOnceV2 makes results, offsets and state of a commit atomic: they are written in one Kafka transaction. Whoever
	// reads the results must read committed to see each one once; they are there when the transaction has ended, so within a
	// commit interval. The user's topics are read committed too.
	ExactlyOnceV2 = config.ExactlyOnceV2
)

// Guarantee chooses the processing guarantee. Default AtLeastOnce.
//
// In Kafka Streams: processing.guarantee.
func Guarantee(g ProcessingGuarantee) AppOption {
	return appOption(func(o *appOptions) { o.cfg.Guarantee = g })
}

// GroupProtocolKind says who assigns the tasks of a group to its instances.
type GroupProtocolKind = config.GroupProtocol

// The group protocols.
const (
	// Classic lets one of the instances assign them, by this library's own rules: sticky and lag-aware, with standbys and
	// warm-ups. It works with every broker.
	Classic = config.Classic
	// Streams lets the brokers assign them: the streams group protocol (KIP-1071), of Kafka 4.2 and later with the feature
	// streams.version. The settings of the group are on the brokers' side then, in configs of the group (kafka-configs.sh
	// --entity-type groups): session timeout, heartbeats, standbys, warm-ups and tags. Topics by pattern are refused, and a group
	// keeps the topology of its first member for good. What else it does not do is listed in docs/kafka-streams.md.
	Streams = config.Streams
)

// GroupProtocol chooses who assigns the tasks. Default Classic. All instances must have the same; to change it, stop them all
// first: what is committed stays.
//
// In Kafka Streams: group.protocol.
func GroupProtocol(p GroupProtocolKind) AppOption {
	return appOption(func(o *appOptions) { o.cfg.GroupProtocol = p })
}

// Workers limits how many tasks run at once, hard. Without it as many run as there are processors, and a worker that is
// held up in user code is replaced. Workers(1) never calls two of an App's functions at the same time.
//
// In Kafka Streams: num.stream.threads.
func Workers(n int) AppOption {
	return appOption(func(o *appOptions) { o.cfg.Workers = n })
}

// MemoryLimit bounds the memory of the App, in bytes: the sizes of fetches, queues, caches, buffers of the stores and of
// the producer follow from it, and Go's own memory limit is lowered to it while the App runs. Default 512 MB, without
// touching Go's.
func MemoryLimit(bytes int64) AppOption {
	return appOption(func(o *appOptions) { o.cfg.MemoryLimit, o.memorySet = bytes, true })
}

// CacheBytes is the size of the App's record cache: updates of one key within a commit interval collapse in it. It is
// shared out evenly to the stores of all tasks of the topology. 0 forwards and logs each update. Default 10 MB.
//
// In Kafka Streams: statestore.cache.max.bytes.
func CacheBytes(n int64) AppOption {
	return appOption(func(o *appOptions) { o.cfg.CacheBytes = n })
}

// MaxTaskIdle is how long a task that joins several topics waits for one that is read to its end, before it goes on with
// the records of the others. Below zero it never waits, not even for records that are there to be fetched. Default 0.
//
// In Kafka Streams: max.task.idle.ms.
func MaxTaskIdle(d time.Duration) AppOption {
	return appOption(func(o *appOptions) {
		if d < 0 {
			d = config.NeverIdle
		}
		o.cfg.MaxTaskIdle = d
	})
}

// SessionTimeout is after how long without a sign of life the group gives an instance's tasks to others. Default 45 s.
//
// In Kafka Streams: session.timeout.ms.
func SessionTimeout(d time.Duration) AppOption {
	return appOption(func(o *appOptions) { o.cfg.SessionTimeout = d })
}

// StayInGroup keeps the instance's place in the group when it is stopped, if it is a static member (it is with a state
// directory): started again within the session timeout it goes on with the same tasks, and nobody else takes them
// meanwhile. Without it a stopped instance leaves, and others take its tasks at once.
//
// In Kafka Streams: CloseOptions.GroupMembershipOperation.REMAIN_IN_GROUP.
func StayInGroup() AppOption {
	return appOption(func(o *appOptions) { o.stay = true })
}

// Standbys is how many other instances keep a copy of each task's state, level with what is committed: when the instance
// that runs a task is gone, or gives it up, one of them goes on with it at once. Each copy takes as much disk as the state
// itself, and reads the changelogs once more. Default 0.
//
// In Kafka Streams: num.standby.replicas.
func Standbys(n int) AppOption {
	return appOption(func(o *appOptions) { o.cfg.Standbys = n })
}

// Rack is the rack in which this instance runs, by the names that brokers have for theirs (broker.rack). Where brokers have a
// replica.selector.class, inputs and changelogs are then read from a replica in the same rack if there is one, and from the leader
// while that replica is away. It is also what rack.aware.assignment.strategy (FromProperties) goes by, which assigns tasks to instances
// in the rack of what they read, if each instance has a Rack.
//
// A replica is behind its leader: records come some milliseconds later. Default: none, everything is read from leaders.
//
// In Kafka Streams: client.rack of the consumers.
func Rack(name string) AppOption {
	return appOption(func(o *appOptions) {
		for _, c := range []*config.Consumer{&o.cfg.Main, &o.cfg.Restore, &o.cfg.Global} {
			c.Rack = name
		}
	})
}

// MaxWarmups is how many tasks may at once be made ready on the instances to which they are to move, in the whole group: each
// task goes on where it is until its state is there. 0 moves tasks at once, and restores them where they come. Default 2.
//
// In Kafka Streams: max.warmup.replicas.
func MaxWarmups(n int) AppOption {
	return appOption(func(o *appOptions) { o.cfg.MaxWarmups = n })
}

// AcceptableLag is by how many records of its changelogs a copy of a task's state may be behind, and be given the task all the
// same. Default 10,000.
//
// In Kafka Streams: acceptable.recovery.lag.
func AcceptableLag(records int64) AppOption {
	return appOption(func(o *appOptions) { o.cfg.AcceptableLag = records })
}

// ReplicationFactor is that of internal topics. Without it the brokers' default holds.
//
// In Kafka Streams: replication.factor.
func ReplicationFactor(n int) AppOption {
	return appOption(func(o *appOptions) {
		if n < -1 || n > 1<<15-1 {
			o.errs = append(o.errs, fmt.Errorf("millrace: ReplicationFactor(%d): must be -1 (the brokers' default) or 1 to %d", n, 1<<15-1))
			return
		}
		o.cfg.ReplicationFactor = int16(n)
	})
}

// AdditionalRetention is added to the retention of a store of windows or sessions to give that of its changelog topic. It has
// to cover how far event times lie behind the clocks of the brokers, which delete what is older: an App that is to process
// history needs more, or a restore misses the windows of that time. Give it before the first start; a topic that exists keeps
// its setting. Default 24 h.
//
// In Kafka Streams: windowstore.changelog.additional.retention.ms.
func AdditionalRetention(d time.Duration) AppOption {
	return appOption(func(o *appOptions) { o.cfg.WindowChangelogRetention = d })
}

// TLS encrypts all connections. The configuration is copied; nil uses the operating system's certificates.
//
// In Kafka Streams: security.protocol=SSL and the ssl.* settings.
func TLS(c *tls.Config) AppOption {
	return appOption(func(o *appOptions) {
		if c != nil {
			c = c.Clone()
		}
		o.cfg.Connections(func(_ string, conn *config.Connection) {
			conn.Security.TLS.Base = c
			conn.Security.Protocol = protocol(true, conn.Security.Protocol.SASL())
		})
	})
}

func protocol(tls, sasl bool) config.Protocol {
	switch {
	case tls && sasl:
		return config.SASLSSL
	case tls:
		return config.SSL
	case sasl:
		return config.SASLPlaintext
	}
	return config.Plaintext
}

func sasl(mechanism string, set func(*config.SASL)) AppOption {
	return appOption(func(o *appOptions) {
		o.cfg.Connections(func(_ string, conn *config.Connection) {
			conn.Security.SASL.Mechanism = mechanism
			set(&conn.Security.SASL)
			conn.Security.Protocol = protocol(conn.Security.Protocol.TLS(), true)
		})
	})
}

func password(user, password string) func(*config.SASL) {
	return func(s *config.SASL) { s.Login.Username, s.Login.Password = user, config.Secret(password) }
}

// SASLPlain logs in with a user name and a password that the broker sees: use it with TLS only.
//
// In Kafka Streams: sasl.mechanism=PLAIN.
func SASLPlain(user, pass string) AppOption {
	return sasl(config.MechanismPlain, password(user, pass))
}

// SASLScram256 logs in with SCRAM-SHA-256.
//
// In Kafka Streams: sasl.mechanism=SCRAM-SHA-256.
func SASLScram256(user, pass string) AppOption {
	return sasl(config.MechanismScram256, password(user, pass))
}

// SASLScram512 logs in with SCRAM-SHA-512.
//
// In Kafka Streams: sasl.mechanism=SCRAM-SHA-512.
func SASLScram512(user, pass string) AppOption {
	return sasl(config.MechanismScram512, password(user, pass))
}

// OAuthToken is a token for SASLOAuthBearer.
type OAuthToken struct {
	Value      string
	Expires    time.Time // when a new one is needed; zero asks for one at each connection
	Extensions map[string]string
}

// SASLOAuthBearer logs in with a token. source is called for a token before a connection is made, and again some time
// before the token expires; one call at a time for each client.
//
// In Kafka Streams: sasl.mechanism=OAUTHBEARER with a login callback handler. A token endpoint is set through
// FromProperties.
func SASLOAuthBearer(source func(context.Context) (OAuthToken, error)) AppOption {
	return sasl(config.MechanismOAuthBearer, func(s *config.SASL) {
		s.OAuth.Source = func(ctx context.Context) (config.Token, error) {
			t, err := source(ctx)
			return config.Token{Value: config.Secret(t.Value), Expires: t.Expires, Extensions: t.Extensions}, err
		}
	})
}

// DialContext opens connections instead of the net package: through a proxy, or inside a test. TLS is laid over it.
func DialContext(dial func(ctx context.Context, network, address string) (net.Conn, error)) AppOption {
	return appOption(func(o *appOptions) { o.dial = dial })
}

// Logger takes the App's messages. Without it there are none: what is tried again, such as a topic to be written that does
// not exist, then shows only when it is given up.
func Logger(l *slog.Logger) AppOption {
	return appOption(func(o *appOptions) { o.logger = l })
}

// OnDeserializationError decides what becomes of a source record that does not decode or has no event time. Without it
// the App fails.
//
// In Kafka Streams: deserialization.exception.handler.
func OnDeserializationError(h processor.Handler) AppOption {
	return appOption(func(o *appOptions) { o.deserialization = h })
}

// OnProcessingError decides what becomes of a record on which the function of a step fails or panics. Without it the App
// fails.
//
// In Kafka Streams: processing.exception.handler.
func OnProcessingError(h processor.Handler) AppOption {
	return appOption(func(o *appOptions) { o.processing = h })
}

// OnProductionError decides what becomes of a result that cannot be encoded or that the brokers refuse. Without it the App
// fails. It is not asked where brokers are away or a topic is missing: that is tried again.
//
// In Kafka Streams: production.exception.handler.
func OnProductionError(h processor.Handler) AppOption {
	return appOption(func(o *appOptions) { o.production = h })
}

// OnState is told of each change of the App's state, in order, by a goroutine that does nothing else. It may be given
// several times.
//
// In Kafka Streams: KafkaStreams#setStateListener.
func OnState(f func(State)) AppOption {
	return appOption(func(o *appOptions) { o.onState = append(o.onState, f) })
}

// OnRestore is told of the progress of restores, chunk by chunk, by the goroutine of OnState. It may be given several times.
//
// In Kafka Streams: KafkaStreams#setGlobalStateRestoreListener.
func OnRestore(f func(RestoreProgress)) AppOption {
	return appOption(func(o *appOptions) { o.onRestore = append(o.onRestore, f) })
}

// OnStandby is told what becomes of the copies that this instance keeps of other instances' tasks, standbys and warm-ups alike, store
// by store, by the goroutine of OnState: a copy begins, reads chunk after chunk of its changelog, and ends when the instance gets the
// task or does not keep the copy any more. It may be given several times. A copy that is level and to which nothing comes is
// silent; MetricsSnapshot.Standbys shows it.
//
// In Kafka Streams: KafkaStreams#setStandbyUpdateListener.
func OnStandby(f func(StandbyUpdate)) AppOption {
	return appOption(func(o *appOptions) { o.onStandby = append(o.onStandby, f) })
}

// FromProperties sets what properties say, by the names that Kafka Streams and Kafka's clients have for them
// (docs/kafka-streams.md lists them). An unknown or unsupported one is an error of NewApp that names the nearest known one
// or the way out. Options that follow win over it.
//
// In Kafka Streams: StreamsConfig.
func FromProperties(props map[string]string) AppOption {
	return appOption(func(o *appOptions) {
		changes, err := config.FromProperties(props)
		if err != nil {
			o.errs = append(o.errs, err)
		}
		changes.Apply(&o.cfg) // those that are right: they must not be reported as missing
		o.warnings = append(o.warnings, changes.Warnings...)
	})
}

// SettingError is one setting that is wrong. The error of NewApp joins all; errors.As finds the first.
type SettingError = config.SettingError
