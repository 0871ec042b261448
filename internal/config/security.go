package config

import "maps"

// Protocol says how a connection is protected and whether the client proves who it is.
type Protocol uint8

const (
	Plaintext Protocol = iota
	SSL
	SASLPlaintext
	SASLSSL
)

// String returns the value of the property security.protocol.
func (p Protocol) String() string { return enumText(protocols(), p) }

// TLS says whether the connection is encrypted.
func (p Protocol) TLS() bool { return p == SSL || p == SASLSSL }

// SASL says whether the client authenticates itself by SASL.
func (p Protocol) SASL() bool { return p == SASLPlaintext || p == SASLSSL }

// WithTLS returns the protocol that encrypts, and is otherwise the same.
func (p Protocol) WithTLS() Protocol {
	if p.SASL() {
		return SASLSSL
	}
	return SSL
}

// WithSASL returns the protocol that authenticates by SASL, and is otherwise the same.
func (p Protocol) WithSASL() Protocol {
	if p.TLS() {
		return SASLSSL
	}
	return SASLPlaintext
}

func protocols() []enumValue[Protocol] {
	return []enumValue[Protocol]{
		{Plaintext, "PLAINTEXT"}, {SSL, "SSL"}, {SASLPlaintext, "SASL_PLAINTEXT"}, {SASLSSL, "SASL_SSL"},
	}
}

// Security is how one client's connections are protected.
type Security struct {
	// Protocol decides whether TLS and SASL are used at all. Property: security.protocol.
	Protocol Protocol
	TLS      TLS
	SASL     SASL
}

func defaultSecurity() Security {
	return Security{TLS: defaultTLS(), SASL: defaultSASL()}
}

func (s Security) clone() Security {
	s.TLS = s.TLS.clone()
	s.SASL.Login.Claims = maps.Clone(s.SASL.Login.Claims)
	s.SASL.Login.Extensions = maps.Clone(s.SASL.Login.Extensions)
	s.SASL.Login.TLS = s.SASL.Login.TLS.clone()
	return s
}

// validate reports what is missing or does not fit together. It reads no file: that is TLS.Build's part.
func (s *Security) validate(report func(name, value, reason, hint string)) {
	if s.Protocol.TLS() {
		s.TLS.validate("", report)
	}
	if s.Protocol.SASL() {
		s.SASL.validate(report)
		return
	}
	if s.SASL.given() {
		report("security.protocol", s.Protocol.String(), "does not use SASL, but SASL credentials are set",
			"set it to SASL_SSL or SASL_PLAINTEXT, or remove the sasl.* settings")
	}
}
