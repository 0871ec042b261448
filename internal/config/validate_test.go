package config

import (
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"time"
)

func valid() Config {
	cfg := Default()
	cfg.ApplicationID = "orders"
	cfg.BootstrapServers = []string{"127.0.0.1:9092"}
	return cfg
}

func TestValidate_defaultNeedsTwoSettings(t *testing.T) {
	cfg := valid()
	if err := cfg.Validate(); err != nil {
		t.Errorf("not valid: %v", err)
	}
	cfg = Default()
	err := cfg.Validate()
	if err == nil || len(errorsOf(err)) != 2 || !strings.Contains(err.Error(), "application.id") || !strings.Contains(err.Error(), "bootstrap.servers") {
		t.Errorf("error of the default: %v", err)
	}
}

func TestDefault_isThatOfKafkaStreams(t *testing.T) {
	cfg := Default()
	exactly := Default()
	exactly.Guarantee = ExactlyOnceV2
	for _, tc := range []struct {
		name      string
		got, want time.Duration
	}{
		{"commit interval", cfg.CommitEvery(), 30 * time.Second},
		{"commit interval of exactly-once", exactly.CommitEvery(), 100 * time.Millisecond},
		{"transaction timeout", cfg.Producer.TransactionTimeout, 10 * time.Second},
		{"session timeout", cfg.SessionTimeout, 45 * time.Second},
		{"heartbeat interval", cfg.HeartbeatInterval, 500 * time.Millisecond}, // ours
		{"max poll interval", cfg.MaxPollInterval, 5 * time.Minute},
		{"linger", cfg.Producer.Linger, 100 * time.Millisecond},
	} {
		if tc.got != tc.want {
			t.Errorf("%s is %v, want %v", tc.name, tc.got, tc.want)
		}
	}
	if cfg.CacheBytes != 10<<20 || cfg.BufferedRecords != 1000 || cfg.ReplicationFactor != -1 || cfg.Main.AutoOffsetReset.Kind != ResetEarliest ||
		cfg.Restore.AutoOffsetReset.Kind != ResetNone || cfg.Restore.Isolation != ReadCommitted || cfg.Main.Isolation != ReadUncommitted {
		t.Errorf("%+v", cfg)
	}
}

func errorsOf(err error) []error {
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		return j.Unwrap()
	}
	return []error{err}
}

