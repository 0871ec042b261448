package millrace

import (
	"context"
	"fmt"
	"path/filepath"
	goruntime "runtime"
	"time"

	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/assign"
	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/broker/kgoclient"
	"github.com/millrace-io/millrace/internal/config"
	"github.com/millrace-io/millrace/internal/connect"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/restore"
	"github.com/millrace-io/millrace/internal/runtime"
	"github.com/millrace-io/millrace/internal/state"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/processor"
)

// runnerConfig turns the settings into what the runtime takes, and opens the clients. They connect when they are used.
func (a *App) runnerConfig() (runtime.RunnerConfig, error) {
	c := &a.opts.cfg
	budgets, err := c.Budgets(1)
	if err != nil {
		return runtime.RunnerConfig{}, err
	}
	workers, hard := c.Workers, true
	if workers == 0 {
		workers, hard = goruntime.GOMAXPROCS(0), false
	}
	exactlyOnce := c.Guarantee == config.ExactlyOnceV2
	cfg := runtime.RunnerConfig{
		AppID:    c.ApplicationID,
		Topology: a.topology.t,
		Resolve: topology.ResolveConfig{
			TopicConfigs: c.TopicConfigs, ReplicationFactor: c.ReplicationFactor,
			WindowAdditionalRetentionMs: c.WindowChangelogRetention.Milliseconds(),
		},
		Settings: runtime.Settings{
			CommitIntervalMs: c.CommitEvery().Milliseconds(), CommitTimeoutMs: c.CommitTimeout.Milliseconds(),
			RebalanceTimeoutMs: c.RebalanceTimeout.Milliseconds(), AcceptableLag: c.AcceptableLag, TaskTimeoutMs: c.TaskTimeout.Milliseconds(),
			MaxPollIntervalMs: c.MaxPollInterval.Milliseconds(), DrainTimeoutMs: c.CommitTimeout.Milliseconds(),
			PurgeIntervalMs: c.RepartitionPurgeInterval.Milliseconds(), BackoffMs: 500, BackoffMaxMs: 5000,
			Workers: workers, HardWorkers: hard, Restores: max(2, workers),
			HighRecords: c.BufferedRecords, HighBytes: budgets.PartitionQueue, ProducerBytes: budgets.Producer / 2,
			ExactlyOnce: exactlyOnce, TransactionTimeoutMs: c.Producer.TransactionTimeout.Milliseconds(),
			ReadCommitted: exactlyOnce || c.Main.Isolation == config.ReadCommitted, Reset: resetPolicy(c.Main.AutoOffsetReset),
			StayInGroup: a.opts.stay, CleanupDelayMs: c.StateCleanupDelay.Milliseconds(),
		},
		Queues: func(partitions int) (int64, error) {
			b, err := c.Budgets(partitions)
			return b.PartitionQueue, err
		},
		InstanceID: c.InstanceID, StaticByDir: c.StaticMembership,
		Handlers: a.handlers(), Uncaught: a.uncaughtPolicy(), Metrics: a.metrics, Stats: a.stats, Clock: a.opts.clock, Logger: a.log,
		OnState: a.onState, SetState: a.setState, OnRestore: a.onRestore, OnStandby: a.onStandby,
		StartTimeout: c.Admin.APITimeout, RequestTimeout: c.Admin.RequestTimeout, ForeignWait: c.SessionTimeout + 15*time.Second,
		RefreshInterval: c.Main.MetadataMaxAge, MaxBlock: c.Producer.MaxBlock, ClientMaxBytes: int(c.Producer.MaxRequestBytes),
		TopicMaxBytes: c.Producer.Compression.Codec == config.CompressionNone,
		MaxIdleMs:     c.MaxTaskIdle.Milliseconds(), CacheBytes: budgets.RecordCache, ReadCacheBytes: budgets.ReadCache,
		PrivateBytes: privateBytes(budgets, workers), EmitLimit: c.MemoryLimit, RestoreBytes: int32(min(budgets.Fetch/4, 16<<20)),
	}
	if len(a.opts.onRestore) == 0 {
		cfg.OnRestore = nil
	}
	if len(a.opts.onStandby) == 0 {
		cfg.OnStandby = nil
	}
	if c.DefaultStore == config.Persistent {
		cfg.OpenState = func(clusterID string, tasks int) (*state.DB, error) {
			n := int64(max(tasks, 1))
			return state.OpenDB(state.Options{
				Dir: filepath.Join(c.StateDir, c.ApplicationID), ClusterID: clusterID, ApplicationID: c.ApplicationID,
				CacheBytes: budgets.BlockCache, MemTableBytes: budgets.Memtables / 3, Logger: a.log, Now: a.opts.clock.NowMs,
				SealedBytes: min(16<<20, max(256<<10, budgets.Sealed/n)), RestoreChunkBytes: min(16<<20, budgets.Sealed/int64(max(2, workers))),
			})
		}
	}
	if c.RackStrategy != config.RackNone && c.Main.Rack == "" && c.GroupProtocol != config.Streams {
		a.log.Warn("this instance does not know its rack, so that the whole group assigns tasks without regard to racks: set Rack (client.rack)",
			"rack.aware.assignment.strategy", c.RackStrategy.String())
	}
	if err := a.clients(&cfg, budgets); err != nil {
		return cfg, err
	}
	if a.opts.tune != nil {
		a.opts.tune(&cfg)
	}
	return cfg, nil
}

