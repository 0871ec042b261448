package config

import (
	"slices"
	"time"
)

func consumerSettings() []Setting {
	derived := "Unset, it follows from the memory limit."
	auto := "Offsets are committed with the results that they stand for, never by a timer of the client."
	share := "It belongs to share groups, which a stream application does not use."
	return []Setting{
		{Name: "group.id", Scope: ScopeConsumer, Kind: String, Java: "null", Status: Ignored, Doc: "Id of the group.", Note: "application.id is the group id."},
		{Name: "group.instance.id", Scope: ScopeConsumer, Kind: String, Java: "null", MainOnly: true,
			Doc:  "Makes the App the static member of that name.",
			Note: "One member for the App: no number of a thread is added. See millrace.static.membership.",
			bind: app(text(), func(c *Config) *string { return &c.InstanceID })},
		{Name: "group.remote.assignor", Scope: ScopeConsumer, Kind: String, Java: "null", Status: Ignored, Doc: "Assignor of the brokers.",
			Note: "Tasks are assigned by millrace's own assignor."},
		{Name: "partition.assignment.strategy", Scope: ScopeConsumer, Kind: List,
			Java:   "[class org.apache.kafka.clients.consumer.RangeAssignor, class org.apache.kafka.clients.consumer.CooperativeStickyAssignor]",
			Status: Ignored, Doc: "Classes that assign partitions.", Note: "Tasks are assigned by millrace's own assignor, as Kafka Streams has its own."},
		{Name: "session.timeout.ms", Scope: ScopeConsumer, Kind: Millis, Java: "45000", MainOnly: true,
			Doc:  "How long the group waits for a silent member.",
			bind: app(millis(1), func(c *Config) *time.Duration { return &c.SessionTimeout })},
		{Name: "heartbeat.interval.ms", Scope: ScopeConsumer, Kind: Millis, Java: "3000", MainOnly: true,
			Doc:  "Time between two heartbeats.",
			Note: "The default is 500 ms: the end of a rebalance is learnt from a heartbeat.",
			bind: app(millis(1), func(c *Config) *time.Duration { return &c.HeartbeatInterval })},
		{Name: "max.poll.interval.ms", Scope: ScopeConsumer, Kind: Millis, Java: "300000", MainOnly: true,
			Doc:  "How long processing may take.",
			Note: "It is the deadline of one record or timer: its task alone is given up and goes to another instance, the member stays.",
			bind: app(millis(1), func(c *Config) *time.Duration { return &c.MaxPollInterval })},
		{Name: "max.poll.records", Scope: ScopeConsumer, Kind: Int, Java: "500", Status: Ignored, Doc: "Records of one poll.",
			Note: "Input is bounded by bytes and by buffered.records.per.partition."},
		{Name: "auto.offset.reset", Scope: ScopeConsumer, Kind: String, Java: "latest", MainOnly: true,
			Doc:  "Where reading starts without a committed offset: earliest, latest, none or by_duration:<ISO 8601 duration>.",
			Note: "The default is earliest, which Kafka Streams sets too.",
			bind: consumer(reset(), func(c *Consumer) *Reset { return &c.AutoOffsetReset })},
		{Name: "isolation.level", Scope: ScopeConsumer, Kind: String, Java: "read_uncommitted", MainOnly: true,
			Doc:  "Whether input of open and aborted transactions is read.",
			Note: "Internal topics are always read committed.",
			bind: consumer(enum(isolations(), true), func(c *Consumer) *Isolation { return &c.Isolation })},
		{Name: "fetch.max.bytes", Scope: ScopeConsumer, Kind: Bytes, Java: "52428800", Doc: "Size of a fetch.", Note: derived,
			bind: consumer(integer[int64](0, 1<<31-1), func(c *Consumer) *int64 { return &c.FetchMaxBytes })},
		{Name: "max.partition.fetch.bytes", Scope: ScopeConsumer, Kind: Bytes, Java: "1048576", Doc: "Size of one partition in a fetch.", Note: derived,
			bind: consumer(integer[int64](0, 1<<31-1), func(c *Consumer) *int64 { return &c.MaxPartitionFetchBytes })},
		{Name: "fetch.min.bytes", Scope: ScopeConsumer, Kind: Bytes, Java: "1", Doc: "Bytes that a broker waits for before it answers.",
			bind: consumer(integer[int64](0, 1<<31-1), func(c *Consumer) *int64 { return &c.FetchMinBytes })},
		{Name: "fetch.max.wait.ms", Scope: ScopeConsumer, Kind: Millis, Java: "500", Doc: "How long it waits for them.",
			bind: consumer(millis(1), func(c *Consumer) *time.Duration { return &c.FetchMaxWait })},
		{Name: "check.crcs", Scope: ScopeConsumer, Kind: Bool, Java: "true", Status: Fixed, Values: []string{"true"},
			Doc: "Checks batches for damage.", Note: "They are always checked."},
		{Name: "default.api.timeout.ms", Scope: ScopeConsumer | ScopeAdmin, Kind: Millis, Java: "60000", MainOnly: true,
			Doc: "How long a commit, or a call of the admin client, is tried with all retries.",
			bind: bind(millis(1), func(t target) *time.Duration {
				if t.client == adminClient {
					return &t.cfg.Admin.APITimeout
				}
				return &t.cfg.CommitTimeout
			})},
		{Name: "enable.auto.commit", Scope: ScopeConsumer, Kind: Bool, Java: "true", Status: Ignored, Doc: "Commits by a timer.", Note: auto},
		{Name: "auto.commit.interval.ms", Scope: ScopeConsumer, Kind: Millis, Java: "5000", Status: Ignored, Doc: "Time of that timer.", Note: auto},
		{Name: "allow.auto.create.topics", Scope: ScopeConsumer, Kind: Bool, Java: "true", Status: Ignored, Doc: "Lets a read create a topic.",
			Note: "A read never creates a topic: one that is missing is an error that names it. Kafka Streams forces this too."},
		{Name: "exclude.internal.topics", Scope: ScopeConsumer, Kind: Bool, Java: "true", Status: Fixed, Values: []string{"true"},
			Doc: "Keeps a pattern from matching Kafka's own topics.", Note: "Patterns never match them."},
		{Name: "key.deserializer", Scope: ScopeConsumer, Kind: Class, Java: "-", Status: Ignored, Doc: "Class for keys.", Note: "Topics name their serdes in Go."},
		{Name: "value.deserializer", Scope: ScopeConsumer, Kind: Class, Java: "-", Status: Ignored, Doc: "Class for values.", Note: "Topics name their serdes in Go."},
		{Name: "share.acknowledgement.mode", Scope: ScopeConsumer, Kind: String, Java: "implicit", Status: Ignored, Doc: "A setting of share groups.", Note: share},
		{Name: "share.acquire.mode", Scope: ScopeConsumer, Kind: String, Java: "BATCH_OPTIMIZED", Status: Ignored, Doc: "A setting of share groups.", Note: share},
	}
}