func TestValidate_reports(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Config)
		want   []string // parts of the only error
	}{
		{"an id that cannot begin a topic's name", func(c *Config) { c.ApplicationID = "my app" }, []string{"application.id", `"my app"`, "letters"}},
		{"an id that is too long", func(c *Config) { c.ApplicationID = strings.Repeat("x", 250) }, []string{"application.id", "249"}},
		{"an id of a dot", func(c *Config) { c.ApplicationID = "." }, []string{"application.id", `".."`}},
		{"a server without a port", func(c *Config) { c.BootstrapServers = []string{"a:1", "b"} }, []string{"bootstrap.servers", `"b" has no port`}},
		{"a transaction that ends before its commit", func(c *Config) { c.Guarantee, c.Producer.TransactionTimeout = ExactlyOnceV2, 99*time.Millisecond },
			[]string{`setting transaction.timeout.ms = "99": must be at least 1000 above commit.interval.ms, which is 100 (default)`}},
		{"a transaction that ends with its commit", func(c *Config) { c.Guarantee, c.CommitInterval = ExactlyOnceV2, 10*time.Second },
			[]string{`setting transaction.timeout.ms = "10000" (default): must be at least 1000 above commit.interval.ms, which is 10000 (`, "round trips"}},
		{"a transaction that is hardly longer than its commit interval", func(c *Config) {
			c.Guarantee, c.CommitInterval, c.Producer.TransactionTimeout = ExactlyOnceV2, 5*time.Second, 5999*time.Millisecond
		}, []string{`setting transaction.timeout.ms = "5999": must be at least 1000 above commit.interval.ms, which is 5000 (`}},
		{"a guarantee that is none", func(c *Config) { c.Guarantee = 9 }, []string{"processing.guarantee", `"unknown"`, "must be at_least_once or exactly_once_v2"}},
		{"a negative interval", func(c *Config) { c.CommitInterval = -time.Second }, []string{"commit.interval.ms", `"-1000"`, "0 or more"}},
		{"no session", func(c *Config) { c.SessionTimeout = 500 * time.Millisecond }, []string{"heartbeat.interval.ms", `"500" (default): must be below session.timeout.ms, which is 500 (`}},
		{"a slow heartbeat", func(c *Config) { c.HeartbeatInterval = time.Hour }, []string{`"3600000": must be below session.timeout.ms, which is 45000 (default)`}},
		{"too little memory", func(c *Config) { c.MemoryLimit = 1 }, []string{"millrace.memory.limit.bytes", "67108864"}},
		{"no replica", func(c *Config) { c.ReplicationFactor = 0 }, []string{"replication.factor"}},
		{"a bad dead-letter topic", func(c *Config) { c.DeadLetterTopic = "a b" }, []string{"errors.dead.letter.queue.topic.name"}},
		{"an unknown topic config", func(c *Config) { c.TopicConfigs = map[string]string{"retention": "1"} }, []string{"topic.retention", "topic.retention.ms"}},
		{"no state directory", func(c *Config) { c.StateDir = "" }, []string{"state.dir", "must be set"}},
		{"the same mistake for every client", func(c *Config) {
			c.Connections(func(_ string, conn *Connection) { conn.RequestTimeout = 0 })
		}, []string{"setting request.timeout.ms", "1 or more"}},
		{"a mistake for one client", func(c *Config) { c.Producer.RequestTimeout = 0 }, []string{"setting producer.request.timeout.ms"}},
		{"a mistake that only one client can make", func(c *Config) { c.Producer.MaxRequestBytes = 7 }, []string{"setting max.request.size", "1024 or more"}},
		{"a search into the future", func(c *Config) { c.Main.AutoOffsetReset = Reset{ResetDuration, -1} }, []string{"auto.offset.reset", "future"}},
		{"no TLS version", func(c *Config) {
			c.Connections(func(_ string, conn *Connection) {
				conn.Security.Protocol = SSL
				conn.Security.TLS.EnabledProtocols = nil
			})
		}, []string{"ssl.enabled.protocols"}},
		{"an unsafe cipher suite", func(c *Config) {
			c.Admin.Security.Protocol = SSL
			c.Admin.Security.TLS.CipherSuites = []string{tls.CipherSuiteName(tls.TLS_RSA_WITH_RC4_128_SHA)}
		}, []string{"admin.ssl.cipher.suites", "not a safe cipher suite"}},
		{"a trust store twice", func(c *Config) {
			c.Main.Security.Protocol = SSL
			c.Main.Security.TLS.TruststoreLocation, c.Main.Security.TLS.TruststoreCertificates = "a", "b"
		}, []string{"main.consumer.ssl.truststore.certificates", "beside"}},
		{"a key without a chain", func(c *Config) {
			c.Main.Security.Protocol = SSL
			c.Main.Security.TLS.KeystoreKey = "secret-key"
		}, []string{"main.consumer.ssl.keystore.key", "[hidden]", "together"}},
		{"a key twice", func(c *Config) {
			c.Main.Security.Protocol = SSL
			c.Main.Security.TLS = TLS{KeystoreLocation: "a", KeystoreKey: "b", KeystoreCertificates: "c", EnabledProtocols: []string{"TLSv1.3"}}
		}, []string{"main.consumer.ssl.keystore.key", "beside"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := valid()
			tc.change(&cfg)
			err := cfg.Validate()
			if err == nil {
				t.Fatal("no error")
			}
			all := errorsOf(err)
			var se *SettingError
			if len(all) != 1 && !strings.Contains(tc.name, "TLS version") || !errors.As(err, &se) {
				t.Fatalf("%d errors: %v", len(all), err)
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not contain %q", err, part)
				}
			}
			if strings.Contains(err.Error(), "secret-key") {
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
}

func TestValidate_joinsErrors(t *testing.T) {
	cfg := valid()
	cfg.CommitInterval, cfg.CacheBytes, cfg.Producer.Linger = -1, -1, -1
	if all := errorsOf(cfg.Validate()); len(all) != 3 {
		t.Errorf("%d errors, want 3: %v", len(all), all)
	}
}

func TestClone_sharesNothing(t *testing.T) {
	cfg := valid()
	cfg.TopicConfigs = map[string]string{"retention.ms": "1"}
	cfg.Main.Security.SASL.Login.Claims = map[string]string{"a": "1"}
	other := cfg.Clone()
	other.TopicConfigs["retention.ms"] = "2"
	other.BootstrapServers[0] = "x:1"
	other.Main.Security.SASL.Login.Claims["a"] = "2"
	other.Main.Security.TLS.EnabledProtocols[0] = "x"
	if cfg.TopicConfigs["retention.ms"] != "1" || cfg.BootstrapServers[0] != "127.0.0.1:9092" ||
		cfg.Main.Security.SASL.Login.Claims["a"] != "1" || cfg.Main.Security.TLS.EnabledProtocols[0] != "TLSv1.2" {
		t.Error("a change of the clone shows in the original")
	}
}

func TestString_showsWhereClientsDiffer(t *testing.T) {
	cfg := valid()
	cfg.Producer.RequestTimeout = time.Second
	cfg.TopicConfigs = map[string]string{"retention.ms": "1"}
	out := cfg.String()
	for _, line := range []string{
		"application.id = orders\n", "commit.interval.ms = 30000\n", "producer.request.timeout.ms = 1000\n", "admin.request.timeout.ms = 30000\n",
		"retry.backoff.ms = 100\n", "topic.retention.ms = 1\n", "auto.offset.reset = earliest\n", "max.task.idle.ms = 0\n",
	} {
		if !strings.Contains(out, line) {
			t.Errorf("no line %q in:\n%s", line, out)
		}
	}
	if strings.Contains(out, "\nrequest.timeout.ms") {
		t.Error("a setting that differs stands there without a prefix")
	}
}

func TestBackoff(t *testing.T) {
	c := Connection{RetryBackoff: 100 * time.Millisecond, RetryBackoffMax: time.Second}
	for n, want := range map[int]time.Duration{1: 100, 2: 200, 4: 800, 5: 1000, 1000: 1000} {
		if d := c.Backoff(n); d != want*time.Millisecond {
			t.Errorf("retry %d waits %v, want %d ms", n, d, want)
		}
	}
	c.RetryBackoff = 5 * time.Second // above the bound: the wait is constant, as in Java
	if d := c.Backoff(3); d != 5*time.Second {
		t.Errorf("it waits %v", d)
	}
	c.RetryBackoff = 0
	if d := c.Backoff(1 << 40); d != 0 {
		t.Errorf("it waits %v", d)
	}
}
