package config

import (
	"errors"
	"fmt"
	"time"
)

func tlsSettings() []Setting {
	tls := func(c codec[string], field func(*TLS) *string) *binding {
		return security(c, func(s *Security) *string { return field(&s.TLS) })
	}
	hide := func(field func(*TLS) *Secret) *binding {
		return security(secret(), func(s *Security) *Secret { return field(&s.TLS) })
	}
	java := "It chooses among classes of Java; Go's crypto/tls has one."
	sniffed := "PEM, PKCS12 and JKS. JKS, Java's default, and an unset type are decided by the file's content."
	return []Setting{
		{Name: "ssl.truststore.location", Scope: ScopeClients, Kind: String, Java: "null",
			Doc:  "File of the certificates that the brokers' are signed with.",
			Note: "Unset, the operating system's are used, where Java takes those of its installation.",
			bind: tls(text(), func(t *TLS) *string { return &t.TruststoreLocation })},
		{Name: "ssl.truststore.type", Scope: ScopeClients, Kind: String, Java: "JKS", Doc: "Format of that file.", Note: sniffed,
			bind: tls(storeType(), func(t *TLS) *string { return &t.TruststoreType })},
		{Name: "ssl.truststore.password", Scope: ScopeClients, Kind: Password, Java: "null", Doc: "Password of that file.",
			bind: hide(func(t *TLS) *Secret { return &t.TruststorePassword })},
		{Name: "ssl.truststore.certificates", Scope: ScopeClients, Kind: Password, Java: "null", Doc: "The certificates themselves, as PEM.",
			bind: tls(text(), func(t *TLS) *string { return &t.TruststoreCertificates })},
		{Name: "ssl.keystore.location", Scope: ScopeClients, Kind: String, Java: "null", Doc: "File of the client's private key and certificate.",
			bind: tls(text(), func(t *TLS) *string { return &t.KeystoreLocation })},
		{Name: "ssl.keystore.type", Scope: ScopeClients, Kind: String, Java: "JKS", Doc: "Format of that file.", Note: sniffed,
			bind: tls(storeType(), func(t *TLS) *string { return &t.KeystoreType })},
		{Name: "ssl.keystore.password", Scope: ScopeClients, Kind: Password, Java: "null", Doc: "Password of that file.",
			bind: hide(func(t *TLS) *Secret { return &t.KeystorePassword })},
		{Name: "ssl.key.password", Scope: ScopeClients, Kind: Password, Java: "null", Doc: "Password of the private key.",
			Note: "Encrypted PEM keys must be PKCS#8, as in Java.",
			bind: hide(func(t *TLS) *Secret { return &t.KeyPassword })},
		{Name: "ssl.keystore.key", Scope: ScopeClients, Kind: Password, Java: "null", Doc: "The private key itself, as PEM.",
			bind: hide(func(t *TLS) *Secret { return &t.KeystoreKey })},
		{Name: "ssl.keystore.certificate.chain", Scope: ScopeClients, Kind: Password, Java: "null", Doc: "The certificate chain of that key, as PEM.",
			bind: tls(text(), func(t *TLS) *string { return &t.KeystoreCertificates })},
		{Name: "ssl.endpoint.identification.algorithm", Scope: ScopeClients, Kind: String, Java: "https",
			Doc: "https checks the name on the broker's certificate, empty does not.",
			bind: security(codec[bool]{
				parse: func(s string) (bool, error) {
					if s != "" && s != "https" && s != "HTTPS" {
						return false, errors.New("must be https or empty")
					}
					return s != "", nil
				},
				format: func(v bool) string {
					if v {
						return "https"
					}
					return ""
				},
			}, func(s *Security) *bool { return &s.TLS.VerifyHostname })},
		{Name: "ssl.enabled.protocols", Scope: ScopeClients, Kind: List, Java: "[TLSv1.2, TLSv1.3]", Doc: "TLS versions allowed.",
			bind: security(list().where("must be a list of TLSv1.2 and TLSv1.3", func(v []string) bool {
				for _, p := range v {
					if _, ok := tlsVersion(p); !ok {
						return false
					}
				}
				return len(v) > 0
			}), func(s *Security) *[]string { return &s.TLS.EnabledProtocols })},
		{Name: "ssl.protocol", Scope: ScopeClients, Kind: String, Java: "TLSv1.3", Status: Fixed, Values: []string{"TLSv1.3", "TLSv1.2", "TLS"},
			Doc: "Version that the Java context is made for.", Note: "ssl.enabled.protocols says which versions are allowed."},
		{Name: "ssl.cipher.suites", Scope: ScopeClients, Kind: List, Java: "[]", Doc: "Cipher suites allowed under TLS 1.2.",
			Note: "Only suites that Go thinks safe; those of TLS 1.3 cannot be chosen.",
			bind: security(list(), func(s *Security) *[]string { return &s.TLS.CipherSuites })},
		{Name: "ssl.engine.factory.class", Scope: ScopeClients, Kind: Class, Java: "null", Status: Refused, Doc: "Class that makes the TLS engine.",
			Note: "Java classes cannot be loaded: give the App a *tls.Config in Go."},
		{Name: "ssl.keymanager.algorithm", Scope: ScopeClients, Kind: String, Java: "SunX509", Status: Ignored, Doc: "A choice of Java's security.", Note: java},
		{Name: "ssl.trustmanager.algorithm", Scope: ScopeClients, Kind: String, Java: "PKIX", Status: Ignored, Doc: "A choice of Java's security.", Note: java},
		{Name: "ssl.secure.random.implementation", Scope: ScopeClients, Kind: String, Java: "null", Status: Ignored, Doc: "A choice of Java's security.", Note: java},
		{Name: "ssl.provider", Scope: ScopeClients, Kind: String, Java: "null", Status: Ignored, Doc: "A choice of Java's security.", Note: java},
	}
}

