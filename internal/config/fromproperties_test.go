package config

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func apply(t *testing.T, props map[string]string) (Config, []string) {
	t.Helper()
	ch, err := FromProperties(props)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Default()
	ch.Apply(&cfg)
	return cfg, ch.Warnings
}

func TestFromProperties_application(t *testing.T) {
	cfg, warnings := apply(t, map[string]string{
		"application.id":                                "orders",
		"bootstrap.servers":                             " b1:9092, PLAINTEXT://b2:9093 ,[::1]:9094",
		"client.id":                                     "me",
		"state.dir":                                     "/var/lib/orders",
		"processing.guarantee":                          "at_least_once",
		"commit.interval.ms":                            " 250 ",
		"num.stream.threads":                            "3",
		"max.task.idle.ms":                              "-1",
		"statestore.cache.max.bytes":                    "0",
		"cache.max.bytes.buffering":                     "77",
		"buffered.records.per.partition":                "50",
		"replication.factor":                            "3",
		"repartition.purge.interval.ms":                 "1000",
		"windowstore.changelog.additional.retention.ms": "9223372036854775807",
		"dsl.store.suppliers.class":                     "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers",
		"deserialization.exception.handler":             "org.apache.kafka.streams.errors.LogAndContinueExceptionHandler",
		"processing.exception.handler":                  "org.apache.kafka.streams.errors.LogAndContinueProcessingExceptionHandler",
		"production.exception.handler":                  "org.apache.kafka.streams.errors.DefaultProductionExceptionHandler",
		"errors.dead.letter.queue.topic.name":           "orders-dead",
		"ensure.explicit.internal.resource.naming":      "TRUE",
		"group.protocol":                                "STREAMS",
		"topology.optimization":                         "none",
		"num.standby.replicas":                          "0",
		"topic.min.insync.replicas":                     "2",
		"topic.segment.bytes":                           " 1048576",
		"millrace.memory.limit.bytes":                   "268435456",
		"millrace.static.membership":                    "false",
	})
	want := Default()
	want.ApplicationID = "orders"
	want.BootstrapServers = []string{"b1:9092", "b2:9093", "[::1]:9094"}
	want.ClientID = "me"
	want.StateDir = "/var/lib/orders"
	want.CommitInterval = 250 * time.Millisecond
	want.Workers = 3
	want.GroupProtocol = Streams
	want.MaxTaskIdle = NeverIdle
	want.CacheBytes = 0 // the new name wins over the old one
	want.BufferedRecords = 50
	want.ReplicationFactor = 3
	want.RepartitionPurgeInterval = time.Second
	want.WindowChangelogRetention = durationMs(1<<63 - 1)
	want.DefaultStore = InMemory
	want.OnDeserializationError = ContinueOnError
	want.OnProcessingError = ContinueOnError
	want.DeadLetterTopic = "orders-dead"
	want.ExplicitNames = true
	want.Optimization = []string{"none"}
	want.TopicConfigs = map[string]string{"min.insync.replicas": "2", "segment.bytes": "1048576"}
	want.MemoryLimit = 256 << 20
	want.StaticMembership = false
	if d := cmp.Diff(want, cfg); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if err := cfg.Validate(); err != nil {
		t.Errorf("not valid: %v", err)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "cache.max.bytes.buffering is the old name of statestore.cache.max.bytes") {
		t.Errorf("warnings: %q", warnings)
	}
}

func TestFromProperties_prefixesAndPrecedence(t *testing.T) {
	cfg, warnings := apply(t, map[string]string{
		"request.timeout.ms":                 "1000",
		"consumer.request.timeout.ms":        "2000",
		"main.consumer.request.timeout.ms":   "3000",
		"restore.consumer.fetch.max.bytes":   "111",
		"consumer.fetch.max.bytes":           "222",
		"fetch.max.bytes":                    "333",
		"producer.linger.ms":                 "7",
		"linger.ms":                          "8",
		"admin.request.timeout.ms":           "4000",
		"retry.backoff.max.ms":               "5000",
		"max.poll.interval.ms":               "60000",
		"consumer.session.timeout.ms":        "10000",
		"main.consumer.session.timeout.ms":   "11000",
		"auto.offset.reset":                  "by_duration:PT24H",
		"restore.consumer.auto.offset.reset": "earliest",
		"default.api.timeout.ms":             "9000",
		"admin.default.api.timeout.ms":       "9500",
		"isolation.level":                    "READ_COMMITTED",
		"compression.type":                   "zstd",
		"group.instance.id":                  "i-1",
	})
	want := Default()
	want.Connections(func(client string, c *Connection) {
		c.RetryBackoffMax = 5 * time.Second
		c.RequestTimeout = map[string]time.Duration{
			"main.consumer": 3 * time.Second, "restore.consumer": 2 * time.Second, "global.consumer": 2 * time.Second,
			"producer": time.Second, "admin": 4 * time.Second,
		}[client]
	})
	want.Main.FetchMaxBytes, want.Global.FetchMaxBytes, want.Restore.FetchMaxBytes = 222, 222, 111
	want.Producer.Linger = 7 * time.Millisecond
	want.MaxPollInterval = time.Minute
	want.SessionTimeout = 11 * time.Second
	want.Main.AutoOffsetReset = Reset{Kind: ResetDuration, Back: 24 * time.Hour}
	want.CommitTimeout = 9 * time.Second
	want.Admin.APITimeout = 9500 * time.Millisecond
	want.Main.Isolation = ReadCommitted
	want.Producer.Compression.Codec = CompressionZstd
	want.InstanceID = "i-1"
	if d := cmp.Diff(want, cfg, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "restore.consumer.auto.offset.reset has no effect") {
		t.Errorf("warnings: %q", warnings)
	}
}