func resetPolicy(r config.Reset) restore.Reset {
	switch r.Kind {
	case config.ResetLatest:
		return restore.Reset{Kind: restore.ResetLatest}
	case config.ResetNone:
		return restore.Reset{Kind: restore.ResetNone}
	case config.ResetDuration:
		return restore.Reset{Kind: restore.ResetBack, BackMs: r.Back.Milliseconds()}
	}
	return restore.Reset{Kind: restore.ResetEarliest}
}

// clients opens the clients.
func (a *App) clients(cfg *runtime.RunnerConfig, budgets config.Budgets) error {
	c := &a.opts.cfg
	id := c.ClientID
	if id == "" {
		id = c.ApplicationID + "-" + uuid.NewString()
	}
	seeds, outages := new(kgoclient.Seeds), kgoclient.NewOutages()
	base := func(name string, conn *config.Connection) (kgoclient.Config, error) {
		cfg, err := a.connection(id+"-"+name, conn)
		cfg.Seeds, cfg.Outages = seeds, outages
		return cfg, err
	}
	admin, err := base("admin", &c.Admin.Connection)
	if err != nil {
		return err
	}
	consumer, err := base("consumer", &c.Main.Connection)
	if err != nil {
		return err
	}
	restores, err := base("restore-consumer", &c.Restore.Connection)
	if err != nil {
		return err
	}
	global, err := base("global-consumer", &c.Global.Connection)
	if err != nil {
		return err
	}
	producer, err := base("producer", &c.Producer.Connection)
	if err != nil {
		return err
	}
	consumer.Fetch = fetchConfig(&c.Main, budgets.FetchRequest, budgets.FetchPartition)
	restores.Fetch = fetchConfig(&c.Restore, budgets.FetchRequest, budgets.FetchRequest)
	global.Fetch = fetchConfig(&c.Global, budgets.FetchRequest/4, budgets.FetchPartition)
	producer.Produce = kgoclient.ProduceConfig{
		Linger: c.Producer.Linger, BatchMaxBytes: int32(min(c.Producer.MaxRequestBytes, 1<<30)), Compression: c.Producer.Compression.Codec.String(),
		MaxBufferedBytes: int(2 * budgets.Producer), RequestTimeout: c.Producer.RequestTimeout, DeliveryTimeout: c.Producer.DeliveryTimeout,
	}
	if c.Producer.Linger == 0 {
		producer.Produce.Linger = -1
	}
	cl := &cfg.Clients
	cl.Ping = func(ctx context.Context) error { return kgoclient.Ping(ctx, admin) }
	cl.Protocol = groupProtocol
	if c.GroupProtocol == config.Streams {
		cl.BrokersAssign = true
		cl.Ping = func(ctx context.Context) error {
			if err := kgoclient.Ping(ctx, admin); err != nil {
				return err
			}
			return kgoclient.CheckStreams(ctx, admin)
		}
	}
	open := func(what string, f func() error) {
		if err == nil {
			if err = f(); err != nil {
				err = fmt.Errorf("millrace: open the %s client: %w", what, err)
			}
		}
	}
	open("admin", func() (err error) { cl.Admin, err = opened(kgoclient.NewAdmin(admin)); return err })
	if cfg.Settings.ExactlyOnce {
		cl.Transactions = func(id string) (broker.Transactions, error) {
			return openedTransactions(kgoclient.NewTransactions(producer, id, c.Producer.TransactionTimeout))
		}
	} else {
		open("producer", func() (err error) { cl.Producer, err = openedProducer(kgoclient.NewProducer(producer)); return err })
	}
	open("restore", func() (err error) { cl.Reader, err = openedReader(kgoclient.NewReader(restores)); return err })
	open("consumer", func() (err error) {
		cl.Committed, err = openedFetcher(kgoclient.NewFetcher(consumer, true))
		return err
	})
	if !cfg.Settings.ReadCommitted {
		open("consumer", func() (err error) { cl.User, err = openedFetcher(kgoclient.NewFetcher(consumer, false)); return err })
	}
	if len(a.topology.t.Globals()) > 0 {
		open("global consumer", func() (err error) { cl.Global, err = openedFetcher(kgoclient.NewFetcher(global, true)); return err })
	}
	if err != nil {
		cl.Close()
		return err
	}
	cl.Membership = func(m runtime.Member) (broker.Membership, error) {
		process, err := uuid.Parse(m.ProcessID)
		if err != nil {
			process = uuid.New()
		}
		cfg := kgoclient.MembershipConfig{
			Assign: assign.Policy{
				AcceptableLag: c.AcceptableLag, MaxWarmups: c.MaxWarmups, Standbys: c.Standbys, RackTags: c.RackTags, Traffic: traffic(c),
			}.Round,
			Lags: c.MaxWarmups > 0 || c.Standbys > 0, Copies: m.Copies, Racks: c.RackStrategy != config.RackNone, Rack: c.Main.Rack, Tags: c.ClientTags,
			Group: c.ApplicationID, ProcessID: process, InstanceID: m.InstanceID, HeartbeatInterval: c.HeartbeatInterval,
			SessionTimeout: c.SessionTimeout, RebalanceTimeout: c.RebalanceTimeout,
			Transactional: m.Transactional, Logger: a.log,
		}
		if c.GroupProtocol == config.Streams {
			return openedMember(kgoclient.NewStreamsMembership(consumer, cfg))
		}
		return openedMember(kgoclient.NewMembership(consumer, cfg))
	}
	return nil
}

