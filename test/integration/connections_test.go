package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/millrace-io/millrace"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

func TestConnections(t *testing.T) {
	t.Parallel()
	eachSecured(t, func(t *testing.T, s *secured) {
		t.Run("let in", func(t *testing.T) { testLetIn(t, s) })
		t.Run("refused", func(t *testing.T) { testRefused(t, s) })
	})
}

// testLetIn runs a whole application behind each kind of listener, its settings given by typed options and by Java's names.
// The topology has a store, so that every client of an App connects.
func testLetIn(t *testing.T, s *secured) {
	for i, w := range ways(t, s) {
		l, ok := s.listeners[w.listener]
		if !ok {
			continue // a demand that this broker does not know
		}
		t.Run(w.name, func(t *testing.T) {
			before := s.written(t, w.listener)
			opts := append([]millrace.AppOption{millrace.Brokers(l.addrs...)}, w.opts...)
			r := startKind(t, s, s.Name(fmt.Sprint("way-", i)), "count", childTopics{In: s.in, Out: s.out}, opts...)
			r.untilDone()
			r.stop()
			if n := s.written(t, w.listener) - before; n != 1 {
				t.Errorf("%d records were written, want 1", n)
			}
		})
	}
}

// way is one way to be let in.
type way struct {
	name, listener string
	opts           []millrace.AppOption
}

func ways(t *testing.T, s *secured) []way {
	t.Helper()
	withCert, err := s.tls.Config()
	if err != nil {
		t.Fatal(err)
	}
	trusting := withCert.Clone()
	trusting.Certificates = nil
	token := func(context.Context) (millrace.OAuthToken, error) {
		v, err := kafkatest.UnsecuredToken(user, time.Hour)
		return millrace.OAuthToken{Value: v}, err
	}
	const module = "org.apache.kafka.common.security."
	credentials := fmt.Sprintf(` required username="%s" password="%s";`, user, secret)
	plain, scram := module+"plain.PlainLoginModule"+credentials, module+"scram.ScramLoginModule"+credentials
	trust := map[string]string{"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": s.tls.CA}

	properties := func(p ...map[string]string) []millrace.AppOption {
		return []millrace.AppOption{millrace.FromProperties(kafkatest.Merge(p...))}
	}
	options := func(o ...millrace.AppOption) []millrace.AppOption { return o }
	return []way{
		{"tls/options", "TLS", options(millrace.TLS(trusting))},
		{"tls/properties", "TLS", properties(trust)},
		{"tls/certificates in properties", "TLS", properties(map[string]string{
			"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.certificates": text(t, s.tls.CA)})},
		{"client certificate/options", "MTLS", options(millrace.TLS(withCert))},
		{"client certificate/properties", "MTLS", properties(trust, map[string]string{
			"ssl.keystore.type": "PEM", "ssl.keystore.location": s.tls.ClientKeystore})},
		{"client certificate/certificates in properties", "MTLS", properties(trust, map[string]string{
			"ssl.keystore.type": "PEM", "ssl.keystore.key": text(t, s.tls.ClientKey), "ssl.keystore.certificate.chain": text(t, s.tls.ClientCert)})},
		{"plain/options", "PLAIN", options(millrace.SASLPlain(user, secret))},
		{"plain/properties", "PLAIN", properties(map[string]string{
			"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": plain})},
		{"scram-sha-256/options", "SCRAM256", options(millrace.SASLScram256(user, secret))},
		{"scram-sha-256/properties", "SCRAM256", properties(map[string]string{
			"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": scram})},
		{"scram-sha-512/options", "SCRAM512", options(millrace.SASLScram512(user, secret))},
		{"scram-sha-512/properties", "SCRAM512", properties(map[string]string{
			"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": scram})},
		{"oauthbearer/options", "OAUTH", options(millrace.SASLOAuthBearer(token))},
		{"oauthbearer/unsecured by properties", "OAUTH", properties(map[string]string{
			"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER",
			"sasl.jaas.config": module + `oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="` + user + `";`})},
		{"oauthbearer/endpoint by properties", "OAUTH", properties(map[string]string{
			"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER",
			"sasl.oauthbearer.token.endpoint.url": tokenEndpoint(t),
			"sasl.jaas.config":                    module + `oauthbearer.OAuthBearerLoginModule required clientId="` + user + `" clientSecret="` + secret + `";`})},
		{"sasl over tls/options", "SASLTLS", options(millrace.TLS(trusting), millrace.SASLScram512(user, secret))},
		{"sasl over tls/properties", "SASLTLS", properties(trust, map[string]string{
			"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": scram})},
	}
}

func text(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// tokenEndpoint serves tokens to whoever brings the right client id and secret.
func tokenEndpoint(t *testing.T) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id, pass, ok := r.BasicAuth(); !ok || id != user || pass != secret {
			http.Error(w, `{"error":"invalid_client"}`, http.StatusUnauthorized)
			return
		}
		v, err := kafkatest.UnsecuredToken(user, time.Hour)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": v, "expires_in": 3600, "token_type": "bearer"})
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// One address among several is enough to find the cluster.
func TestConnections_oneAddressOfThree(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		app := b.Name("one-of-three")
		topics := childTopics{In: kafkatest.CreateTopic(t, b, "in", 1), Out: kafkatest.CreateTopic(t, b, "out", 1)}
		kafkatest.Load(t, b, topics.In, at("k", "v", 1))
		r := startKind(t, b, app, "count", topics, millrace.Brokers(nobody(t), b.Bootstrap()[0], silent(t)))
		r.untilDone()
		r.stop()
		equal(t, "out", shownNumbers(t, kafkatest.ReadAll(t, b, topics.Out, kafkatest.Committed)), "k=1@1")
	})
}

// nobody is an address where nobody listens.
func nobody(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// silent is an address where connections are taken and nothing is ever answered.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String() // the operating system takes the connections
}