func TestFromProperties_errors(t *testing.T) {
	for _, tc := range []struct {
		key, value string
		want       []string // parts of the error
	}{
		{"procesing.guarantee", "x", []string{"procesing.guarantee", "not known", "processing.guarantee"}},
		{"producer.linger", "5", []string{"producer.linger.ms"}},
		{"consumer.linger.ms", "5", []string{"not a setting of the consumer", "producer.linger.ms"}},
		{"producer.session.timeout.ms", "5", []string{"not a setting of the producer", "consumer.session.timeout.ms"}},
		{"consumer.application.id", "x", []string{"not a setting of the consumer", "use application.id"}},
		{"processing.guarantee", "exactly_once", []string{`"exactly_once"`, "must be at_least_once or exactly_once_v2"}},
		{"group.protocol", "consumer", []string{"must be classic or streams"}},
		{"num.standby.replicas", "-1", []string{"must be a whole number from 0"}},
		{"rack.aware.assignment.tags", "a,b,c,d,e,f", []string{"at most 5"}},
		{"client.tag.", "x", []string{"is no tag"}},
		{"client.tag.zone", "a very long value of a tag, longer than allowed", []string{"is no tag", "30"}},
		{"upgrade.from", "3.4", []string{"not supported", "stop the old application"}},
		{"dsl.store.format", "HEADERS", []string{"must be DEFAULT", "millrace.KeepHeaders()"}},
		{"acks", "1", []string{"must be all or -1"}},
		{"enable.idempotence", "false", []string{"must be true"}},
		{"commit.interval.ms", "-5", []string{`"-5"`, "milliseconds, 0 or more"}},
		{"commit.interval.ms", "30s", []string{`"30s"`, "number of milliseconds"}},
		{"statestore.cache.max.bytes", "10MB", []string{"whole number, 0 or more"}},
		{"replication.factor", "0", []string{"-1 or a whole number above 0"}},
		{"replication.factor", "70000", []string{"from -1 to 32767"}},
		{"max.request.size", "6", []string{"1024 or more"}},
		{"compression.type", "brotli", []string{"none, gzip, snappy, lz4 or zstd"}},
		{"auto.offset.reset", "by_duration:1h", []string{"ISO 8601"}},
		{"auto.offset.reset", "by_duration:-PT1H", []string{"future"}},
		{"auto.offset.reset", "smallest", []string{"earliest, latest, none or by_duration"}},
		{"deserialization.exception.handler", "com.example.Mine", []string{"LogAndContinueExceptionHandler", "in Go"}},
		{"default.timestamp.extractor", "org.apache.kafka.streams.processor.WallclockTimestampExtractor", []string{"FailOnInvalidTimestamp", "option Timestamps"}},
		{"interceptor.classes", "com.example.Mine", []string{"must be empty", "Peek"}},
		{"config.providers.vault.class", "x", []string{"cannot be loaded"}},
		{"sasl.kerberos.service.name", "kafka", []string{"Kerberos"}},
		{"sasl.mechanism", "GSSAPI", []string{"Kerberos", "PLAIN"}},
		{"sasl.login.callback.handler.class", "com.example.Mine", []string{"token function"}},
		{"ssl.engine.factory.class", "com.example.Mine", []string{"tls.Config"}},
		{"ssl.enabled.protocols", "TLSv1.1", []string{"TLSv1.2 and TLSv1.3"}},
		{"ssl.truststore.type", "BCFKS", []string{"PEM, PKCS12 or JKS"}},
		{"partitioner.class", "x", []string{"give the steps that write millrace.PartitionBy"}},
		{"topic.retention", "1", []string{"no config of a topic", "topic.retention.ms"}},
		{"schema.registry.url", "http://x", []string{"serde"}},
		{"bootstrap.servers", "broker", []string{`"broker" has no port`, "broker:9092"}},
		{"bootstrap.servers", "::1:9092", []string{"[::1]:9092"}},
		{"bootstrap.servers", "b:99999", []string{"1 to 65535"}},
		{"bootstrap.servers", ":9092", []string{"no host name"}},
		{"bootstrap.servers", "b 1:9092", []string{"no host name"}},
		{"metrics.num.samples", "two", []string{"whole number"}}, // without effect, and still no number
		{"enable.auto.commit", "yes", []string{"true or false"}},
		{"internal.task.assignor.class", "x", []string{"private flag"}},
	} {
		t.Run(tc.key+"="+tc.value, func(t *testing.T) {
			_, err := FromProperties(map[string]string{tc.key: tc.value})
			var se *SettingError
			if !errors.As(err, &se) {
				t.Fatalf("error %v is no SettingError", err)
			}
			if se.Name != tc.key {
				t.Errorf("it names %q", se.Name)
			}
			for _, part := range append(tc.want, "millrace: setting "+tc.key) {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not contain %q", err, part)
				}
			}
		})
	}
}