func producerSettings() []Setting {
	levels := "Each codec runs at its default level."
	spread := "The partition follows from the key; records without one stick to a partition for a batch."
	return []Setting{
		{Name: "acks", Scope: ScopeProducer, Kind: String, Java: "all", Status: Fixed, Values: []string{"all", "-1"},
			Doc: "Which replicas confirm a record.", Note: "With fewer, a commit could stand for results that a broker then loses."},
		{Name: "enable.idempotence", Scope: ScopeProducer, Kind: Bool, Java: "true", Status: Fixed, Values: []string{"true"},
			Doc: "Keeps order and drops doubles of retries.", Note: "Changelogs depend on the order."},
		{Name: "linger.ms", Scope: ScopeProducer, Kind: Millis, Java: "5",
			Doc: "How long a record waits for others.", Note: "The default is 100 ms, which Kafka Streams sets too.",
			bind: producer(millis(0), func(p *Producer) *time.Duration { return &p.Linger })},
		{Name: "delivery.timeout.ms", Scope: ScopeProducer, Kind: Millis, Java: "120000", Doc: "How long a record is tried to be delivered.",
			bind: producer(millis(1), func(p *Producer) *time.Duration { return &p.DeliveryTimeout })},
		{Name: "max.block.ms", Scope: ScopeProducer, Kind: Millis, Java: "60000", Doc: "How long a record waits for its topic to be found.",
			bind: producer(millis(0), func(p *Producer) *time.Duration { return &p.MaxBlock })},
		{Name: "max.request.size", Scope: ScopeProducer, Kind: Bytes, Java: "1048576",
			Doc: "Largest record that is sent.", Note: "It bounds batches too.",
			bind: producer(integer[int64](1024, 1<<30), func(p *Producer) *int64 { return &p.MaxRequestBytes })},
		{Name: "buffer.memory", Scope: ScopeProducer, Kind: Bytes, Java: "33554432",
			Doc: "Bytes that wait to be sent.", Note: "Unset, it follows from the memory limit.",
			bind: producer(integer[int64](0, 1<<40), func(p *Producer) *int64 { return &p.BufferBytes })},
		{Name: "max.in.flight.requests.per.connection", Scope: ScopeProducer, Kind: Int, Java: "5", Status: Ignored,
			Doc: "Requests that wait for an answer of one broker.", Note: "The client keeps the order at whatever number it finds best."},
		{Name: "compression.type", Scope: ScopeProducer, Kind: String, Java: "none", Doc: "How batches are compressed: none, gzip, snappy, lz4 or zstd.",
			bind: producer(enum(codecs(), false), func(p *Producer) *Codec { return &p.Compression.Codec })},
		{Name: "compression.gzip.level", Scope: ScopeProducer, Kind: Int, Java: "-1", Status: Ignored, Doc: "Level of gzip.", Note: levels},
		{Name: "compression.lz4.level", Scope: ScopeProducer, Kind: Int, Java: "9", Status: Ignored, Doc: "Level of lz4.", Note: levels},
		{Name: "compression.zstd.level", Scope: ScopeProducer, Kind: Int, Java: "3", Status: Ignored, Doc: "Level of zstd.", Note: levels},
		{Name: "batch.size", Scope: ScopeProducer, Kind: Bytes, Java: "16384", Status: Ignored, Doc: "Size at which a batch is sent.",
			Note: "A batch takes all that waits for its partition, up to max.request.size."},
		{Name: "retries", Scope: ScopeProducer | ScopeAdmin, Kind: Int, Java: "2147483647", Status: Ignored, Doc: "Number of retries.",
			Note: "Retries are bounded by time: delivery.timeout.ms, and default.api.timeout.ms of the admin client."},
		{Name: "transactional.id", Scope: ScopeProducer, Kind: String, Java: "null", Status: Ignored, Doc: "Id of the producer's transactions.",
			Note: "It is generated, as Kafka Streams does: from application.id and the id of the state directory. Offsets of a commit without results go under a second one, with -offsets at its end."},
		{Name: "transaction.timeout.ms", Scope: ScopeProducer, Kind: Millis, Java: "60000",
			Doc:  "Longest life of a transaction, under exactly_once_v2. It must be 1000 or more above the commit interval.",
			Note: "The default is 10000, which Kafka Streams sets too.",
			bind: producer(millis(1), func(p *Producer) *time.Duration { return &p.TransactionTimeout })},
		{Name: "transaction.two.phase.commit.enable", Scope: ScopeProducer, Kind: Bool, Java: "false", Status: Fixed, Values: []string{"false"},
			Doc: "Lets transactions outlive any time-out.", Note: "A transaction that nobody ends would hold up every reader."},
		{Name: "partitioner.class", Scope: ScopeProducer, Kind: Class, Java: "null", Status: Refused,
			Doc: "Class that chooses partitions.", Note: "Java classes cannot be loaded: give the steps that write millrace.PartitionBy."},
		{Name: "partitioner.ignore.keys", Scope: ScopeProducer, Kind: Bool, Java: "false", Status: Fixed, Values: []string{"false"},
			Doc: "Spreads records without regard to keys.", Note: "State and joins depend on keys having their partition."},
		{Name: "partitioner.adaptive.partitioning.enable", Scope: ScopeProducer, Kind: Bool, Java: "true", Status: Ignored,
			Doc: "Prefers brokers that answer faster.", Note: spread},
		{Name: "partitioner.availability.timeout.ms", Scope: ScopeProducer, Kind: Millis, Java: "0", Status: Ignored,
			Doc: "Leaves out brokers that do not answer.", Note: spread},
		{Name: "partitioner.rack.aware", Scope: ScopeProducer, Kind: Bool, Java: "false", Status: Ignored, Doc: "Prefers brokers near by.", Note: spread},
		{Name: "key.serializer", Scope: ScopeProducer, Kind: Class, Java: "-", Status: Ignored, Doc: "Class for keys.", Note: "Topics name their serdes in Go."},
		{Name: "value.serializer", Scope: ScopeProducer, Kind: Class, Java: "-", Status: Ignored, Doc: "Class for values.", Note: "Topics name their serdes in Go."},
	}
}

