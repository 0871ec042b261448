package keystore

import (
	"crypto/sha1"
	"crypto/subtle"
	"crypto/x509"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf16"
)

// readJKS reads Java's own format: a magic number, a version, entries, and a SHA-1 digest keyed with the password.
// Without a store password the digest is not checked and only certificates can be read, as in Java.
func readJKS(data []byte, password, keyPassword string) (*Store, error) {
	const digestBytes = sha1.Size
	if len(data) < 12+digestBytes {
		return nil, errors.New("the JKS file is cut short")
	}
	body, digest := data[:len(data)-digestBytes], data[len(data)-digestBytes:]
	if password != "" {
		h := sha1.New()
		h.Write(utf16BE(password))
		h.Write([]byte("Mighty Aphrodite"))
		h.Write(body)
		if subtle.ConstantTimeCompare(h.Sum(nil), digest) != 1 {
			return nil, ErrPassword
		}
	}
	r := &jksReader{rest: body[4:]}
	version, n := r.uint32(), r.uint32()
	if version != 1 && version != 2 {
		return nil, fmt.Errorf("JKS version %d is not supported", version)
	}
	s := &Store{}
	for i := uint32(0); i < n && r.err == nil; i++ {
		tag := r.uint32()
		alias := string(r.bytes(int(r.uint16())))
		r.bytes(8) // creation date
		switch tag {
		case 1:
			sealed := r.bytes(int(r.uint32()))
			var chain []*x509.Certificate
			for c := r.uint32(); c > 0 && r.err == nil; c-- {
				chain = append(chain, r.certificate(version))
			}
			if r.err != nil {
				break
			}
			if keyPassword == "" {
				return nil, fmt.Errorf("key %q is encrypted and no password is set", alias)
			}
			der, err := openJKSKey(sealed, keyPassword)
			if err != nil {
				return nil, fmt.Errorf("key %q: %w", alias, err)
			}
			key, err := parsePKCS8(der)
			if err != nil {
				return nil, fmt.Errorf("key %q: %w", alias, err)
			}
			s.Keys = append(s.Keys, KeyEntry{Alias: alias, Key: key, Chain: chain})
		case 2:
			if c := r.certificate(version); r.err == nil {
				s.Trusted = append(s.Trusted, c)
			}
		default:
			return nil, fmt.Errorf("entry %d of the JKS file has the unknown kind %d", i+1, tag)
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	return s, nil
}

type jksReader struct {
	rest []byte
	err  error
}

func (r *jksReader) bytes(n int) []byte {
	if r.err != nil {
		return nil
	}
	if n < 0 || n > len(r.rest) {
		r.err = errors.New("the JKS file is cut short")
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *jksReader) uint32() uint32 {
	if b := r.bytes(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *jksReader) uint16() uint16 {
	if b := r.bytes(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *jksReader) certificate(version uint32) *x509.Certificate {
	if version == 2 {
		if kind := string(r.bytes(int(r.uint16()))); r.err == nil && kind != "X.509" {
			r.err = fmt.Errorf("a certificate of kind %q is not supported", kind)
		}
	}
	der := r.bytes(int(r.uint32()))
	if r.err != nil {
		return nil
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		r.err = fmt.Errorf("certificate: %w", err)
	}
	return c
}

// openJKSKey undoes Sun's key protection: the key is combined with a chain of SHA-1 digests over password and salt, and a
// last digest proves the password.
func openJKSKey(sealed []byte, password string) ([]byte, error) {
	var info encryptedPrivateKeyInfo
	if rest, err := asn1.Unmarshal(sealed, &info); err != nil || len(rest) > 0 {
		return nil, errors.New("the protected key is damaged")
	}
	if !info.Algorithm.Algorithm.Equal(oidSunKeyProtector) {
		return nil, fmt.Errorf("key protection %v is not supported", info.Algorithm.Algorithm)
	}
	const size = sha1.Size
	p := info.EncryptedData
	if len(p) < 2*size {
		return nil, errors.New("the protected key is damaged")
	}
	salt, body, check := p[:size], p[size:len(p)-size], p[len(p)-size:]
	pass := utf16BE(password)
	key := make([]byte, 0, len(body))
	digest := salt
	for len(key) < len(body) {
		h := sha1.New()
		h.Write(pass)
		h.Write(digest)
		digest = h.Sum(nil)
		for i := 0; i < size && len(key) < len(body); i++ {
			key = append(key, body[len(key)]^digest[i])
		}
	}
	h := sha1.New()
	h.Write(pass)
	h.Write(key)
	if subtle.ConstantTimeCompare(h.Sum(nil), check) != 1 {
		return nil, ErrPassword
	}
	return key, nil
}

func utf16BE(s string) []byte {
	units := utf16.Encode([]rune(s))
	out := make([]byte, 0, 2*len(units)+2)
	for _, u := range units {
		out = binary.BigEndian.AppendUint16(out, u)
	}
	return out
}
