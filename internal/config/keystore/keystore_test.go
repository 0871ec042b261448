package keystore

import (
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const password = "changeit"

func read(t *testing.T, name, kind, storePassword, keyPassword string) (*Store, error) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return Read(data, kind, storePassword, keyPassword)
}

func TestRead_keyStores(t *testing.T) {
	plain, err := read(t, "client.pem", "PEM", "", "")
	if err != nil {
		t.Fatal(err)
	}
	want := plain.Keys[0].Key.(*ecdsa.PrivateKey)
	for _, tc := range []struct{ file, kind, store, key string }{
		{"client.pem", "", "", ""},
		{"client-encrypted.pem", "pem", "", password},
		{"client-encrypted-des3.pem", "PEM", "", password},
		{"openssl.p12", "PKCS12", password, ""},
		{"openssl-3des.p12", "PKCS12", password, ""},
		{"keytool.p12", "pkcs12", password, ""},
		{"keytool.p12", "JKS", password, ""}, // Java's default type, and what keytool really writes
		{"keytool.jks", "JKS", password, "changeit-key"},
		{"keytool.jks", "", password, "changeit-key"},
	} {
		t.Run(tc.file+" as "+tc.kind, func(t *testing.T) {
			s, err := read(t, tc.file, tc.kind, tc.store, tc.key)
			if err != nil {
				t.Fatal(err)
			}
			if len(s.Keys) != 1 {
				t.Fatalf("%d keys, want 1", len(s.Keys))
			}
			e := s.Keys[0]
			if !want.Equal(e.Key) {
				t.Error("another private key")
			}
			if len(e.Chain) != 2 || e.Chain[0].Subject.CommonName != "client" || e.Chain[1].Subject.CommonName != "Example CA" {
				t.Errorf("chain of %d certificates, want client and Example CA", len(e.Chain))
			}
			if c := e.Certificate(); len(c.Certificate) != 2 || c.Leaf == nil || c.PrivateKey == nil {
				t.Error("the TLS certificate is not complete")
			}
		})
	}
}

func TestRead_trustStores(t *testing.T) {
	client, err := read(t, "client.pem", "PEM", "", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ file, kind, password string }{
		{"ca.pem", "PEM", ""},
		{"trust.p12", "PKCS12", password},
		{"trust.jks", "JKS", password},
		{"trust.jks", "JKS", ""}, // certificates are readable without the password, as in Java
	} {
		t.Run(tc.file, func(t *testing.T) {
			s, err := read(t, tc.file, tc.kind, tc.password, "")
			if err != nil {
				t.Fatal(err)
			}
			pool, err := s.Pool()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := client.Keys[0].Chain[0].Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
				t.Errorf("the client's certificate is not trusted: %v", err)
			}
		})
	}
	if _, err := client.Pool(); err == nil {
		t.Error("a store with keys only gave a pool of trusted certificates")
	}
}

func TestRead_refuses(t *testing.T) {
	for _, tc := range []struct {
		name, file, kind, store, key string
		want                         string
		password                     bool
	}{
		{name: "PKCS12 with the wrong password", file: "keytool.p12", kind: "PKCS12", store: "no", password: true},
		{name: "JKS with the wrong password", file: "keytool.jks", kind: "JKS", store: "no", password: true},
		{name: "JKS with the wrong key password", file: "keytool.jks", kind: "JKS", store: password, key: "no", password: true},
		{name: "PEM with the wrong password", file: "client-encrypted.pem", kind: "PEM", key: "no", password: true},
		{name: "PEM without its password", file: "client-encrypted.pem", kind: "PEM", want: "ssl.key.password is not set"},
		{name: "the old OpenSSL encryption", file: "client-traditional.pem", kind: "PEM", key: password, want: "openssl pkcs8 -topk8"},
		{name: "RC2", file: "openssl-rc2.p12", kind: "PKCS12", store: password, want: "RC2"},
		{name: "another kind than said", file: "ca.pem", kind: "PKCS12", want: "looks like PEM"},
		{name: "an unknown kind", file: "ca.pem", kind: "BCFKS", want: `"BCFKS" is not supported`},
		{name: "no store at all", file: "README.md", kind: "JKS", want: "neither PEM nor PKCS12 nor JKS"},
		{name: "a text as PEM", file: "README.md", kind: "PEM", want: "no PEM file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := read(t, tc.file, tc.kind, tc.store, tc.key)
			if err == nil {
				t.Fatal("no error")
			}
			if tc.password != errors.Is(err, ErrPassword) {
				t.Errorf("ErrPassword: %v, want %v: %v", !tc.password, tc.password, err)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %q does not contain %q", err, tc.want)
			}
		})
	}
}

// FuzzRead checks that no content, however damaged, does anything but give an error.
func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("testdata/*.*")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		for _, at := range []int{len(data) / 3, len(data) / 2} {
			broken := append([]byte(nil), data...)
			broken[at] ^= 0x41
			f.Add(broken)
			f.Add(data[:at])
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Read(data, "", password, "")
		if (s == nil) == (err == nil) {
			t.Fatalf("store %v, error %v", s, err)
		}
	})
}
