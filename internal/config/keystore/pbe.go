package keystore

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/des"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"hash"
	"math/big"
)

var (
	oidSunKeyProtector = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 42, 2, 17, 1, 1}

	oidPBES2       = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}
	oidPBKDF2      = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}
	oidPBESHA3DES  = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 12, 1, 3}
	oidPBESHARC2   = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 12, 1, 5}
	oidPBESHARC2L  = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 12, 1, 6}
	oidPBMAC1      = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 14}
	oidHMACSHA1    = asn1.ObjectIdentifier{1, 2, 840, 113549, 2, 7}
	oidHMACSHA224  = asn1.ObjectIdentifier{1, 2, 840, 113549, 2, 8}
	oidHMACSHA256  = asn1.ObjectIdentifier{1, 2, 840, 113549, 2, 9}
	oidHMACSHA384  = asn1.ObjectIdentifier{1, 2, 840, 113549, 2, 10}
	oidHMACSHA512  = asn1.ObjectIdentifier{1, 2, 840, 113549, 2, 11}
	oidAES128CBC   = asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 1, 2}
	oidAES192CBC   = asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 1, 22}
	oidAES256CBC   = asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 1, 42}
	oidDESEDE3CBC  = asn1.ObjectIdentifier{1, 2, 840, 113549, 3, 7}
	oidDigestSHA1  = asn1.ObjectIdentifier{1, 3, 14, 3, 2, 26}
	oidDigestSHA2  = asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 1}
	oidDigestSHA38 = asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 2}
	oidDigestSHA51 = asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 3}
)

// maxIterations bounds the work that a file can ask for.
const maxIterations = 10_000_000

type encryptedPrivateKeyInfo struct {
	Algorithm     pkix.AlgorithmIdentifier
	EncryptedData []byte
}

func decryptPKCS8(der []byte, password string) ([]byte, error) {
	var info encryptedPrivateKeyInfo
	if rest, err := asn1.Unmarshal(der, &info); err != nil || len(rest) > 0 {
		return nil, errors.New("the encrypted key is damaged")
	}
	return decrypt(info.Algorithm, info.EncryptedData, password)
}

// decrypt undoes password-based encryption (PKCS#5 and PKCS#12).
func decrypt(alg pkix.AlgorithmIdentifier, data []byte, password string) ([]byte, error) {
	var block cipher.Block
	var iv []byte
	var err error
	switch {
	case alg.Algorithm.Equal(oidPBES2):
		block, iv, err = pbes2(alg.Parameters.FullBytes, password)
	case alg.Algorithm.Equal(oidPBESHA3DES):
		var p struct {
			Salt       []byte
			Iterations int
		}
		if _, err := asn1.Unmarshal(alg.Parameters.FullBytes, &p); err != nil || p.Iterations < 1 || p.Iterations > maxIterations {
			return nil, errors.New("the encryption parameters are damaged")
		}
		pass := bmpPassword(password)
		iv = pkcs12KDF(sha1.New, pass, p.Salt, p.Iterations, 2, des.BlockSize)
		block, err = des.NewTripleDESCipher(pkcs12KDF(sha1.New, pass, p.Salt, p.Iterations, 1, 24))
	case alg.Algorithm.Equal(oidPBESHARC2), alg.Algorithm.Equal(oidPBESHARC2L):
		return nil, errors.New("it is encrypted with RC2, which is not supported; convert the file with: " +
			"openssl pkcs12 -legacy -in OLD -nodes -out all.pem && openssl pkcs12 -export -in all.pem -out NEW")
	default:
		return nil, fmt.Errorf("the encryption %v is not supported", alg.Algorithm)
	}
	if err != nil {
		return nil, err
	}
	size := block.BlockSize()
	if len(iv) != size || len(data) == 0 || len(data)%size != 0 {
		return nil, errors.New("the encrypted data is damaged")
	}
	out := make([]byte, len(data))
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(out, data)
	pad := int(out[len(out)-1])
	if pad == 0 || pad > size || !bytes.Equal(out[len(out)-pad:], bytes.Repeat([]byte{byte(pad)}, pad)) {
		return nil, ErrPassword
	}
	return out[:len(out)-pad], nil
}

