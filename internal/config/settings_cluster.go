package config

import "time"

// Groups of instances and their internal topics.
func clusterSettings() []Setting {
	standby := "This release has no standbys and no warm-ups."
	return []Setting{
		{Name: "replication.factor", Scope: ScopeApp, Kind: Int, Java: "-1",
			Doc: "Replicas of internal topics; -1 is the brokers' default.",
			bind: app(integer[int16](-1, 1<<15-1).where("must be -1 or a whole number above 0", func(n int16) bool { return n != 0 }),
				func(c *Config) *int16 { return &c.ReplicationFactor })},
		{Name: "repartition.purge.interval.ms", Scope: ScopeApp, Kind: Millis, Java: "30000",
			Doc:  "Time between two deletions of consumed records in repartition topics.",
			bind: app(millis(0), func(c *Config) *time.Duration { return &c.RepartitionPurgeInterval })},
		{Name: "windowstore.changelog.additional.retention.ms", Scope: ScopeApp, Kind: Millis, Java: "86400000",
			Doc:  "Added to a window store's retention to give that of its changelog topic.",
			bind: app(millis(0), func(c *Config) *time.Duration { return &c.WindowChangelogRetention })},
		{Name: "num.standby.replicas", Scope: ScopeApp, Kind: Int, Java: "0", Status: Fixed, Values: []string{"0"},
			Doc: "Warm copies of each task's state on other instances.", Note: standby + " They are planned."},
		{Name: "max.warmup.replicas", Scope: ScopeApp, Kind: Int, Java: "2", Status: Ignored,
			Doc: "Copies that may warm up at once before a task moves.", Note: standby},
		{Name: "acceptable.recovery.lag", Scope: ScopeApp, Kind: Long, Java: "10000", Status: Ignored,
			Doc: "Records that a copy may lag behind and count as warm.", Note: standby},
		{Name: "probing.rebalance.interval.ms", Scope: ScopeApp, Kind: Millis, Java: "600000", Status: Ignored,
			Doc: "Time between two looks at whether warm-ups are done.", Note: standby},
		{Name: "rack.aware.assignment.tags", Scope: ScopeApp, Kind: List, Java: "[]", Status: Fixed, Values: []string{""},
			Doc: "Client tags that standbys are spread over.", Note: standby + " Tags are planned with them."},
		{Name: "rack.aware.assignment.strategy", Scope: ScopeApp, Kind: String, Java: "none", Status: Fixed, Values: []string{"none"},
			Doc: "Assigns tasks to instances near their partitions.", Note: "Rack-aware assignment is planned."},
		{Name: "rack.aware.assignment.traffic_cost", Scope: ScopeApp, Kind: Int, Java: "null", Status: Ignored,
			Doc: "Weight of traffic between racks.", Note: "Rack-aware assignment is planned."},
		{Name: "rack.aware.assignment.non_overlap_cost", Scope: ScopeApp, Kind: Int, Java: "null", Status: Ignored,
			Doc: "Weight of moving a task.", Note: "Rack-aware assignment is planned."},
		{Name: "task.assignor.class", Scope: ScopeApp, Kind: Class, Java: "null", Status: Fixed,
			Values: []string{"org.apache.kafka.streams.processor.assignment.assignors.StickyTaskAssignor"},
			Doc:    "Class that assigns tasks to instances.",
			Note:   "The assignor is sticky. The lag-aware one is planned; Java classes cannot be loaded."},
		{Name: "internal.task.assignor.class", Scope: ScopeApp, Kind: Class, Status: Refused,
			Doc: "A private flag of Kafka Streams.", Note: "Remove it: private flags of Kafka Streams have no twin."},
	}
}

