package kafkatest_test

import (
	"context"
	"crypto/tls"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// TestListenersDemandWhatTheySay connects to each kind of listener with what it demands, and with something less.
func TestListenersDemandWhatTheySay(t *testing.T) {
	c := kafkatest.Start(t, kafkatest.Options{
		Users: map[string]string{"alice": "secret", "bob": "hunter2"},
		Listeners: []kafkatest.Listener{
			{Name: "TLS", TLS: true},
			{Name: "MTLS", TLS: true, ClientCert: true},
			{Name: "PLAIN", SASL: kafkatest.Plain},
			{Name: "SCRAM256", SASL: kafkatest.ScramSHA256},
			{Name: "SCRAM512", TLS: true, SASL: kafkatest.ScramSHA512},
			{Name: "OAUTH", SASL: kafkatest.OAuthBearer},
		},
	})
	withCert, err := c.TLS().Config()
	if err != nil {
		t.Fatal(err)
	}
	trusting := withCert.Clone()
	trusting.Certificates = nil
	stranger := &tls.Config{MinVersion: tls.VersionTLS12}

	token := func(lifetime time.Duration) sasl.Mechanism {
		s, err := kafkatest.UnsecuredToken("alice", lifetime)
		if err != nil {
			t.Fatal(err)
		}
		return oauth.Auth{Token: s}.AsMechanism()
	}
	plainAs := func(user, password string) kgo.Opt {
		return kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism())
	}
	for _, tt := range []struct {
		name, listener string
		opts           []kgo.Opt
		ok             bool
	}{
		{"tls", "TLS", []kgo.Opt{kgo.DialTLSConfig(trusting)}, true},
		{"tls by a client that trusts others", "TLS", []kgo.Opt{kgo.DialTLSConfig(stranger)}, false},
		{"tls by a plaintext client", "TLS", nil, false},
		{"mutual tls", "MTLS", []kgo.Opt{kgo.DialTLSConfig(withCert)}, true},
		{"mutual tls without a certificate", "MTLS", []kgo.Opt{kgo.DialTLSConfig(trusting)}, false},
		{"plain", "PLAIN", []kgo.Opt{plainAs("bob", "hunter2")}, true},
		{"plain with another's password", "PLAIN", []kgo.Opt{plainAs("bob", "secret")}, false},
		{"plain without credentials", "PLAIN", nil, false},
		{"scram-sha-256", "SCRAM256", []kgo.Opt{kgo.SASL(scram.Auth{User: "alice", Pass: "secret"}.AsSha256Mechanism())}, true},
		{"scram-sha-256 with a wrong password", "SCRAM256", []kgo.Opt{kgo.SASL(scram.Auth{User: "alice", Pass: "no"}.AsSha256Mechanism())}, false},
		{"scram-sha-512 over tls", "SCRAM512", []kgo.Opt{
			kgo.DialTLSConfig(trusting), kgo.SASL(scram.Auth{User: "alice", Pass: "secret"}.AsSha512Mechanism())}, true},
		{"scram-sha-512 over tls with the other mechanism", "SCRAM512", []kgo.Opt{
			kgo.DialTLSConfig(trusting), kgo.SASL(scram.Auth{User: "alice", Pass: "secret"}.AsSha256Mechanism())}, false},
		{"oauthbearer", "OAUTH", []kgo.Opt{kgo.SASL(token(time.Hour))}, true},
		{"oauthbearer with an old token", "OAUTH", []kgo.Opt{kgo.SASL(token(-time.Hour))}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			addrs := c.Addrs(tt.listener)
			if len(addrs) != 1 {
				t.Fatalf("addresses of %s: %v", tt.listener, addrs)
			}
			client, err := kgo.NewClient(append([]kgo.Opt{
				kgo.SeedBrokers(addrs...), kgo.RequestRetries(0), kgo.RetryTimeout(time.Minute),
			}, tt.opts...)...)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			err = client.Ping(ctx)
			if tt.ok && err != nil {
				t.Errorf("refused: %v", err)
			}
			if !tt.ok && err == nil {
				t.Error("let in")
			}
		})
	}
}