func pbes2(params []byte, password string) (cipher.Block, []byte, error) {
	var p struct {
		KDF    pkix.AlgorithmIdentifier
		Scheme pkix.AlgorithmIdentifier
	}
	var kdf struct {
		Salt       []byte
		Iterations int
		KeyLength  int                      `asn1:"optional"`
		PRF        pkix.AlgorithmIdentifier `asn1:"optional"`
	}
	damaged := errors.New("the encryption parameters are damaged")
	if _, err := asn1.Unmarshal(params, &p); err != nil {
		return nil, nil, damaged
	}
	if !p.KDF.Algorithm.Equal(oidPBKDF2) {
		return nil, nil, fmt.Errorf("the key derivation %v is not supported", p.KDF.Algorithm)
	}
	if _, err := asn1.Unmarshal(p.KDF.Parameters.FullBytes, &kdf); err != nil || kdf.Iterations < 1 || kdf.Iterations > maxIterations {
		return nil, nil, damaged
	}
	var prf func() hash.Hash
	switch alg := kdf.PRF.Algorithm; {
	case len(alg) == 0, alg.Equal(oidHMACSHA1):
		prf = sha1.New
	case alg.Equal(oidHMACSHA224):
		prf = sha256.New224
	case alg.Equal(oidHMACSHA256):
		prf = sha256.New
	case alg.Equal(oidHMACSHA384):
		prf = sha512.New384
	case alg.Equal(oidHMACSHA512):
		prf = sha512.New
	default:
		return nil, nil, fmt.Errorf("the key derivation with %v is not supported", alg)
	}
	var keyBytes int
	newCipher := aes.NewCipher
	switch alg := p.Scheme.Algorithm; {
	case alg.Equal(oidAES128CBC):
		keyBytes = 16
	case alg.Equal(oidAES192CBC):
		keyBytes = 24
	case alg.Equal(oidAES256CBC):
		keyBytes = 32
	case alg.Equal(oidDESEDE3CBC):
		keyBytes, newCipher = 24, des.NewTripleDESCipher
	default:
		return nil, nil, fmt.Errorf("the cipher %v is not supported", alg)
	}
	var iv []byte
	if _, err := asn1.Unmarshal(p.Scheme.Parameters.FullBytes, &iv); err != nil {
		return nil, nil, damaged
	}
	key, err := pbkdf2.Key(prf, password, kdf.Salt, kdf.Iterations, keyBytes)
	if err != nil {
		return nil, nil, err
	}
	block, err := newCipher(key)
	return block, iv, err
}

// bmpPassword is a password as PKCS#12 takes it: UTF-16 with a zero at the end.
func bmpPassword(password string) []byte {
	return append(utf16BE(password), 0, 0)
}

// pkcs12KDF derives size bytes from a password (RFC 7292, appendix B.2). id is 1 for a key, 2 for an initialisation
// vector, 3 for a MAC key.
func pkcs12KDF(newHash func() hash.Hash, password, salt []byte, iterations int, id byte, size int) []byte {
	h := newHash()
	u, v := h.Size(), h.BlockSize()
	fill := func(b []byte) []byte {
		out := make([]byte, (len(b)+v-1)/v*v)
		for i := range out {
			out[i] = b[i%len(b)]
		}
		return out
	}
	d := bytes.Repeat([]byte{id}, v)
	in := append(fill(salt), fill(password)...)
	one := big.NewInt(1)
	out := make([]byte, 0, size+u)
	for {
		h.Reset()
		h.Write(d)
		h.Write(in)
		a := h.Sum(nil)
		for i := 1; i < iterations; i++ {
			h.Reset()
			h.Write(a)
			a = h.Sum(a[:0])
		}
		if out = append(out, a...); len(out) >= size {
			return out[:size]
		}
		b := make([]byte, v)
		for i := range b {
			b[i] = a[i%u]
		}
		plus := new(big.Int).Add(new(big.Int).SetBytes(b), one)
		for j := 0; j < len(in); j += v {
			sum := new(big.Int).Add(new(big.Int).SetBytes(in[j:j+v]), plus).Bytes()
			if len(sum) > v {
				sum = sum[len(sum)-v:]
			}
			block := in[j : j+v]
			clear(block[:v-len(sum)])
			copy(block[v-len(sum):], sum)
		}
	}
}