// traffic is how much racks count in the assignment.
func traffic(c *config.Config) assign.Traffic {
	t := assign.Traffic{PerPartition: c.RackTrafficCost, PerMove: c.RackMoveCost}
	switch c.RackStrategy {
	case config.RackMinTraffic:
		t.Strategy = assign.MinTraffic
	case config.RackBalanceSubtopology:
		t.Strategy = assign.BalanceSubtopology
	}
	return t
}

// groupProtocol is what the group calls the assignor.
const groupProtocol = "millrace"

// The constructors return pointers, which must not become interfaces that are not nil when they are nil.

func opened(a *kgoclient.Admin, err error) (broker.Admin, error) {
	if err != nil {
		return nil, err
	}
	return a, nil
}

func openedMember[M broker.Membership](m M, err error) (broker.Membership, error) {
	if err != nil {
		return nil, err
	}
	return m, nil
}

func openedProducer(p *kgoclient.Producer, err error) (broker.Producer, error) {
	if err != nil {
		return nil, err
	}
	return p, nil
}

func openedTransactions(t *kgoclient.Transactions, err error) (broker.Transactions, error) {
	if err != nil {
		return nil, fmt.Errorf("millrace: open the transactional producer: %w", err)
	}
	return t, nil
}

func openedReader(r *kgoclient.Reader, err error) (broker.Reader, error) {
	if err != nil {
		return nil, err
	}
	return r, nil
}

func openedFetcher(f *kgoclient.Fetcher, err error) (broker.Fetcher, error) {
	if err != nil {
		return nil, err
	}
	return f, nil
}

func fetchConfig(c *config.Consumer, request, partition int64) kgoclient.FetchConfig {
	if c.FetchMaxBytes > 0 {
		request = c.FetchMaxBytes
	}
	if c.MaxPartitionFetchBytes > 0 {
		partition = c.MaxPartitionFetchBytes
	}
	return kgoclient.FetchConfig{
		MaxWait: c.FetchMaxWait, MinBytes: int32(min(c.FetchMinBytes, 1<<30)), MaxBytes: int32(min(request, 1<<30)),
		MaxPartitionBytes: int32(min(partition, 1<<30)), Rack: c.Rack,
	}
}

// connection is what a client needs to reach the brokers.
func (a *App) connection(clientID string, conn *config.Connection) (kgoclient.Config, error) {
	cfg, err := connect.Client(a.opts.cfg.BootstrapServers, clientID, conn, a.opts.clock.Now)
	cfg.Logger, cfg.Dialer = a.opts.logger, a.opts.dial
	return cfg, err
}

// handlers are the error policies: what options say, else what properties say.
func (a *App) handlers() op.Handlers {
	o := &a.opts
	pick := func(h processor.Handler, p config.ErrorPolicy) processor.Handler {
		if h != nil {
			return h
		}
		return defaultPolicy(p, o.cfg.DeadLetterTopic)
	}
	return op.Handlers{
		Deserialization: a.logged(pick(o.deserialization, o.cfg.OnDeserializationError)),
		Processing:      a.logged(pick(o.processing, o.cfg.OnProcessingError)),
		Production:      a.logged(pick(o.production, o.cfg.OnProductionError)),
		FailProcessing:  o.processing == nil && o.cfg.OnProcessingError == config.FailOnError,
	}
}
