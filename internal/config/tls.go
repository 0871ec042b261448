package config

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/internal/config/keystore"
)

// TLS holds certificates and rules of encrypted connections, under the names that Kafka's clients have for them.
type TLS struct {
	// Base is a configuration made in Go; what the fields below say is put over a copy of it. nil begins with the
	// standard library's defaults.
	Base *tls.Config

	// TruststoreLocation is a file of the certificates that sign the brokers'; without it and TruststoreCertificates
	// those of the operating system are used. Property: ssl.truststore.location.
	TruststoreLocation string
	// TruststoreType is PEM, PKCS12 or JKS; empty looks at the content. Property: ssl.truststore.type.
	TruststoreType string
	// TruststorePassword checks a PKCS12 or JKS file. Property: ssl.truststore.password.
	TruststorePassword Secret
	// TruststoreCertificates are the certificates themselves, as PEM. Property: ssl.truststore.certificates.
	TruststoreCertificates string

	// KeystoreLocation is a file of the client's private key and certificate. Property: ssl.keystore.location.
	KeystoreLocation string
	// KeystoreType is PEM, PKCS12 or JKS; empty looks at the content. Property: ssl.keystore.type.
	KeystoreType string
	// KeystorePassword opens a PKCS12 or JKS file. Property: ssl.keystore.password.
	KeystorePassword Secret
	// KeyPassword decrypts the private key. Property: ssl.key.password.
	KeyPassword Secret
	// KeystoreKey is the client's private key itself, as PKCS#8 PEM. Property: ssl.keystore.key.
	KeystoreKey Secret
	// KeystoreCertificates is the certificate chain of KeystoreKey, as PEM. Property: ssl.keystore.certificate.chain.
	KeystoreCertificates string

	// VerifyHostname checks that the broker's certificate is made out to its host name. Property:
	// ssl.endpoint.identification.algorithm, "https" or empty.
	VerifyHostname bool
	// EnabledProtocols are the TLS versions allowed: TLSv1.2, TLSv1.3. Property: ssl.enabled.protocols.
	EnabledProtocols []string
	// CipherSuites are the suites allowed under TLS 1.2, by their standard names; empty is a good choice. Property:
	// ssl.cipher.suites.
	CipherSuites []string
}

func defaultTLS() TLS {
	return TLS{VerifyHostname: true, EnabledProtocols: []string{"TLSv1.2", "TLSv1.3"}}
}

func (t TLS) clone() TLS {
	if t.Base != nil {
		t.Base = t.Base.Clone()
	}
	t.EnabledProtocols = slices.Clone(t.EnabledProtocols)
	t.CipherSuites = slices.Clone(t.CipherSuites)
	return t
}

func tlsVersion(name string) (uint16, bool) {
	switch name {
	case "TLSv1.2":
		return tls.VersionTLS12, true
	case "TLSv1.3":
		return tls.VersionTLS13, true
	}
	return 0, false
}

func cipherSuite(name string) (uint16, bool) {
	for _, s := range tls.CipherSuites() {
		if s.Name == name {
			return s.ID, true
		}
	}
	return 0, false
}

func (t *TLS) validate(prefix string, report func(name, value, reason, hint string)) {
	for _, p := range t.EnabledProtocols {
		if _, ok := tlsVersion(p); !ok {
			report(prefix+"ssl.enabled.protocols", strings.Join(t.EnabledProtocols, ","), "must be a list of TLSv1.2 and TLSv1.3", "")
			break
		}
	}
	if len(t.EnabledProtocols) == 0 {
		report(prefix+"ssl.enabled.protocols", "", "must allow at least one of TLSv1.2 and TLSv1.3", "")
	}
	for _, c := range t.CipherSuites {
		if _, ok := cipherSuite(c); !ok {
			report(prefix+"ssl.cipher.suites", strings.Join(t.CipherSuites, ","), fmt.Sprintf("%q is not a safe cipher suite that Go has", c),
				"remove it; the suites of TLS 1.3 cannot be chosen")
		}
	}
	if t.TruststoreLocation != "" && t.TruststoreCertificates != "" {
		report(prefix+"ssl.truststore.certificates", "...", "is set beside ssl.truststore.location", "set one of them")
	}
	if t.KeystoreLocation != "" && t.KeystoreKey != "" {
		report(prefix+"ssl.keystore.key", hidden, "is set beside ssl.keystore.location", "set one of them")
	}
	if (t.KeystoreKey == "") != (t.KeystoreCertificates == "") {
		report(prefix+"ssl.keystore.key", t.KeystoreKey.String(), "must be set together with ssl.keystore.certificate.chain", "")
	}
}

