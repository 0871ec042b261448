// Package keystore reads certificates and private keys from the files that Kafka clients are given: PEM, PKCS#12 and JKS.
//
// It decrypts what Java's keytool and OpenSSL write today (PBES2 with AES or triple DES) and the older password
// encryption with triple DES. The RC2 encryption of very old PKCS#12 files is refused with the command that converts
// them.
package keystore

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// ErrPassword says that a password is missing or wrong.
var ErrPassword = errors.New("wrong password, or a damaged file")

// Store is the content of one key or trust store.
type Store struct {
	// Trusted are the certificates that stand in the store without a private key.
	Trusted []*x509.Certificate
	// Keys are the private keys with their certificates, in the order of the store.
	Keys []KeyEntry
}

// KeyEntry is a private key with its certificate chain, the key's own certificate first.
type KeyEntry struct {
	Alias string
	Key   crypto.Signer
	Chain []*x509.Certificate
}

// Certificate returns the entry in the form that crypto/tls takes.
func (e KeyEntry) Certificate() tls.Certificate {
	c := tls.Certificate{PrivateKey: e.Key}
	for _, x := range e.Chain {
		c.Certificate = append(c.Certificate, x.Raw)
	}
	if len(e.Chain) > 0 {
		c.Leaf = e.Chain[0]
	}
	return c
}

// Pool returns the store's trusted certificates. A store that holds only key entries trusts nothing, as in Java.
func (s *Store) Pool() (*x509.CertPool, error) {
	if len(s.Trusted) == 0 {
		return nil, errors.New("it holds no trusted certificate")
	}
	pool := x509.NewCertPool()
	for _, c := range s.Trusted {
		pool.AddCert(c)
	}
	return pool, nil
}

// Read reads a store of a kind (the value of ssl.truststore.type or ssl.keystore.type: PEM, PKCS12, JKS, in any case).
// An empty kind, and JKS, which is Java's default and often not true, are decided by the content. keyPassword decrypts
// private keys where it differs from the store's password; PEM keys take keyPassword alone.
func Read(data []byte, kind, storePassword, keyPassword string) (*Store, error) {
	found := sniff(data)
	switch k := strings.ToUpper(kind); {
	case k == "" || k == "JKS":
		if found == "" {
			return nil, errors.New("it is neither PEM nor PKCS12 nor JKS")
		}
	case k == "PEM" || k == "PKCS12":
		if found != k {
			if found == "" {
				return nil, fmt.Errorf("it is no %s file", k)
			}
			return nil, fmt.Errorf("it is no %s file but looks like %s", k, found)
		}
	default:
		return nil, fmt.Errorf("type %q is not supported: PEM, PKCS12 and JKS are", kind)
	}
	if keyPassword == "" {
		keyPassword = storePassword
	}
	switch found {
	case "PEM":
		return readPEM(data, keyPassword)
	case "JKS":
		return readJKS(data, storePassword, keyPassword)
	default:
		return readPKCS12(data, storePassword)
	}
}

func sniff(data []byte) string {
	switch {
	case len(data) >= 4 && bytes.Equal(data[:4], []byte{0xfe, 0xed, 0xfe, 0xed}):
		return "JKS"
	case bytes.Contains(data, []byte("-----BEGIN ")):
		return "PEM"
	case len(data) > 2 && data[0] == 0x30: // an ASN.1 sequence
		return "PKCS12"
	}
	return ""
}

// readPEM reads certificates and at most one private key. Certificates are the key's chain if there is a key, and trusted
// ones otherwise.
func readPEM(data []byte, password string) (*Store, error) {
	var certs []*x509.Certificate
	var key crypto.Signer
	for rest := data; ; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			break
		}
		switch {
		case b.Type == "CERTIFICATE" || b.Type == "TRUSTED CERTIFICATE":
			c, err := x509.ParseCertificate(b.Bytes)
			if err != nil {
				return nil, fmt.Errorf("certificate %d: %w", len(certs)+1, err)
			}
			certs = append(certs, c)
		case strings.HasSuffix(b.Type, "PRIVATE KEY"):
			if key != nil {
				return nil, errors.New("it holds more than one private key")
			}
			k, err := parsePEMKey(b, password)
			if err != nil {
				return nil, err
			}
			key = k
		}
	}
	if key == nil {
		if len(certs) == 0 {
			return nil, errors.New("it holds neither a certificate nor a private key")
		}
		return &Store{Trusted: certs}, nil
	}
	return &Store{Keys: []KeyEntry{{Key: key, Chain: certs}}}, nil
}

func parsePEMKey(b *pem.Block, password string) (crypto.Signer, error) {
	switch b.Type {
	case "ENCRYPTED PRIVATE KEY":
		if password == "" {
			return nil, errors.New("the private key is encrypted and ssl.key.password is not set")
		}
		der, err := decryptPKCS8(b.Bytes, password)
		if err != nil {
			return nil, fmt.Errorf("private key: %w", err)
		}
		return parsePKCS8(der)
	case "PRIVATE KEY":
		return parsePKCS8(b.Bytes)
	}
	if b.Headers["DEK-Info"] != "" {
		return nil, errors.New("the private key has the old OpenSSL encryption, which is not safe and not supported; " +
			"convert it with: openssl pkcs8 -topk8 -in KEY -out NEWKEY")
	}
	switch b.Type {
	case "RSA PRIVATE KEY":
		return x509.ParsePKCS1PrivateKey(b.Bytes)
	case "EC PRIVATE KEY":
		return x509.ParseECPrivateKey(b.Bytes)
	}
	return nil, fmt.Errorf("private key of type %q is not supported; convert it with: openssl pkcs8 -topk8 -in KEY -out NEWKEY", b.Type)
}

func parsePKCS8(der []byte) (crypto.Signer, error) {
	k, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("private key: %w", err)
	}
	switch k := k.(type) {
	case *rsa.PrivateKey:
		return k, nil
	case *ecdsa.PrivateKey:
		return k, nil
	case ed25519.PrivateKey:
		return k, nil
	}
	return nil, fmt.Errorf("a private key of type %T cannot be used for TLS", k)
}