func observabilitySettings() []Setting {
	reporters := "Java classes cannot be loaded. Counters are read with App.Metrics."
	samples := "Counters are totals, which a monitoring system turns into rates."
	throttle := "Results are never held back by the wall clock."
	return []Setting{
		{Name: "log.summary.interval.ms", Scope: ScopeApp, Kind: Millis, Java: "120000", Status: Ignored,
			Doc: "Time between two lines in the log that sum up the progress.", Note: "Progress is read with App.Metrics; the log tells of changes."},
		{Name: "enable.metrics.push", Scope: ScopeApp | ScopeClients, Kind: Bool, Java: "true", Status: Ignored,
			Doc: "Lets brokers that ask for them have the clients' metrics (KIP-714).", Note: "Nothing is pushed in this release."},
		{Name: "metric.reporters", Scope: ScopeApp | ScopeClients, Kind: List, Java: "[org.apache.kafka.common.metrics.JmxReporter]", Status: Ignored,
			Doc: "Classes that report metrics.", Note: reporters},
		{Name: "metrics.num.samples", Scope: ScopeApp | ScopeClients, Kind: Int, Java: "2", Status: Ignored, Doc: "Samples of a metric.", Note: samples},
		{Name: "metrics.sample.window.ms", Scope: ScopeApp | ScopeClients, Kind: Millis, Java: "30000", Status: Ignored, Doc: "Length of a sample.", Note: samples},
		{Name: "metrics.recording.level", Scope: ScopeApp | ScopeClients, Kind: String, Java: "INFO", Status: Ignored, Doc: "Which metrics are recorded.",
			Note: "All counters are always kept: they cost next to nothing."},
		{Name: "built.in.metrics.version", Scope: ScopeApp, Kind: String, Java: "latest", Status: Fixed, Values: []string{"latest"},
			Doc: "Version of the metrics' names.", Note: "There is one version."},
		{Name: "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__", Scope: ScopeApp, Kind: Millis, Status: Ignored,
			Doc: "A private flag: how often unmatched rows of a join are looked for.", Note: throttle},
		{Name: "__emit.interval.ms.kstreams.windowed.aggregation__", Scope: ScopeApp, Kind: Millis, Status: Ignored,
			Doc: "A private flag: how often closed windows are looked for.", Note: throttle},
	}
}

