package keystore

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"hash"
	"unicode/utf16"
)

var (
	oidData          = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 1}
	oidEncryptedData = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 6}
	oidKeyBag        = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 12, 10, 1, 1}
	oidShroudedKey   = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 12, 10, 1, 2}
	oidCertBag       = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 12, 10, 1, 3}
	oidX509Cert      = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 22, 1}
	oidFriendlyName  = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 20}
	oidLocalKeyID    = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 21}
)

type contentInfo struct {
	ContentType asn1.ObjectIdentifier
	Content     asn1.RawValue `asn1:"tag:0,explicit,optional"`
}

type safeBag struct {
	ID         asn1.ObjectIdentifier
	Value      asn1.RawValue `asn1:"tag:0,explicit"`
	Attributes []bagAttr     `asn1:"set,optional"`
}

type bagAttr struct {
	ID    asn1.ObjectIdentifier
	Value asn1.RawValue `asn1:"set"`
}

func (b safeBag) attr(id asn1.ObjectIdentifier) []byte {
	for _, a := range b.Attributes {
		if a.ID.Equal(id) {
			var v asn1.RawValue
			if _, err := asn1.Unmarshal(a.Value.Bytes, &v); err == nil {
				return v.Bytes
			}
		}
	}
	return nil
}

// readPKCS12 reads a PKCS#12 file (RFC 7292) of the password integrity mode. The keys have the password of the store, as
// Java demands too.
func readPKCS12(data []byte, password string) (*Store, error) {
	var pfx struct {
		Version  int
		AuthSafe contentInfo
		MAC      struct {
			Digest struct {
				Algorithm pkix.AlgorithmIdentifier
				Digest    []byte
			}
			Salt       []byte
			Iterations int `asn1:"optional,default:1"`
		} `asn1:"optional"`
	}
	if _, err := asn1.Unmarshal(data, &pfx); err != nil {
		return nil, fmt.Errorf("it is no PKCS12 file that can be read (%w)", err)
	}
	if pfx.Version != 3 || !pfx.AuthSafe.ContentType.Equal(oidData) {
		return nil, errors.New("it is no PKCS12 file of version 3 with a password")
	}
	authSafe, err := octets(pfx.AuthSafe.Content.Bytes)
	if err != nil {
		return nil, err
	}
	if m := pfx.MAC; len(m.Digest.Digest) > 0 {
		if m.Digest.Algorithm.Algorithm.Equal(oidPBMAC1) {
			return nil, errors.New("its integrity check is PBMAC1, which is not supported")
		}
		newHash, err := digestOf(m.Digest.Algorithm.Algorithm)
		if err != nil {
			return nil, err
		}
		if m.Iterations < 1 || m.Iterations > maxIterations || len(m.Salt) == 0 {
			return nil, errors.New("the integrity check is damaged")
		}
		key := pkcs12KDF(newHash, bmpPassword(password), m.Salt, m.Iterations, 3, newHash().Size())
		h := hmac.New(newHash, key)
		h.Write(authSafe)
		if !hmac.Equal(h.Sum(nil), m.Digest.Digest) {
			return nil, ErrPassword
		}
	}
	var parts []contentInfo
	if _, err := asn1.Unmarshal(authSafe, &parts); err != nil {
		return nil, fmt.Errorf("the PKCS12 content is damaged (%w)", err)
	}
	var bags []safeBag
	for _, part := range parts {
		found, err := readBags(part, password)
		if err != nil {
			return nil, err
		}
		bags = append(bags, found...)
	}
	return storeOf(bags, password)
}

