package kgoclient

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/millrace-io/millrace/internal/broker"
)

// certificates makes a server configuration for 127.0.0.1 and a client's that trusts it.
func certificates(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "broker"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	server = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	return server, &tls.Config{RootCAs: pool}
}

func wantUnreachable(t *testing.T, err error, words ...string) {
	t.Helper()
	if !errors.Is(err, broker.ErrUnreachable) {
		t.Fatalf("want ErrUnreachable, got %v", err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

func TestPing_plain(t *testing.T) {
	_, cfg := startCluster(t)
	if err := Ping(testCtx(t), cfg); err != nil {
		t.Error(err)
	}
	cfg.Bootstrap = append([]string{"127.0.0.1:1"}, cfg.Bootstrap...)
	if err := Ping(testCtx(t), cfg); err != nil {
		t.Errorf("one of two addresses is wrong: %v", err)
	}
}

func TestPing_unreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	wantUnreachable(t, Ping(testCtx(t), Config{Bootstrap: []string{addr}}), addr, "refused", "check that a broker listens there")
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
	wantUnreachable(t, Ping(testCtx(t), Config{Bootstrap: []string{"no-such-host.invalid:9092"}}), "no-such-host.invalid:9092", "check the host name")

	// Calls of a client say the same when their context ends.
	a := newAdmin(t, Config{Bootstrap: []string{addr}, RetryBackoff: time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = a.Topics(ctx, "in")
	wantUnreachable(t, err, addr, "refused", "describe topics in")
}

func TestPing_silentListener(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cfg := Config{Bootstrap: []string{l.Addr().String()}, DialTimeout: 50 * time.Millisecond}
	wantUnreachable(t, Ping(testCtx(t), cfg), l.Addr().String(), "check the address")
	cfg.TLS = new(tls.Config)
	wantUnreachable(t, Ping(testCtx(t), cfg), l.Addr().String(), "TLS")
}

func TestPing_badSettings(t *testing.T) {
	for _, cfg := range []Config{
		{}, {Bootstrap: []string{"host"}}, {Bootstrap: []string{"a:1"}, Produce: ProduceConfig{Compression: "zip"}},
		{Bootstrap: []string{"a:1"}, RetryBackoff: time.Minute, RetryBackoffMax: time.Second},
	} {
		if err := Ping(testCtx(t), cfg); err == nil || errors.Is(err, broker.ErrUnreachable) || !strings.HasPrefix(err.Error(), "millrace: ") {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

func TestTLS(t *testing.T) {
	server, client := certificates(t)
	c, cfg := startCluster(t, kfake.TLS(server))
	topic(t, c, "in", 1, nil)
	cfg.TLS = client
	if err := Ping(testCtx(t), cfg); err != nil {
		t.Fatal(err)
	}
	a := newAcks()
	newProducer(t, cfg).Produce(broker.ProduceRecord{Topic: "in", Value: []byte("v")}, a.done("v"))
	a.wait(1)
	if got := readTo(t, newReader(t, cfg), tp("in", 0), 0, 1); len(got) != 1 || a.of("v").err != nil {
		t.Errorf("over TLS: %v, %v", valuesOf(got), a.of("v").err)
	}

	untrusting := cfg
	untrusting.TLS = new(tls.Config)
	wantUnreachable(t, Ping(testCtx(t), untrusting), "certificate", "trusted authority")
	plain := cfg
	plain.TLS = nil
	plain.DialTimeout = 100 * time.Millisecond
	wantUnreachable(t, Ping(testCtx(t), plain), cfg.Bootstrap[0], "TLS")
}

func TestTLS_whereTheListenerIsPlain(t *testing.T) {
	_, client := certificates(t)
	_, cfg := startCluster(t)
	cfg.TLS = client
	cfg.DialTimeout = 100 * time.Millisecond
	wantUnreachable(t, Ping(testCtx(t), cfg), cfg.Bootstrap[0], "TLS")
}

func TestSASL(t *testing.T) {
	for _, x := range []struct {
		name string
		with func(user, password string) Mechanism
	}{{"PLAIN", Plain}, {"SCRAM-SHA-256", ScramSHA256}, {"SCRAM-SHA-512", ScramSHA512}} {
		t.Run(x.name, func(t *testing.T) {
			server, client := certificates(t)
			_, cfg := startCluster(t, kfake.EnableSASL(), kfake.TLS(server), kfake.Superuser(x.name, "app", "secret"))
			cfg.TLS = client
			cfg.SASL = x.with("app", "secret")
			if cfg.SASL.Name() != x.name {
				t.Errorf("name %q", cfg.SASL.Name())
			}
			if err := Ping(testCtx(t), cfg); err != nil {
				t.Fatal(err)
			}
			cfg.SASL = x.with("app", "wrong")
			start := time.Now()
			err := Ping(testCtx(t), cfg)
			wantUnreachable(t, err, cfg.Bootstrap[0], "check the user")
			if strings.Contains(err.Error(), "wrong") || strings.Contains(err.Error(), "secret") {
				t.Errorf("the password is in the error: %v", err)
			}
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("took %v", took)
			}
			cfg.SASL = nil
			wantUnreachable(t, Ping(testCtx(t), cfg), cfg.Bootstrap[0], "SASL")
		})
	}
}

func TestOAuthBearer_asksForATokenForEachSession(t *testing.T) {
	var asked atomic.Int32
	m := OAuthBearer(func(context.Context) (Token, error) {
		asked.Add(1)
		return Token{Token: "abc", Extensions: map[string]string{"logicalCluster": "lkc-1"}}, nil
	})
	if m.Name() != "OAUTHBEARER" {
		t.Errorf("name %q", m.Name())
	}
	for range 2 {
		_, first, err := m.mechanism().Authenticate(t.Context(), "broker:9092")
		if err != nil {
			t.Fatal(err)
		}
		if want := "n,,\x01auth=Bearer abc\x01logicalCluster=lkc-1\x01\x01"; string(first) != want {
			t.Errorf("first message %q, want %q", first, want)
		}
	}
	if asked.Load() != 2 {
		t.Errorf("asked %d times, want 2", asked.Load())
	}
	gone := errors.New("token service is down")
	if _, _, err := OAuthBearer(func(context.Context) (Token, error) { return Token{}, gone }).mechanism().Authenticate(t.Context(), ""); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
}

func TestDialer_virtualNetwork(t *testing.T) {
	var vn kfake.VirtualNetwork
	c, cfg := startCluster(t, kfake.ListenFn(vn.Listen))
	topic(t, c, "in", 1, nil)
	cfg.Dialer = vn.DialContext
	if err := Ping(testCtx(t), cfg); err != nil {
		t.Error(err)
	}
	if info, err := newAdmin(t, cfg).Topics(testCtx(t), "in"); err != nil || !info["in"].Exists {
		t.Errorf("%v, %v", info, err)
	}
}
