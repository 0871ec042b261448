package integration_test

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// testRefused: what keeps an App from connecting is an error of Run that says what is wrong, at which address, and what to check; soon,
// and without a word of the password.
func testRefused(t *testing.T, s *secured) {
	withCert, err := s.tls.Config()
	if err != nil {
		t.Fatal(err)
	}
	trusting := withCert.Clone()
	trusting.Certificates = nil
	outdated := withCert.Clone()
	cert, err := tls.LoadX509KeyPair(s.tls.ExpiredCert, s.tls.ExpiredKey)
	if err != nil {
		t.Fatal(err)
	}
	outdated.Certificates = []tls.Certificate{cert}
	misnamed := trusting.Clone()
	misnamed.ServerName = "kafka.example"
	const wrong = "wr0ng"
	outdatedToken := func(context.Context) (millrace.OAuthToken, error) {
		v, err := kafkatest.UnsecuredToken(user, -time.Hour)
		return millrace.OAuthToken{Value: v}, err
	}
	noToken := func(context.Context) (millrace.OAuthToken, error) { return millrace.OAuthToken{}, errNoToken }
	options := func(o ...millrace.AppOption) []millrace.AppOption { return o }

	for _, c := range []struct {
		name, listener string
		opts           []millrace.AppOption
		says           string
	}{
		{"wrong password, plain", "PLAIN", options(millrace.SASLPlain(user, wrong)), "check the user"},
		{"wrong password, scram-sha-256", "SCRAM256", options(millrace.SASLScram256(user, wrong)), "check the user"},
		{"unknown user, scram-sha-512", "SCRAM512", options(millrace.SASLScram512("mallory", wrong)), "check the user"},
		{"other mechanism", "SCRAM512", options(millrace.SASLScram256(user, secret)), "that the listener offers"},
		{"outdated token", "OAUTH", options(millrace.SASLOAuthBearer(outdatedToken)), "whether it is still valid"},
		{"endpoint that refuses", "OAUTH", options(millrace.FromProperties(map[string]string{
			"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url": tokenEndpoint(t),
			"sasl.oauthbearer.client.credentials.client.id": user, "sasl.oauthbearer.client.credentials.client.secret": wrong,
		})), "no token from sasl.oauthbearer.token.endpoint.url"},
		{"no token", "OAUTH", options(millrace.SASLOAuthBearer(noToken)), errNoToken.Error()},
		{"no login", "PLAIN", nil, "check whether this listener wants TLS or SASL"},
		{"no login over TLS", "SASLTLS", options(millrace.TLS(trusting)), "whether it wants SASL"},
		{"unknown authority", "TLS", options(millrace.TLS(nil)), "unknown authority"},
		{"no TLS", "TLS", nil, "wants TLS"},
		{"TLS where there is none", "PLAINTEXT", options(millrace.TLS(trusting)), "check that the listener speaks TLS"},
		{"no client certificate", "MTLS", options(millrace.TLS(trusting)), "the broker refuses this client's certificate"},
		{"expired client certificate", "MTLS", options(millrace.TLS(outdated)), "the broker refuses this client's certificate"},
		{"expired broker certificate", "EXPIRED", options(millrace.TLS(trusting)), "has expired"},
		{"other host name", "TLS", options(millrace.TLS(misnamed)), "check that the listener speaks TLS and that its certificate is signed by a trusted authority for this host name"},
	} {
		l, ok := s.listeners[c.listener]
		if !ok {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			began := time.Now()
			// What is only given up after a time is given up soon.
			opts := append([]millrace.AppOption{millrace.Brokers(l.addrs...),
				millrace.FromProperties(map[string]string{"socket.connection.setup.timeout.ms": "1000"})}, c.opts...)
			err := startKind(t, s, s.Name("refused"), "count", childTopics{In: s.in, Out: s.out}, opts...).fails()
			if took := time.Since(began); took > tellWithin {
				t.Errorf("it took %v to say so", took)
			}
			if !errors.Is(err, millrace.ErrUnreachable) {
				t.Errorf("the error is no ErrUnreachable: %v", err)
			}
			says(t, err, l.addrs[0], c.says)
			for _, p := range []string{secret, wrong} {
				if strings.Contains(err.Error(), p) {
					t.Errorf("the error shows a password: %v", err)
				}
			}
		})
	}
}

var errNoToken = errors.New("the identity provider is closed today")

// Where no address leads to a broker, the error tells for each of them why, in bounded time.
func TestConnections_noAddressOfThree(t *testing.T) {
	t.Parallel()
	bld := millrace.NewBuilder()
	copyTopology(bld, childTopics{In: "in", Out: "out"})
	b := kafkatest.Embedded(t)
	refused, mute, unknown := nobody(t), silent(t), "no-such-host.invalid:9092"
	began := time.Now()
	err := start(t, b, "app", buildTopology(t, bld), millrace.Brokers(refused, mute, unknown),
		millrace.FromProperties(map[string]string{"socket.connection.setup.timeout.ms": "1000"})).fails()
	if took := time.Since(began); took > tellWithin {
		t.Errorf("it took %v to say so", took)
	}
	if !errors.Is(err, millrace.ErrUnreachable) {
		t.Errorf("the error is no ErrUnreachable: %v", err)
	}
	says(t, err, refused+": dial tcp", "check that a broker listens there",
		mute+": ", "check the address, the network and the firewall, and whether this listener wants TLS",
		unknown+": ", "check the host name")
}