// Build reads the files and returns the configuration for crypto/tls. Errors name the setting and the file.
func (t *TLS) Build() (*tls.Config, error) {
	cfg := &tls.Config{}
	if t.Base != nil {
		cfg = t.Base.Clone()
	}
	var errs []error
	if pool, err := t.roots(); err != nil {
		errs = append(errs, err)
	} else if pool != nil {
		cfg.RootCAs = pool
	}
	if cert, err := t.certificate(); err != nil {
		errs = append(errs, err)
	} else if cert != nil {
		cfg.Certificates = []tls.Certificate{*cert}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	var lowest, highest uint16
	for _, p := range t.EnabledProtocols {
		v, ok := tlsVersion(p)
		if !ok {
			return nil, &SettingError{Name: "ssl.enabled.protocols", Value: p, Reason: "must be TLSv1.2 or TLSv1.3"}
		}
		if lowest == 0 || v < lowest {
			lowest = v
		}
		highest = max(highest, v)
	}
	if cfg.MaxVersion == 0 || highest < cfg.MaxVersion {
		cfg.MaxVersion = highest
	}
	cfg.MinVersion = max(lowest, cfg.MinVersion)
	for _, name := range t.CipherSuites {
		if id, ok := cipherSuite(name); ok {
			cfg.CipherSuites = append(cfg.CipherSuites, id)
		}
	}
	if !t.VerifyHostname && !cfg.InsecureSkipVerify {
		withoutHostname(cfg)
	}
	return cfg, nil
}

// withoutHostname checks the broker's chain but not the name on it, as an empty ssl.endpoint.identification.algorithm
// asks for.
func withoutHostname(cfg *tls.Config) {
	roots := cfg.RootCAs
	inner := cfg.VerifyConnection
	cfg.InsecureSkipVerify = true
	cfg.VerifyConnection = func(cs tls.ConnectionState) error {
		opts := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
		for _, c := range cs.PeerCertificates[1:] {
			opts.Intermediates.AddCert(c)
		}
		if _, err := cs.PeerCertificates[0].Verify(opts); err != nil {
			return err
		}
		if inner != nil {
			return inner(cs)
		}
		return nil
	}
}

func (t *TLS) roots() (*x509.CertPool, error) {
	name, where := "ssl.truststore.certificates", "..."
	data := []byte(t.TruststoreCertificates)
	kind := "PEM"
	switch {
	case t.TruststoreLocation != "":
		name, where, kind = "ssl.truststore.location", t.TruststoreLocation, t.TruststoreType
		var err error
		if data, err = os.ReadFile(t.TruststoreLocation); err != nil {
			return nil, &SettingError{Name: name, Value: where, Reason: "cannot be read: " + reasonOf(err)}
		}
	case len(data) == 0:
		return nil, nil
	}
	store, err := keystore.Read(data, kind, t.TruststorePassword.Reveal(), "")
	if err != nil {
		return nil, &SettingError{Name: name, Value: where, Reason: err.Error(), Hint: passwordHint(err, "ssl.truststore.password")}
	}
	pool, err := store.Pool()
	if err != nil {
		return nil, &SettingError{Name: name, Value: where, Reason: err.Error()}
	}
	return pool, nil
}

func (t *TLS) certificate() (*tls.Certificate, error) {
	name, where := "ssl.keystore.key", hidden
	var data []byte
	kind := "PEM"
	switch {
	case t.KeystoreLocation != "":
		name, where, kind = "ssl.keystore.location", t.KeystoreLocation, t.KeystoreType
		var err error
		if data, err = os.ReadFile(t.KeystoreLocation); err != nil {
			return nil, &SettingError{Name: name, Value: where, Reason: "cannot be read: " + reasonOf(err)}
		}
	case t.KeystoreKey != "":
		data = []byte(t.KeystoreKey.Reveal() + "\n" + t.KeystoreCertificates)
	default:
		return nil, nil
	}
	fail := func(reason, hint string) (*tls.Certificate, error) {
		return nil, &SettingError{Name: name, Value: where, Reason: reason, Hint: hint}
	}
	store, err := keystore.Read(data, kind, t.KeystorePassword.Reveal(), t.KeyPassword.Reveal())
	if err != nil {
		return fail(err.Error(), passwordHint(err, "ssl.keystore.password and ssl.key.password"))
	}
	if len(store.Keys) == 0 {
		return fail("holds no private key", "")
	}
	if len(store.Keys) > 1 {
		return fail(fmt.Sprintf("holds %d private keys", len(store.Keys)), "give the App a file with its own key only")
	}
	e := store.Keys[0]
	if len(e.Chain) == 0 {
		return fail("holds a private key without its certificate", "")
	}
	if k, ok := e.Key.Public().(interface{ Equal(crypto.PublicKey) bool }); ok && !k.Equal(e.Chain[0].PublicKey) {
		return fail("holds a certificate of another private key", "put the key's own certificate first")
	}
	cert := e.Certificate()
	return &cert, nil
}

func passwordHint(err error, settings string) string {
	if errors.Is(err, keystore.ErrPassword) {
		return "check " + settings
	}
	return ""
}

// reasonOf shortens the error of a file operation, which repeats the path, to its cause.
func reasonOf(err error) string {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}