func TestFromProperties_reportsAllErrors(t *testing.T) {
	_, err := FromProperties(map[string]string{"commit.interval.ms": "x", "no.such.key": "x", "acks": "0", "application.id": "fine"})
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || len(joined.Unwrap()) != 3 {
		t.Fatalf("not three errors: %v", err)
	}
}

func TestFromProperties_secretsStayHidden(t *testing.T) {
	const password = "hunter2-xyz"
	jaas := `org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="` + password + `";`
	cfg, _ := apply(t, map[string]string{
		"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas,
		"ssl.keystore.password": password, "ssl.key.password": password, "ssl.keystore.key": password,
		"sasl.oauthbearer.client.credentials.client.secret": password,
	})
	if got := cfg.Producer.Security.SASL.Login.Password.Reveal(); got != password {
		t.Fatalf("the password is %q", got)
	}
	for _, bad := range []map[string]string{
		{"sasl.jaas.config": "com.example.Other required password=" + password + ";"},
		{"sasl.jaas.config": "x required password=\"" + password},
		{"sasl.jass.config": jaas},
		{"security.providers": "x", "sasl.oauthbearer.assertion.private.key.passphrase": password},
	} {
		_, err := FromProperties(bad)
		if err == nil || strings.Contains(err.Error(), password) {
			t.Errorf("error shows the password, or there is none: %v", err)
		}
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		if out := sprintf(verb, cfg); strings.Contains(out, password) || strings.Contains(out, hexOf(password)) {
			t.Errorf("%s shows the password", verb)
		}
	}
	if out := cfg.String(); strings.Contains(out, password) || !strings.Contains(out, "ssl.key.password = [hidden]") ||
		!strings.Contains(out, "sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule required [hidden];") {
		t.Errorf("String:\n%s", out)
	}
}

func TestFromProperties_ignoredSettingsWarn(t *testing.T) {
	props := make(map[string]string)
	for _, s := range Settings() {
		if s.Status == Ignored {
			props[s.Name] = map[Kind]string{Bool: "true", Int: "1", Long: "1", Bytes: "1", Millis: "1", Double: "0.5"}[s.Kind]
		}
	}
	cfg, warnings := apply(t, props)
	if d := cmp.Diff(Default(), cfg); d != "" {
		t.Errorf("a setting without effect changed something:\n%s", d)
	}
	if len(warnings) != len(props) || len(props) < 50 {
		t.Errorf("%d warnings for %d settings", len(warnings), len(props))
	}
}

func TestChanges_applyLeavesTheRest(t *testing.T) {
	ch, err := FromProperties(map[string]string{"topic.segment.ms": "1"})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Default()
	cfg.CommitInterval = time.Second
	cfg.TopicConfigs = map[string]string{"retention.ms": "2"}
	shared := cfg.Clone()
	ch.Apply(&cfg)
	if cfg.CommitInterval != time.Second || len(cfg.TopicConfigs) != 2 || len(shared.TopicConfigs) != 1 {
		t.Errorf("interval %v, topic configs %v, of the clone %v", cfg.CommitInterval, cfg.TopicConfigs, shared.TopicConfigs)
	}
}

func TestNearest(t *testing.T) {
	for _, tc := range [][2]string{
		{"commit.interval", "commit.interval.ms"},
		{"num.stream.thread", "num.stream.threads"},
		{"statestore.cahce.max.bytes", "statestore.cache.max.bytes"},
		{"bootstrap.server", "bootstrap.servers"},
		{"auto.reset.offset", "auto.offset.reset"},
	} {
		var all []string
		for _, s := range Settings() {
			all = append(all, s.Name)
		}
		if got := nearest(tc[0], all); got != tc[1] {
			t.Errorf("nearest to %s is %s, want %s", tc[0], got, tc[1])
		}
	}
	for _, tc := range []struct {
		a, b string
		d    int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "abc", 0}, {"ab", "ba", 1}, {"kitten", "sitting", 3}, {"ca", "abc", 3}} {
		if d := EditDistance(tc.a, tc.b); d != tc.d {
			t.Errorf("distance of %q and %q is %d, want %d", tc.a, tc.b, d, tc.d)
		}
	}
}