func adminSettings() []Setting {
	return []Setting{
		{Name: "bootstrap.controllers", Scope: ScopeAdmin, Kind: List, Java: "[]", Status: Refused,
			Doc: "Controllers that are asked instead of brokers.", Note: "Use bootstrap.servers."},
	}
}

// topicConfigs are the configs that a topic of Kafka 4.4.0 knows.
func topicConfigs() []string {
	return []string{
		"cleanup.policy",
		"compression.gzip.level",
		"compression.lz4.level",
		"compression.type",
		"compression.zstd.level",
		"delete.retention.ms",
		"errors.deadletterqueue.group.enable",
		"file.delete.delay.ms",
		"flush.messages",
		"flush.ms",
		"follower.replication.throttled.replicas",
		"index.interval.bytes",
		"internal.segment.bytes",
		"leader.replication.throttled.replicas",
		"local.retention.bytes",
		"local.retention.ms",
		"max.compaction.lag.ms",
		"max.decompressed.message.bytes",
		"max.message.bytes",
		"message.timestamp.after.max.ms",
		"message.timestamp.before.max.ms",
		"message.timestamp.type",
		"min.cleanable.dirty.ratio",
		"min.compaction.lag.ms",
		"min.insync.replicas",
		"preallocate",
		"remote.copy.lag.bytes",
		"remote.copy.lag.ms",
		"remote.log.copy.disable",
		"remote.log.delete.on.disable",
		"remote.storage.enable",
		"retention.bytes",
		"retention.ms",
		"segment.bytes",
		"segment.index.bytes",
		"segment.jitter.ms",
		"segment.ms",
		"unclean.leader.election.enable",
	}
}

// TopicConfig tells whether topics have a config of that name, and if not, which known one is nearest.
func TopicConfig(name string) (nearestName string, ok bool) {
	known := topicConfigs()
	if slices.Contains(known, name) {
		return name, true
	}
	return nearest(name, known), false
}

func knownTopicConfig(name string) bool { return slices.Contains(topicConfigs(), name) }
