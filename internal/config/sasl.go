package config

import (
	"context"
	"slices"
	"time"
)

// The SASL mechanisms that are supported.
const (
	MechanismPlain       = "PLAIN"
	MechanismScram256    = "SCRAM-SHA-256"
	MechanismScram512    = "SCRAM-SHA-512"
	MechanismOAuthBearer = "OAUTHBEARER"
)

func mechanisms() []string {
	return []string{MechanismPlain, MechanismScram256, MechanismScram512, MechanismOAuthBearer}
}

// SASL is how a client proves who it is.
type SASL struct {
	// Mechanism is one of the Mechanism constants. Property: sasl.mechanism. (Java's default, GSSAPI, is not supported,
	// so it must be set.)
	Mechanism string
	// Login holds what a JAAS entry holds. Property: sasl.jaas.config.
	Login Login
	// OAuth says where OAUTHBEARER gets its tokens. Properties: sasl.oauthbearer.*, sasl.login.*.
	OAuth OAuth
}

// Login is the content of a JAAS entry, or the same set in Go.
type Login struct {
	// Module is the Java class of the entry; empty if the login was set in Go.
	Module string

	// Username and Password are those of PLAIN and SCRAM.
	Username string
	Password Secret

	// ClientID, ClientSecret and Scope are those of OAUTHBEARER, where OAuth has none.
	ClientID     string
	ClientSecret Secret
	Scope        string
	// Claims are the options of an unsecured OAUTHBEARER token, which only test brokers accept, by their Java names
	// (unsecuredLoginStringClaim_sub, ...).
	Claims map[string]string
	// Extensions are sent to the broker beside an OAUTHBEARER token.
	Extensions map[string]string
	// TLS protects the connection to the token endpoint.
	TLS TLS
}

// OAuth says where OAUTHBEARER gets its tokens.
type OAuth struct {
	// Source gives tokens in Go; it replaces all else. A token that says when it expires is kept, any other is asked for
	// at each connection.
	Source func(ctx context.Context) (Token, error)
	// TokenEndpointURL is asked for a token with the client's credentials (https, http), or is the file that holds one
	// (file). Property: sasl.oauthbearer.token.endpoint.url.
	TokenEndpointURL string
	// ClientID and ClientSecret are the client's credentials. Properties: sasl.oauthbearer.client.credentials.*.
	ClientID     string
	ClientSecret Secret
	// Scope is the scope asked for; it may be empty. Property: sasl.oauthbearer.scope.
	Scope string
	// HeaderURLEncode encodes the credentials as RFC 6749 has it. Property: sasl.oauthbearer.header.urlencode.
	HeaderURLEncode bool
	// ConnectTimeout and ReadTimeout bound a request; 0 is no bound of its own. Properties: sasl.login.*.timeout.ms.
	ConnectTimeout, ReadTimeout time.Duration
	// RetryBackoff and RetryBackoffMax rule the retries of a request. Properties: sasl.login.retry.backoff(.max).ms.
	RetryBackoff, RetryBackoffMax time.Duration
	// RefreshFactor is the part of a token's life after which a new one is fetched. Property:
	// sasl.login.refresh.window.factor.
	RefreshFactor float64
}

func defaultSASL() SASL {
	return SASL{
		Login: Login{TLS: defaultTLS()},
		OAuth: OAuth{RetryBackoff: 100 * time.Millisecond, RetryBackoffMax: 10 * time.Second, RefreshFactor: 0.8},
	}
}

// given says whether credentials of any kind are set.
func (s *SASL) given() bool {
	return s.Login.Module != "" || s.Login.Username != "" || s.OAuth.Source != nil || s.OAuth.TokenEndpointURL != ""
}

// ClientCredentials returns id, secret and scope for the token endpoint: OAuth's, or else those of the JAAS entry.
func (s *SASL) ClientCredentials() (id string, secret Secret, scope string) {
	id, secret, scope = s.OAuth.ClientID, s.OAuth.ClientSecret, s.OAuth.Scope
	if id == "" {
		id = s.Login.ClientID
	}
	if secret == "" {
		secret = s.Login.ClientSecret
	}
	if scope == "" {
		scope = s.Login.Scope
	}
	return id, secret, scope
}

const (
	plainModule = "org.apache.kafka.common.security.plain.PlainLoginModule"
	scramModule = "org.apache.kafka.common.security.scram.ScramLoginModule"
	oauthModule = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
)

func moduleOf(mechanism string) string {
	switch mechanism {
	case MechanismPlain:
		return plainModule
	case MechanismScram256, MechanismScram512:
		return scramModule
	}
	return oauthModule
}

func (s *SASL) validate(report func(name, value, reason, hint string)) {
	if s.Mechanism == "" {
		report("sasl.mechanism", "", "must be set: Java's default GSSAPI (Kerberos) is not supported",
			"choose PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER")
		return
	}
	if !slices.Contains(mechanisms(), s.Mechanism) {
		report("sasl.mechanism", s.Mechanism, "must be PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER", "")
		return
	}
	if m := s.Login.Module; m != "" && m != moduleOf(s.Mechanism) {
		report("sasl.jaas.config", m+" ...", "is not the login module of sasl.mechanism "+s.Mechanism, "use "+moduleOf(s.Mechanism))
		return
	}
	if s.Mechanism != MechanismOAuthBearer {
		if s.Login.Username == "" || s.Login.Password == "" {
			report("sasl.jaas.config", hidden, "must hold a username and a password for "+s.Mechanism, "")
		}
		return
	}
	s.validateOAuth(report)
}

func (s *SASL) validateOAuth(report func(name, value, reason, hint string)) {
	o := &s.OAuth
	if o.RefreshFactor < 0.5 || o.RefreshFactor > 1 {
		report("sasl.login.refresh.window.factor", formatFloat(o.RefreshFactor), "must be between 0.5 and 1", "")
	}
	switch {
	case o.Source != nil:
	case o.TokenEndpointURL != "":
		u, err := parseTokenURL(o.TokenEndpointURL)
		if err != nil {
			report("sasl.oauthbearer.token.endpoint.url", o.TokenEndpointURL, err.Error(), "")
			return
		}
		if id, secret, _ := s.ClientCredentials(); u.Scheme != "file" && (id == "" || secret == "") {
			report("sasl.oauthbearer.client.credentials.client.id", id, "must be set, and the client secret too, to ask the token endpoint", "")
		}
		s.Login.TLS.validate("sasl.jaas.config ", report)
	case len(s.Login.Claims) > 0:
		if _, err := unsecuredToken(s.Login.Claims, time.Unix(0, 0)); err != nil {
			report("sasl.jaas.config", oauthModule+" ...", err.Error(), "")
		}
	default:
		report("sasl.oauthbearer.token.endpoint.url", "", "must be set for OAUTHBEARER",
			"or let sasl.jaas.config hold unsecuredLoginStringClaim_sub, which only test brokers accept")
	}
}