func connectionSettings() []Setting {
	system := "The operating system tunes the socket buffers, which is faster."
	return []Setting{
		{Name: "security.protocol", Scope: ScopeApp | ScopeClients, Kind: String, Java: "PLAINTEXT",
			Doc:  "Whether TLS and SASL are used: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
			bind: security(enum(protocols(), true), func(s *Security) *Protocol { return &s.Protocol })},
		{Name: "request.timeout.ms", Scope: ScopeApp | ScopeClients, Kind: Millis, Java: "40000",
			Doc:  "How long a client waits for an answer.",
			Note: "The default is that of Java's clients, 30 s: there the one of StreamsConfig reaches none of them.",
			bind: conn(millis(1), func(c *Connection) *time.Duration { return &c.RequestTimeout })},
		{Name: "connections.max.idle.ms", Scope: ScopeApp | ScopeClients, Kind: Millis, Java: "540000", Status: Ignored,
			Doc: "Time after which a connection that is not used is closed.", Note: "The client decides it, and makes a connection again when it is needed."},
		{Name: "socket.connection.setup.timeout.ms", Scope: ScopeClients, Kind: Millis, Java: "10000",
			Doc:  "How long a connection may take to be made.",
			bind: conn(millis(1), func(c *Connection) *time.Duration { return &c.ConnectionSetup })},
		{Name: "socket.connection.setup.timeout.max.ms", Scope: ScopeClients, Kind: Millis, Java: "30000", Status: Ignored,
			Doc: "Bound to which that time grows.", Note: "The time does not grow."},
		{Name: "retry.backoff.ms", Scope: ScopeApp | ScopeClients, Kind: Millis, Java: "100",
			Doc:  "Wait before the first retry of a request; it doubles with each.",
			bind: conn(millis(0), func(c *Connection) *time.Duration { return &c.RetryBackoff })},
		{Name: "retry.backoff.max.ms", Scope: ScopeConsumer | ScopeProducer | ScopeAdmin, Kind: Millis, Java: "1000",
			Doc:  "Longest wait between two retries.",
			bind: conn(millis(0), func(c *Connection) *time.Duration { return &c.RetryBackoffMax })},
		{Name: "reconnect.backoff.ms", Scope: ScopeApp | ScopeClients, Kind: Millis, Java: "50", Status: Ignored,
			Doc: "Wait before a connection is made again.", Note: "Connections are made again as retry.backoff.ms says."},
		{Name: "reconnect.backoff.max.ms", Scope: ScopeApp | ScopeClients, Kind: Millis, Java: "1000", Status: Ignored,
			Doc: "Longest such wait.", Note: "Connections are made again as retry.backoff.max.ms says."},
		{Name: "metadata.max.age.ms", Scope: ScopeApp | ScopeClients, Kind: Millis, Java: "300000",
			Doc:  "Age at which metadata is fetched anew, and topics of a pattern are found.",
			bind: conn(millis(1), func(c *Connection) *time.Duration { return &c.MetadataMaxAge })},
		{Name: "metadata.max.idle.ms", Scope: ScopeProducer, Kind: Millis, Java: "300000", Status: Ignored,
			Doc: "Time after which a topic that is not written to is forgotten.", Note: "The client decides it."},
		{Name: "metadata.recovery.strategy", Scope: ScopeApp | ScopeClients, Kind: String, Java: "rebootstrap", Status: Ignored,
			Doc: "What to do when no known broker answers.", Note: "The client then always asks the bootstrap servers again."},
		{Name: "metadata.recovery.rebootstrap.trigger.ms", Scope: ScopeApp | ScopeClients, Kind: Millis, Java: "300000", Status: Ignored,
			Doc: "When that is done.", Note: "The client decides it."},
		{Name: "metadata.cluster.check.enable", Scope: ScopeApp | ScopeClients, Kind: Bool, Java: "true", Status: Ignored,
			Doc: "Detects an answer of another cluster.", Note: "State that belongs to another cluster is always refused."},
		{Name: "bootstrap.resolve.timeout.ms", Scope: ScopeClients, Kind: Millis, Java: "0", Status: Ignored,
			Doc: "How long the bootstrap servers' names are resolved.", Note: "They are tried as long as the call goes on."},
		{Name: "client.dns.lookup", Scope: ScopeClients, Kind: String, Java: "use_all_dns_ips", Status: Fixed, Values: []string{"use_all_dns_ips"},
			Doc: "How host names are resolved.", Note: "All addresses of a name are tried. Write the brokers' own names into bootstrap.servers."},
		{Name: "client.rack", Scope: ScopeConsumer | ScopeProducer, Kind: String, Java: "", Status: Ignored,
			Doc: "Where the client stands, to read from a replica near by.", Note: "This release reads from the leaders."},
		{Name: "send.buffer.bytes", Scope: ScopeApp | ScopeClients, Kind: Int, Java: "131072", Status: Ignored, Doc: "Size of the socket's send buffer.", Note: system},
		{Name: "receive.buffer.bytes", Scope: ScopeApp | ScopeClients, Kind: Int, Java: "32768", Status: Ignored, Doc: "Size of the socket's receive buffer.", Note: system},
		{Name: "interceptor.classes", Scope: ScopeConsumer | ScopeProducer, Kind: List, Java: "[]", Status: Fixed, Values: []string{""},
			Doc: "Classes that see each record of a client.", Note: "Java classes cannot be loaded: use a step of the topology, such as Peek."},
		{Name: "security.providers", Scope: ScopeClients, Kind: String, Java: "null", Status: Refused,
			Doc: "Classes of Java's security.", Note: "Java classes cannot be loaded."},
	}
}
