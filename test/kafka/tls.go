package kafkatest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// TLSFiles are the PEM files of a certificate authority of a test's own and what it has signed. Those of a cluster are
// removed with the cluster.
type TLSFiles struct {
	// CA is the authority's certificate: what a client must trust.
	CA string
	// ClientCert and ClientKey are a certificate and key for a listener that demands one of the client.
	ClientCert, ClientKey string
	// ClientKeystore is both in one file, as Kafka's ssl.keystore.location with ssl.keystore.type=PEM wants it.
	ClientKeystore string
	// ServerKeystore is the brokers' key and certificate.
	ServerKeystore string
	// ExpiredCert and ExpiredKey are a certificate that has run out, for a client or a server.
	ExpiredCert, ExpiredKey string
}

// certLifetime is how long a test's certificates are valid, to both sides of now.
const certLifetime = 24 * time.Hour

// WriteTLS makes an authority, a certificate for 127.0.0.1 and localhost, and one for a client named millrace-test.
func WriteTLS(dir string) (*TLSFiles, error) {
	f := &TLSFiles{
		CA:             filepath.Join(dir, "ca.pem"),
		ClientCert:     filepath.Join(dir, "client-cert.pem"),
		ClientKey:      filepath.Join(dir, "client-key.pem"),
		ClientKeystore: filepath.Join(dir, "client.pem"),
		ServerKeystore: filepath.Join(dir, "server.pem"),
		ExpiredCert:    filepath.Join(dir, "expired-cert.pem"),
		ExpiredKey:     filepath.Join(dir, "expired-key.pem"),
	}
	ca, err := newAuthority()
	if err != nil {
		return nil, err
	}
	serverCert, serverKey, err := ca.sign("127.0.0.1", certLifetime, x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth)
	if err != nil {
		return nil, err
	}
	clientCert, clientKey, err := ca.sign("millrace-test", certLifetime, x509.ExtKeyUsageClientAuth)
	if err != nil {
		return nil, err
	}
	expiredCert, expiredKey, err := ca.sign("millrace-test", -time.Hour, x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth)
	if err != nil {
		return nil, err
	}
	for path, blocks := range map[string][]byte{
		f.CA:             ca.pem,
		f.ClientCert:     clientCert,
		f.ClientKey:      clientKey,
		f.ClientKeystore: append(append([]byte(nil), clientKey...), clientCert...),
		f.ServerKeystore: append(append([]byte(nil), serverKey...), serverCert...),
		f.ExpiredCert:    expiredCert,
		f.ExpiredKey:     expiredKey,
	} {
		if err := os.WriteFile(path, blocks, 0o600); err != nil {
			return nil, fmt.Errorf("kafkatest: certificates: %w", err)
		}
	}
	return f, nil
}

// Config is a client's configuration that trusts the cluster's authority and carries the client certificate.
func (f *TLSFiles) Config() (*tls.Config, error) {
	pool, err := f.authority()
	if err != nil {
		return nil, err
	}
	cert, err := tls.LoadX509KeyPair(f.ClientCert, f.ClientKey)
	if err != nil {
		return nil, fmt.Errorf("kafkatest: certificates: %w", err)
	}
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}, nil
}

// ServerConfig is the configuration of a broker with the server certificate. If clientCert is true it demands a certificate
// of its clients too.
func (f *TLSFiles) ServerConfig(clientCert bool) (*tls.Config, error) {
	pool, err := f.authority()
	if err != nil {
		return nil, err
	}
	cert, err := tls.LoadX509KeyPair(f.ServerKeystore, f.ServerKeystore)
	if err != nil {
		return nil, fmt.Errorf("kafkatest: certificates: %w", err)
	}
	c := &tls.Config{ClientCAs: pool, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	if clientCert {
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return c, nil
}

func (f *TLSFiles) authority() (*x509.CertPool, error) {
	ca, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, fmt.Errorf("kafkatest: certificates: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("kafkatest: no certificate in %s", f.CA)
	}
	return pool, nil
}

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("kafkatest: certificates: %w", err)
	}
	template, err := certTemplate("millrace test authority", certLifetime)
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("kafkatest: certificates: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("kafkatest: certificates: %w", err)
	}
	return &authority{cert: cert, key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// sign makes a key and a certificate for a name, as PEM, valid for so long from now; the key is in PKCS#8, the only form that
// Kafka reads.
func (a *authority) sign(name string, lifetime time.Duration, usage ...x509.ExtKeyUsage) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("kafkatest: certificates: %w", err)
	}
	template, err := certTemplate(name, lifetime)
	if err != nil {
		return nil, nil, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = usage
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	template.DNSNames = []string{"localhost"}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("kafkatest: certificates: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("kafkatest: certificates: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), nil
}

func certTemplate(name string, lifetime time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("kafkatest: certificates: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-certLifetime),
		NotAfter:     now.Add(lifetime),
	}, nil
}

// UnsecuredToken is a bearer token that a listener with OAuthBearer accepts for the given principal until the lifetime has
// run out: a JSON web token without a signature.
func UnsecuredToken(principal string, lifetime time.Duration) (string, error) {
	now := time.Now()
	claims, err := json.Marshal(map[string]any{
		"sub": principal,
		"iat": now.Unix(),
		"exp": now.Add(lifetime).Unix(),
	})
	if err != nil {
		return "", fmt.Errorf("kafkatest: token of %q: %w", principal, err)
	}
	enc := base64.RawURLEncoding
	return enc.EncodeToString([]byte(`{"alg":"none"}`)) + "." + enc.EncodeToString(claims) + ".", nil
}