func readBags(part contentInfo, password string) ([]safeBag, error) {
	var content []byte
	switch {
	case part.ContentType.Equal(oidData):
		var err error
		if content, err = octets(part.Content.Bytes); err != nil {
			return nil, err
		}
	case part.ContentType.Equal(oidEncryptedData):
		var enc struct {
			Version int
			Info    struct {
				ContentType asn1.ObjectIdentifier
				Algorithm   pkix.AlgorithmIdentifier
				Content     []byte `asn1:"tag:0,optional"`
			}
		}
		if _, err := asn1.Unmarshal(part.Content.Bytes, &enc); err != nil {
			return nil, fmt.Errorf("the encrypted PKCS12 content is damaged (%w)", err)
		}
		var err error
		if content, err = decrypt(enc.Info.Algorithm, enc.Info.Content, password); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("PKCS12 content of kind %v is not supported", part.ContentType)
	}
	var bags []safeBag
	if _, err := asn1.Unmarshal(content, &bags); err != nil {
		return nil, fmt.Errorf("the PKCS12 content is damaged (%w)", err)
	}
	return bags, nil
}

// storeOf sorts bags into keys with their chains and trusted certificates. A certificate belongs to a key if their local
// key ids agree; issuers follow by name.
func storeOf(bags []safeBag, password string) (*Store, error) {
	type certBag struct {
		cert *x509.Certificate
		id   []byte
		used bool
	}
	var certs []*certBag
	for _, b := range bags {
		if !b.ID.Equal(oidCertBag) {
			continue
		}
		var cb struct {
			ID   asn1.ObjectIdentifier
			Data []byte `asn1:"tag:0,explicit"`
		}
		if _, err := asn1.Unmarshal(b.Value.Bytes, &cb); err != nil {
			return nil, fmt.Errorf("a certificate entry is damaged (%w)", err)
		}
		if !cb.ID.Equal(oidX509Cert) {
			continue
		}
		c, err := x509.ParseCertificate(cb.Data)
		if err != nil {
			return nil, fmt.Errorf("certificate: %w", err)
		}
		certs = append(certs, &certBag{cert: c, id: b.attr(oidLocalKeyID)})
	}
	s := &Store{}
	for _, b := range bags {
		der := b.Value.Bytes
		switch {
		case b.ID.Equal(oidShroudedKey):
			var err error
			if der, err = decryptPKCS8(der, password); err != nil {
				return nil, fmt.Errorf("private key: %w", err)
			}
		case b.ID.Equal(oidKeyBag):
		default:
			continue
		}
		key, err := parsePKCS8(der)
		if err != nil {
			return nil, err
		}
		entry := KeyEntry{Alias: bmpText(b.attr(oidFriendlyName)), Key: key}
		id := b.attr(oidLocalKeyID)
		for _, c := range certs {
			if id != nil && bytes.Equal(c.id, id) {
				c.used = true
				entry.Chain = append(entry.Chain, c.cert)
			}
		}
		for len(entry.Chain) > 0 {
			last := entry.Chain[len(entry.Chain)-1]
			if bytes.Equal(last.RawIssuer, last.RawSubject) {
				break
			}
			n := len(entry.Chain)
			for _, c := range certs {
				if !c.used && bytes.Equal(c.cert.RawSubject, last.RawIssuer) {
					c.used = true
					entry.Chain = append(entry.Chain, c.cert)
					break
				}
			}
			if len(entry.Chain) == n {
				break
			}
		}
		s.Keys = append(s.Keys, entry)
	}
	for _, c := range certs {
		if !c.used {
			s.Trusted = append(s.Trusted, c.cert)
		}
	}
	return s, nil
}

func octets(der []byte) ([]byte, error) {
	var b []byte
	if _, err := asn1.Unmarshal(der, &b); err != nil {
		return nil, fmt.Errorf("the PKCS12 content is damaged (%w)", err)
	}
	return b, nil
}

func digestOf(id asn1.ObjectIdentifier) (func() hash.Hash, error) {
	switch {
	case id.Equal(oidDigestSHA1):
		return sha1.New, nil
	case id.Equal(oidDigestSHA2):
		return sha256.New, nil
	case id.Equal(oidDigestSHA38):
		return sha512.New384, nil
	case id.Equal(oidDigestSHA51):
		return sha512.New, nil
	}
	return nil, fmt.Errorf("its integrity check uses %v, which is not supported", id)
}

func bmpText(b []byte) string {
	units := make([]uint16, len(b)/2)
	for i := range units {
		units[i] = uint16(b[2*i])<<8 | uint16(b[2*i+1])
	}
	return string(utf16.Decode(units))
}
