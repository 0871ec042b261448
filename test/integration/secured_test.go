package integration_test

import (
	"crypto/tls"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// user and secret are what the listeners with a password know.
const user, secret = "alice", "s3cret"

// secured is a cluster whose listeners demand something of a client. Each has the topics in, with one record, and out.
type secured struct {
	kafkatest.Broker // of a test's names, and of the cluster where it is one
	tls              *kafkatest.TLSFiles
	listeners        map[string]securedListener
	in, out          string
}

type securedListener struct {
	addrs  []string
	client *kgo.Client // that is let in
}

// written is how many records the topic out has, seen from a listener.
func (s *secured) written(t *testing.T, listener string) int64 {
	t.Helper()
	ends, err := kadm.NewClient(s.listeners[listener].client).ListEndOffsets(t.Context(), s.out)
	if err != nil {
		t.Fatal(err)
	}
	o, _ := ends.Lookup(s.out, 0)
	return o.Offset
}

// eachSecured runs a suite on both brokers.
func eachSecured(t *testing.T, suite func(t *testing.T, s *secured)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) { suite(t, securedEmbedded(t)) })
	t.Run("kafka", func(t *testing.T) { suite(t, securedKafka(t)) })
}

// securedKafka is Apache Kafka with one listener for each demand.
func securedKafka(t *testing.T) *secured {
	t.Helper()
	listeners := []kafkatest.Listener{
		{Name: "TLS", TLS: true},
		{Name: "MTLS", TLS: true, ClientCert: true},
		{Name: "PLAIN", SASL: kafkatest.Plain},
		{Name: "SCRAM256", SASL: kafkatest.ScramSHA256},
		{Name: "SCRAM512", SASL: kafkatest.ScramSHA512},
		{Name: "OAUTH", SASL: kafkatest.OAuthBearer},
		{Name: "SASLTLS", TLS: true, SASL: kafkatest.ScramSHA512},
	}
	c := kafkatest.Start(t, kafkatest.Options{Users: map[string]string{user: secret}, Listeners: listeners})
	b := kafkatest.OnCluster(t, c)
	s := &secured{
		Broker: b, tls: c.TLS(), listeners: make(map[string]securedListener),
		in: kafkatest.CreateTopic(t, b, "in", 1), out: kafkatest.CreateTopic(t, b, "out", 1),
	}
	kafkatest.Load(t, b, s.in, at("k", "v", 1))
	client := kafkatest.NewClient(t, b)
	s.listeners["PLAINTEXT"] = securedListener{c.Bootstrap(), client}
	for _, l := range listeners {
		s.listeners[l.Name] = securedListener{c.Addrs(l.Name), client}
	}
	return s
}

// securedEmbedded is an embedded broker for each demand. They know no OAUTHBEARER.
func securedEmbedded(t *testing.T) *secured {
	t.Helper()
	files, err := kafkatest.WriteTLS(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	server := func(clientCert bool) *tls.Config {
		c, err := files.ServerConfig(clientCert)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	expired := server(false)
	cert, err := tls.LoadX509KeyPair(files.ExpiredCert, files.ExpiredKey)
	if err != nil {
		t.Fatal(err)
	}
	expired.Certificates = []tls.Certificate{cert}
	mine, err := files.Config()
	if err != nil {
		t.Fatal(err)
	}
	careless := mine.Clone()
	careless.InsecureSkipVerify = true

	s := &secured{tls: files, listeners: make(map[string]securedListener), in: "in", out: "out"}
	add := func(name string, broker []kfake.Opt, opts ...kgo.Opt) {
		f := kafkatest.Embedded(t, append(broker, kfake.SeedTopics(1, s.in, s.out))...)
		client := kafkatest.NewClient(t, f, opts...)
		r := at("k", "v", 1)
		r.Topic = s.in
		if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
		s.Broker = f
		s.listeners[name] = securedListener{f.Bootstrap(), client}
	}
	sasl := func(m kafkatest.Mechanism) []kfake.Opt {
		return []kfake.Opt{kfake.EnableSASL(), kfake.Superuser(string(m), user, secret)}
	}
	add("PLAINTEXT", nil)
	add("TLS", []kfake.Opt{kfake.TLS(server(false))}, kgo.DialTLSConfig(mine))
	add("MTLS", []kfake.Opt{kfake.TLS(server(true))}, kgo.DialTLSConfig(mine))
	add("EXPIRED", []kfake.Opt{kfake.TLS(expired)}, kgo.DialTLSConfig(careless))
	add("PLAIN", sasl(kafkatest.Plain), kgo.SASL(plain.Auth{User: user, Pass: secret}.AsMechanism()))
	add("SCRAM256", sasl(kafkatest.ScramSHA256), kgo.SASL(scram.Auth{User: user, Pass: secret}.AsSha256Mechanism()))
	add("SCRAM512", sasl(kafkatest.ScramSHA512), kgo.SASL(scram.Auth{User: user, Pass: secret}.AsSha512Mechanism()))
	add("SASLTLS", append(sasl(kafkatest.ScramSHA512), kfake.TLS(server(false))),
		kgo.SASL(scram.Auth{User: user, Pass: secret}.AsSha512Mechanism()), kgo.DialTLSConfig(mine))
	return s
}
