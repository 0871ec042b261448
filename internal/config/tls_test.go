package config

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// authority is a certificate authority of a test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	a.cert, a.key = a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	return a
}

func (a *authority) sign(c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	out, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return out, key
}

// leaf returns a certificate for a host, with its key, as PEM.
func (a *authority) leaf(host string) (certPEM, keyPEM string) {
	c, k := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	return pemOf("CERTIFICATE", c.Raw), pemOf("PRIVATE KEY", der)
}

func (a *authority) pem() string { return pemOf("CERTIFICATE", a.cert.Raw) }

func pemOf(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file.pem")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// handshake connects a client of that configuration to a broker that demands a certificate of the authority.
func handshake(t *testing.T, ca *authority, client *tls.Config, host string) error {
	t.Helper()
	certPEM, keyPEM := ca.leaf(host)
	cert, err := tls.X509KeyPair([]byte(certPEM), []byte(keyPEM))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	server := tls.Server(there, &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool})
	done := make(chan error, 1)
	go func() {
		err := server.Handshake()
		if err == nil {
			_, err = server.Write([]byte("ok"))
		}
		there.Close()
		done <- err
	}()
	cfg := client.Clone()
	cfg.ServerName = "broker.test"
	conn := tls.Client(here, cfg)
	if err = conn.Handshake(); err == nil {
		_, err = conn.Read(make([]byte, 2)) // in TLS 1.3 the server refuses a client after its handshake
	}
	here.Close()
	return errors.Join(err, <-done)
}

func TestTLS_handshake(t *testing.T) {
	ca := newAuthority(t)
	certPEM, keyPEM := ca.leaf("client")
	inline := map[string]string{
		"ssl.truststore.certificates":    ca.pem(),
		"ssl.keystore.key":               keyPEM,
		"ssl.keystore.certificate.chain": certPEM,
	}
	with := func(base map[string]string, more ...string) map[string]string {
		out := map[string]string{"security.protocol": "ssl"}
		for k, v := range base {
			out[k] = v
		}
		for i := 0; i < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		return out
	}
	for _, tc := range []struct {
		name  string
		props map[string]string
		host  string
		want  string // part of the error; empty: it connects
	}{
		{"certificates inline", with(inline), "broker.test", ""},
		{"certificates in files", with(map[string]string{
			"ssl.truststore.location": writeFile(t, ca.pem()), "ssl.truststore.type": "PEM",
			"ssl.keystore.location": writeFile(t, keyPEM+certPEM), "ssl.keystore.type": "PEM",
		}), "broker.test", ""},
		{"another host", with(inline), "other.test", "other.test"},
		{"another host, not checked", with(inline, "ssl.endpoint.identification.algorithm", ""), "other.test", ""},
		{"an unknown authority", with(inline, "ssl.truststore.certificates", newAuthority(t).pem()), "broker.test", "unknown authority"},
		{"an unknown authority, host not checked", with(inline, "ssl.truststore.certificates", newAuthority(t).pem(),
			"ssl.endpoint.identification.algorithm", ""), "broker.test", "unknown authority"},
		{"no certificate of its own", with(nil, "ssl.truststore.certificates", ca.pem()), "broker.test", "certificate"},
		{"TLS 1.2 alone", with(inline, "ssl.enabled.protocols", "TLSv1.2", "ssl.cipher.suites", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"), "broker.test", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg, _ := apply(t, tc.props)
			built, err := cfg.Producer.Security.TLS.Build()
			if err != nil {
				t.Fatal(err)
			}
			err = handshake(t, ca, built, tc.host)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestTLS_buildErrors(t *testing.T) {
	ca := newAuthority(t)
	certPEM, keyPEM := ca.leaf("client")
	otherPEM, _ := ca.leaf("other")
	missing := filepath.Join(t.TempDir(), "missing.pem")
	for _, tc := range []struct {
		name string
		tls  TLS
		want []string
	}{
		{"both files are missing", TLS{TruststoreLocation: missing, KeystoreLocation: missing},
			[]string{"ssl.truststore.location", "ssl.keystore.location", missing, "cannot be read: no such file"}},
		{"a key store without a key", TLS{KeystoreLocation: writeFile(t, certPEM)}, []string{"ssl.keystore.location", "no private key"}},
		{"a key without its certificate", TLS{KeystoreLocation: writeFile(t, keyPEM)}, []string{"without its certificate"}},
		{"a key with another's certificate", TLS{KeystoreLocation: writeFile(t, keyPEM+otherPEM)}, []string{"another private key"}},
		{"the wrong password", TLS{KeystoreLocation: "keystore/testdata/keytool.p12", KeystorePassword: "no"},
			[]string{"ssl.keystore.location", "wrong password", "check ssl.keystore.password"}},
		{"a text", TLS{TruststoreCertificates: "no PEM"}, []string{"ssl.truststore.certificates", "no PEM file"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.tls.EnabledProtocols = []string{"TLSv1.3"}
			_, err := tc.tls.Build()
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not contain %q", err, part)
				}
			}
			if strings.Contains(err.Error(), "PRIVATE KEY") {
				t.Errorf("the error shows the key: %v", err)
			}
		})
	}
}

func TestTLS_buildKeepsBase(t *testing.T) {
	base := &tls.Config{ServerName: "x", MinVersion: tls.VersionTLS13, NextProtos: []string{"y"}}
	got, err := (&TLS{Base: base, VerifyHostname: true, EnabledProtocols: []string{"TLSv1.2", "TLSv1.3"}}).Build()
	if err != nil {
		t.Fatal(err)
	}
	if got == base || got.ServerName != "x" || got.MinVersion != tls.VersionTLS13 || got.MaxVersion != tls.VersionTLS13 || got.InsecureSkipVerify {
		t.Errorf("%+v", got)
	}
	keystores := &TLS{
		KeystoreLocation: "keystore/testdata/keytool.jks", KeystoreType: "JKS", KeystorePassword: "changeit", KeyPassword: "changeit-key",
		TruststoreLocation: "keystore/testdata/trust.p12", TruststoreType: "PKCS12", TruststorePassword: "changeit",
		EnabledProtocols: []string{"TLSv1.2"},
	}
	if got, err = keystores.Build(); err != nil {
		t.Fatal(err)
	}
	if len(got.Certificates) != 1 || len(got.Certificates[0].Certificate) != 2 || got.RootCAs == nil || got.MaxVersion != tls.VersionTLS12 {
		t.Errorf("Java's stores gave %d certificates, roots %v", len(got.Certificates), got.RootCAs != nil)
	}
	if !bytes.Equal(got.Certificates[0].Certificate[0], got.Certificates[0].Leaf.Raw) {
		t.Error("the leaf is not the first certificate")
	}
}