func storeType() codec[string] {
	return enum([]enumValue[string]{{"PEM", "PEM"}, {"PKCS12", "PKCS12"}, {"JKS", "JKS"}, {"", ""}}, true).
		renamed("must be PEM, PKCS12 or JKS")
}

// renamed gives the codec another text for what is allowed.
func (c codec[T]) renamed(what string) codec[T] {
	inner := c
	c.parse = func(s string) (T, error) {
		v, err := inner.parse(s)
		if err != nil {
			err = errors.New(what)
		}
		return v, err
	}
	return c
}

// applyTLSOption writes an ssl.* option of a JAAS entry.
func applyTLSOption(t *TLS, name, value string) error {
	for _, s := range tlsSettings() {
		if s.Name != name || s.Status != Supported {
			continue
		}
		set, err := s.bind.parse(value)
		if err != nil {
			return fmt.Errorf("has the option %s, which %w", name, err)
		}
		cfg := Config{Admin: Admin{Connection: Connection{Security: Security{TLS: *t}}}}
		set(target{cfg: &cfg, client: adminClient})
		*t = cfg.Admin.Security.TLS
		return nil
	}
	return fmt.Errorf("has the option %s, which is not supported", name)
}

func saslSettings() []Setting {
	kerberos := "Kerberos (GSSAPI) is not supported: use PLAIN, SCRAM or OAUTHBEARER."
	jwt := "The JWT bearer grant is not supported: use client credentials, or give the App a token function in Go."
	broker := "The broker checks the token; the client passes it on."
	life := "A token is fetched anew for the next connection after sasl.login.refresh.window.factor of its life."
	oauth := func(c codec[string], field func(*OAuth) *string) *binding {
		return security(c, func(s *Security) *string { return field(&s.SASL.OAuth) })
	}
	wait := func(lo int64, field func(*OAuth) *time.Duration) *binding {
		return security(millis(lo), func(s *Security) *time.Duration { return field(&s.SASL.OAuth) })
	}
	return []Setting{
		{Name: "sasl.mechanism", Scope: ScopeClients, Kind: String, Java: "GSSAPI",
			Doc:  "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.",
			Note: "There is no default: Java's is Kerberos, which is not supported.",
			bind: security(text().where("must be "+orList(mechanisms())+"; GSSAPI (Kerberos) is not supported", func(m string) bool {
				for _, known := range append(mechanisms(), "") {
					if m == known {
						return true
					}
				}
				return false
			}), func(s *Security) *string { return &s.SASL.Mechanism })},
		{Name: "sasl.jaas.config", Scope: ScopeClients, Kind: Password, Java: "null",
			Doc:  "Login module with the credentials: PlainLoginModule, ScramLoginModule or OAuthBearerLoginModule.",
			Note: "The entry is read as Java reads it; an option that the module does not know is an error.",
			bind: security(jaas(), func(s *Security) *Login { return &s.SASL.Login })},
		{Name: "sasl.login.callback.handler.class", Scope: ScopeClients, Kind: Class, Java: "null", Status: Fixed,
			Values: []string{
				"org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
				"org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
				"org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler",
			},
			Doc: "Class that gets the credentials.", Note: "Java classes cannot be loaded; those of Kafka for OAUTHBEARER are built in. Give the App a token function in Go."},
		{Name: "sasl.client.callback.handler.class", Scope: ScopeClients, Kind: Class, Java: "null", Status: Refused, Doc: "Class that hands credentials to the mechanism.",
			Note: "Java classes cannot be loaded."},
		{Name: "sasl.login.class", Scope: ScopeClients, Kind: Class, Java: "null", Status: Refused, Doc: "Class that logs in.", Note: "Java classes cannot be loaded."},
		{Name: "sasl.login.connect.timeout.ms", Scope: ScopeClients, Kind: Millis, Java: "null", Doc: "How long a connection to the token endpoint may take.",
			Note: "Unset is 0: no bound of its own.",
			bind: wait(0, func(o *OAuth) *time.Duration { return &o.ConnectTimeout })},
		{Name: "sasl.login.read.timeout.ms", Scope: ScopeClients, Kind: Millis, Java: "null", Doc: "How long its answer may take.",
			Note: "Unset is 0: no bound of its own.",
			bind: wait(0, func(o *OAuth) *time.Duration { return &o.ReadTimeout })},
		{Name: "sasl.login.retry.backoff.ms", Scope: ScopeClients, Kind: Millis, Java: "100", Doc: "Wait before it is asked again; it doubles.",
			bind: wait(0, func(o *OAuth) *time.Duration { return &o.RetryBackoff })},
		{Name: "sasl.login.retry.backoff.max.ms", Scope: ScopeClients, Kind: Millis, Java: "10000", Doc: "How long it is asked again.",
			bind: wait(0, func(o *OAuth) *time.Duration { return &o.RetryBackoffMax })},
		{Name: "sasl.login.refresh.window.factor", Scope: ScopeClients, Kind: Double, Java: "0.8", Doc: "Part of a token's life after which a new one is fetched.",
			bind: security(float(0.5, 1), func(s *Security) *float64 { return &s.SASL.OAuth.RefreshFactor })},
		{Name: "sasl.login.refresh.window.jitter", Scope: ScopeClients, Kind: Double, Java: "0.05", Status: Ignored, Doc: "Random part of that time.", Note: life},
		{Name: "sasl.login.refresh.min.period.seconds", Scope: ScopeClients, Kind: Int, Java: "60", Status: Ignored, Doc: "Least time between two fetches.", Note: life},
		{Name: "sasl.login.refresh.buffer.seconds", Scope: ScopeClients, Kind: Int, Java: "300", Status: Ignored, Doc: "Time that must be left.", Note: life},
		{Name: "sasl.oauthbearer.token.endpoint.url", Scope: ScopeClients, Kind: String, Java: "null",
			Doc:  "Where a token is asked for with the client's credentials (https, http), or the file that holds one (file).",
			bind: oauth(text(), func(o *OAuth) *string { return &o.TokenEndpointURL })},
		{Name: "sasl.oauthbearer.client.credentials.client.id", Scope: ScopeClients, Kind: String, Java: "null", Doc: "Client id for the token endpoint.",
			bind: oauth(text(), func(o *OAuth) *string { return &o.ClientID })},
		{Name: "sasl.oauthbearer.client.credentials.client.secret", Scope: ScopeClients, Kind: Password, Java: "null", Doc: "Client secret for it.",
			bind: security(secret(), func(s *Security) *Secret { return &s.SASL.OAuth.ClientSecret })},
		{Name: "sasl.oauthbearer.scope", Scope: ScopeClients, Kind: String, Java: "null", Doc: "Scope that is asked for.",
			bind: oauth(text(), func(o *OAuth) *string { return &o.Scope })},
		{Name: "sasl.oauthbearer.header.urlencode", Scope: ScopeClients, Kind: Bool, Java: "false", Doc: "URL-encodes the credentials.",
			bind: security(boolean(), func(s *Security) *bool { return &s.SASL.OAuth.HeaderURLEncode })},
		{Name: "sasl.oauthbearer.jwt.retriever.class", Scope: ScopeClients, Kind: Class, Java: "class org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
			Status: Fixed, Values: []string{
				"org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
				"org.apache.kafka.common.security.oauthbearer.ClientCredentialsJwtRetriever",
				"org.apache.kafka.common.security.oauthbearer.FileJwtRetriever",
			}, Doc: "Class that fetches tokens.", Note: jwt},
		{Name: "sasl.oauthbearer.jwt.validator.class", Scope: ScopeClients, Kind: Class, Java: "class org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
			Status: Ignored, Doc: "Class that checks tokens.", Note: broker},
		{Name: "sasl.oauthbearer.assertion.algorithm", Scope: ScopeClients, Kind: String, Java: "RS256", Status: Refused, Doc: "Part of the JWT bearer grant.", Note: jwt},
		{Name: "sasl.oauthbearer.assertion.claim.aud", Scope: ScopeClients, Kind: String, Java: "null", Status: Refused, Doc: "Part of the JWT bearer grant.", Note: jwt},
		{Name: "sasl.oauthbearer.assertion.claim.exp.seconds", Scope: ScopeClients, Kind: Int, Java: "300", Status: Refused, Doc: "Part of the JWT bearer grant.", Note: jwt},
		{Name: "sasl.oauthbearer.assertion.claim.iss", Scope: ScopeClients, Kind: String, Java: "null", Status: Refused, Doc: "Part of the JWT bearer grant.", Note: jwt},
		{Name: "sasl.oauthbearer.assertion.claim.jti.include", Scope: ScopeClients, Kind: Bool, Java: "false", Status: Refused, Doc: "Part of the JWT bearer grant.", Note: jwt},
		{Name: "sasl.oauthbearer.assertion.claim.nbf.seconds", Scope: ScopeClients, Kind: Int, Java: "60", Status: Refused, Doc: "Part of the JWT bearer grant.", Note: jwt},
		{Name: "sasl.oauthbearer.assertion.claim.sub", Scope: ScopeClients, Kind: String, Java: "null", Status: Refused, Doc: "Part of the JWT bearer grant.", Note: jwt},
		{Name: "sasl.oauthbearer.assertion.file", Scope: ScopeClients, Kind: String, Java: "null", Status: Refused, Doc: "Part of the JWT bearer grant.", Note: jwt},
		{Name: "sasl.oauthbearer.assertion.private.key.file", Scope: ScopeClients, Kind: String, Java: "null", Status: Refused, Doc: "Part of the JWT bearer grant.", Note: jwt},
		{Name: "sasl.oauthbearer.assertion.private.key.passphrase", Scope: ScopeClients, Kind: Password, Java: "null", Status: Refused, Doc: "Part of the JWT bearer grant.", Note: jwt},
		{Name: "sasl.oauthbearer.assertion.template.file", Scope: ScopeClients, Kind: String, Java: "null", Status: Refused, Doc: "Part of the JWT bearer grant.", Note: jwt},
		{Name: "sasl.oauthbearer.allow.unverified.audience", Scope: ScopeClients, Kind: Bool, Java: "false", Status: Ignored, Doc: "A check of the token.", Note: broker},
		{Name: "sasl.oauthbearer.allow.unverified.issuer", Scope: ScopeClients, Kind: Bool, Java: "false", Status: Ignored, Doc: "A check of the token.", Note: broker},
		{Name: "sasl.oauthbearer.clock.skew.seconds", Scope: ScopeClients, Kind: Int, Java: "30", Status: Ignored, Doc: "A check of the token.", Note: broker},
		{Name: "sasl.oauthbearer.expected.audience", Scope: ScopeClients, Kind: List, Java: "[]", Status: Ignored, Doc: "A check of the token.", Note: broker},
		{Name: "sasl.oauthbearer.expected.issuer", Scope: ScopeClients, Kind: String, Java: "null", Status: Ignored, Doc: "A check of the token.", Note: broker},
		{Name: "sasl.oauthbearer.jwks.endpoint.url", Scope: ScopeClients, Kind: String, Java: "null", Status: Ignored, Doc: "A check of the token.", Note: broker},
		{Name: "sasl.oauthbearer.jwks.endpoint.refresh.ms", Scope: ScopeClients, Kind: Millis, Java: "3600000", Status: Ignored, Doc: "A check of the token.", Note: broker},
		{Name: "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", Scope: ScopeClients, Kind: Millis, Java: "100", Status: Ignored, Doc: "A check of the token.", Note: broker},
		{Name: "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", Scope: ScopeClients, Kind: Millis, Java: "10000", Status: Ignored, Doc: "A check of the token.", Note: broker},
		{Name: "sasl.oauthbearer.scope.claim.name", Scope: ScopeClients, Kind: String, Java: "scope", Status: Ignored, Doc: "A check of the token.", Note: broker},
		{Name: "sasl.oauthbearer.sub.claim.name", Scope: ScopeClients, Kind: String, Java: "sub", Status: Ignored, Doc: "A check of the token.", Note: broker},
		{Name: "sasl.kerberos.service.name", Scope: ScopeClients, Kind: String, Java: "null", Status: Refused, Doc: "A setting of Kerberos.", Note: kerberos},
		{Name: "sasl.kerberos.kinit.cmd", Scope: ScopeClients, Kind: String, Java: "/usr/bin/kinit", Status: Refused, Doc: "A setting of Kerberos.", Note: kerberos},
		{Name: "sasl.kerberos.min.time.before.relogin", Scope: ScopeClients, Kind: Long, Java: "60000", Status: Refused, Doc: "A setting of Kerberos.", Note: kerberos},
		{Name: "sasl.kerberos.ticket.renew.jitter", Scope: ScopeClients, Kind: Double, Java: "0.05", Status: Refused, Doc: "A setting of Kerberos.", Note: kerberos},
		{Name: "sasl.kerberos.ticket.renew.window.factor", Scope: ScopeClients, Kind: Double, Java: "0.8", Status: Refused, Doc: "A setting of Kerberos.", Note: kerberos},
	}
}

// jaas is the codec of sasl.jaas.config. What it prints shows the module only.
func jaas() codec[Login] {
	return codec[Login]{
		parse: func(s string) (Login, error) {
			module, options, err := parseJAAS(s)
			if err != nil {
				return Login{}, err
			}
			return loginOf(module, options)
		},
		format: func(l Login) string {
			switch {
			case l.Module != "":
				return l.Module + " required " + hidden + ";"
			case l.Username != "" || l.ClientID != "":
				return hidden
			}
			return ""
		},
	}
}
