package config

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseJAAS(t *testing.T) {
	for _, tc := range []struct {
		in      string
		options map[string]string
		err     string
	}{
		{in: `a.b.Module required username="alice" password="p w";`, options: map[string]string{"username": "alice", "password": "p w"}},
		{in: "a.b.Module REQUIRED\n  username=alice\n\tpassword='it\"s' ;\n", options: map[string]string{"username": "alice", "password": `it"s`}},
		{in: `a.b.Module$Inner required;`, options: map[string]string{}},
		{in: `/* who */ a.b.Module required // why
			x="a\"b\\c\n\101\7z" y-z_1.k="=;" ;`, options: map[string]string{"x": "a\"b\\c\nA\az", "y-z_1.k": "=;"}},
		{in: `a.b.Module required password="ü€";`, options: map[string]string{"password": "ü€"}},
		{in: ``, err: "names no login module"},
		{in: `  // nothing`, err: "names no login module"},
		{in: `a.b.Module`, err: "lacks the control flag"},
		{in: `a.b.Module username="x";`, err: "where the control flag"},
		{in: `a.b.Module required username="x"`, err: "does not end with a semicolon"},
		{in: `a.b.Module required username;`, err: `no value for the option "username"`},
		{in: `a.b.Module required username=;`, err: `no value for the option "username"`},
		{in: `a.b.Module required username="x;`, err: "quote without an end"},
		{in: `a.b.Module required; c.d.Module required;`, err: "exactly one entry"},
		{in: `/* `, err: "comment without an end"},
		{in: `= required;`, err: "must begin with the class"},
	} {
		_, options, err := parseJAAS(tc.in)
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%q: error %v, want %q", tc.in, err, tc.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", tc.in, err)
		} else if d := cmp.Diff(tc.options, options); d != "" {
			t.Errorf("%q (-want +got):\n%s", tc.in, d)
		}
	}
}

func TestSASL_logins(t *testing.T) {
	const pkg = "org.apache.kafka.common.security."
	for _, tc := range []struct {
		name  string
		props map[string]string
		check func(SASL) bool
		err   string // of FromProperties or Validate
	}{
		{"PLAIN", map[string]string{"sasl.mechanism": "PLAIN", "sasl.jaas.config": pkg + `plain.PlainLoginModule required username="u" password="p";`},
			func(s SASL) bool { return s.Login.Username == "u" && s.Login.Password == "p" }, ""},
		{"SCRAM", map[string]string{"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": pkg + `scram.ScramLoginModule required username="u" password="p" tokenauth="false";`},
			func(s SASL) bool { return s.Login.Username == "u" && s.Login.Password.Reveal() == "p" }, ""},
		{"a delegation token", map[string]string{"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": pkg + `scram.ScramLoginModule required username="u" password="p" tokenauth="true";`},
			nil, "delegation tokens are not supported"},
		{"OAUTHBEARER without security", map[string]string{"sasl.mechanism": "OAUTHBEARER",
			"sasl.jaas.config": pkg + `oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="alice" unsecuredLoginExtension_cluster="c1";`},
			func(s SASL) bool {
				return s.Login.Claims["unsecuredLoginStringClaim_sub"] == "alice" && s.Login.Extensions["cluster"] == "c1"
			}, ""},
		{"OAUTHBEARER with an endpoint", map[string]string{"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
			"sasl.login.callback.handler.class": pkg + "oauthbearer.secured.OAuthBearerLoginCallbackHandler",
			"sasl.jaas.config":                  pkg + `oauthbearer.OAuthBearerLoginModule required clientId="id" clientSecret="s" scope="sc" extension_pool="p1" ssl.endpoint.identification.algorithm="";`},
			func(s SASL) bool {
				id, secret, scope := s.ClientCredentials()
				return id == "id" && secret == "s" && scope == "sc" && s.Login.Extensions["pool"] == "p1" && !s.Login.TLS.VerifyHostname
			}, ""},
		{"OAUTHBEARER by the new keys", map[string]string{"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
			"sasl.oauthbearer.client.credentials.client.id": "new", "sasl.oauthbearer.client.credentials.client.secret": "s2", "sasl.oauthbearer.scope": "sc2",
			"sasl.jaas.config": pkg + `oauthbearer.OAuthBearerLoginModule required clientId="old" clientSecret="s" scope="sc";`},
			func(s SASL) bool {
				id, secret, scope := s.ClientCredentials()
				return id == "new" && secret == "s2" && scope == "sc2"
			}, ""},
		{"no mechanism", map[string]string{"sasl.jaas.config": pkg + `plain.PlainLoginModule required username="u" password="p";`}, nil, "Kerberos"},
		{"no credentials", map[string]string{"sasl.mechanism": "PLAIN"}, nil, "username and a password"},
		{"the module of another mechanism", map[string]string{"sasl.mechanism": "SCRAM-SHA-256",
			"sasl.jaas.config": pkg + `plain.PlainLoginModule required username="u" password="p";`}, nil, "use " + pkg + "scram.ScramLoginModule"},
		{"another module", map[string]string{"sasl.mechanism": "PLAIN", "sasl.jaas.config": `com.sun.security.auth.module.Krb5LoginModule required;`}, nil, "not supported"},
		{"a misspelt option", map[string]string{"sasl.mechanism": "PLAIN", "sasl.jaas.config": pkg + `plain.PlainLoginModule required user="u" password="p";`}, nil, `"username"`},
		{"a reserved extension", map[string]string{"sasl.mechanism": "OAUTHBEARER",
			"sasl.jaas.config": pkg + `oauthbearer.OAuthBearerLoginModule required extension_auth="x";`}, nil, "reserves"},
		{"OAUTHBEARER with nothing", map[string]string{"sasl.mechanism": "OAUTHBEARER",
			"sasl.jaas.config": pkg + `oauthbearer.OAuthBearerLoginModule required;`}, nil, "token.endpoint.url"},
		{"an endpoint without credentials", map[string]string{"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url": "https://idp/token"}, nil, "client secret"},
		{"an endpoint that is none", map[string]string{"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url": "ldap://idp"}, nil, "https://"},
		{"an endpoint with credentials in it", map[string]string{"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url": "https://a:b@idp"}, nil, "must not hold credentials"},
		{"a claim that is no number", map[string]string{"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": pkg +
			`oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="a" unsecuredLoginNumberClaim_n="x";`}, nil, "must be a number"},
		{"credentials without SASL", map[string]string{"security.protocol": "SSL", "sasl.mechanism": "PLAIN",
			"sasl.jaas.config": pkg + `plain.PlainLoginModule required username="u" password="p";`}, nil, "does not use SASL"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			props := map[string]string{"security.protocol": "SASL_PLAINTEXT", "application.id": "a", "bootstrap.servers": "b:1"}
			for k, v := range tc.props {
				props[k] = v
			}
			ch, err := FromProperties(props)
			cfg := Default()
			if err == nil {
				ch.Apply(&cfg)
				err = cfg.Validate()
			}
			if tc.err != "" {
				if err == nil || strings.Count(err.Error(), tc.err) != 1 { // once, and not for each client
					t.Fatalf("error %v, want one with %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			cfg.Connections(func(client string, c *Connection) {
				if !tc.check(c.Security.SASL) {
					t.Errorf("%s has %+v", client, c.Security.SASL)
				}
			})
		})
	}
}

func TestSASL_perClient(t *testing.T) {
	const plain = "org.apache.kafka.common.security.plain.PlainLoginModule required "
	cfg, _ := apply(t, map[string]string{
		"application.id": "a", "bootstrap.servers": "b:1",
		"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": plain + `username="all" password="p";`,
		"producer.sasl.jaas.config": plain + `username="writer" password="p";`, "admin.security.protocol": "PLAINTEXT",
	})
	if a, b := cfg.Main.Security.SASL.Login.Username, cfg.Producer.Security.SASL.Login.Username; a != "all" || b != "writer" {
		t.Errorf("main consumer is %q, producer %q", a, b)
	}
	err := cfg.Validate()
	if err == nil || !strings.Contains(err.Error(), "admin.security.protocol") || strings.Contains(err.Error(), "producer.") {
		t.Errorf("error %v", err)
	}
}

// clock is a clock that a test moves.
type clock struct{ ms atomic.Int64 }

func (c *clock) now() time.Time { return time.UnixMilli(c.ms.Load()) }

func jwt(claims map[string]any) string {
	payload, _ := json.Marshal(claims)
	return "e30." + base64.RawURLEncoding.EncodeToString(payload) + ".sig"
}

// endpoint is a token endpoint that answers what the test tells it to.
type endpoint struct {
	*httptest.Server
	requests atomic.Int32
	answer   func(w http.ResponseWriter, n int32)
}

func newEndpoint(t *testing.T, answer func(w http.ResponseWriter, n int32)) *endpoint {
	e := &endpoint{answer: answer}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := e.requests.Add(1)
		id, secret, ok := r.BasicAuth()
		if err := r.ParseForm(); err != nil || !ok || id != "id" || secret != "s:ecret" || r.Form.Get("grant_type") != "client_credentials" || r.Form.Get("scope") != "kafka" {
			http.Error(w, "bad request", http.StatusBadRequest)
			return
		}
		e.answer(w, n)
	}))
	t.Cleanup(e.Close)
	return e
}

func source(t *testing.T, url string, c *clock) *TokenSource {
	t.Helper()
	s := defaultSASL()
	s.Mechanism = MechanismOAuthBearer
	s.OAuth.TokenEndpointURL = url
	s.OAuth.ClientID, s.OAuth.ClientSecret, s.OAuth.Scope = "id", "s:ecret", "kafka"
	s.Login.Extensions = map[string]string{"pool": "p1"}
	src, err := s.NewTokenSource(c.now)
	if err != nil {
		t.Fatal(err)
	}
	src.wait = func(_ context.Context, d time.Duration) error { c.ms.Add(d.Milliseconds()); return nil }
	return src
}

func TestTokenSource_fetchesAndKeeps(t *testing.T) {
	c := &clock{}
	c.ms.Store(1_000_000_000_000)
	e := newEndpoint(t, func(w http.ResponseWriter, n int32) {
		fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer"}`, jwt(map[string]any{"n": n, "exp": c.now().Unix() + 100}))
	})
	src := source(t, e.URL, c)
	get := func() Token {
		t.Helper()
		tok, err := src.Token(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return tok
	}
	first := get()
	if want := c.now().Add(100 * time.Second); !first.Expires.Equal(want) || first.Extensions["pool"] != "p1" {
		t.Errorf("token %+v, want one that ends at %v", first, want)
	}
	c.ms.Add(79_999)
	if get().Value != first.Value || e.requests.Load() != 1 {
		t.Errorf("after 79 s of 100 s there were %d requests", e.requests.Load())
	}
	c.ms.Add(1)
	if get().Value == first.Value || e.requests.Load() != 2 {
		t.Errorf("after 80 s of 100 s there were %d requests", e.requests.Load())
	}
}

func TestTokenSource_manyAskersOneRequest(t *testing.T) {
	c := &clock{}
	c.ms.Store(1_000_000_000_000)
	e := newEndpoint(t, func(w http.ResponseWriter, n int32) {
		fmt.Fprint(w, `{"access_token":"opaque","expires_in":60}`)
	})
	src := source(t, e.URL, c)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if tok, err := src.Token(t.Context()); err != nil || tok.Value.Reveal() != "opaque" || !tok.Expires.Equal(c.now().Add(time.Minute)) {
				t.Errorf("token %+v, %v", tok, err)
			}
		})
	}
	wg.Wait()
	if n := e.requests.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestTokenSource_retriesWhatMayPass(t *testing.T) {
	c := &clock{}
	for _, tc := range []struct {
		name     string
		answer   func(w http.ResponseWriter, n int32)
		requests int32
		err      string
	}{
		{"busy, then there", func(w http.ResponseWriter, n int32) {
			if n < 3 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			fmt.Fprint(w, `{"access_token":"t"}`)
		}, 3, ""},
		{"busy for ever", func(w http.ResponseWriter, _ int32) { w.WriteHeader(http.StatusTooManyRequests) }, 7, "429"}, // 0.1 + 0.2 + ... + 3.2 s, and 6.4 s would pass 10 s
		{"refused", func(w http.ResponseWriter, _ int32) {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":"invalid_client","error_description":"no such client","secret":"s:ecret"}`)
		}, 1, "invalid_client (no such client)"},
		{"no token in it", func(w http.ResponseWriter, _ int32) { fmt.Fprint(w, `{"token":"t"}`) }, 1, "holds no access_token"},
		{"no JSON", func(w http.ResponseWriter, _ int32) { fmt.Fprint(w, `<html>`) }, 1, "no JSON object"},
		{"sent elsewhere", func(w http.ResponseWriter, _ int32) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(http.StatusFound)
		}, 1, "302"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := newEndpoint(t, tc.answer)
			tok, err := source(t, e.URL, c).Token(t.Context())
			if tc.err == "" && (err != nil || tok.Value != "t") {
				t.Errorf("token %v, error %v", tok, err)
			}
			if tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err) || !strings.Contains(err.Error(), e.URL) || strings.Contains(err.Error(), "s:ecret")) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
			if n := e.requests.Load(); n != tc.requests {
				t.Errorf("%d requests, want %d", n, tc.requests)
			}
		})
	}
	t.Run("nobody listens", func(t *testing.T) {
		e := newEndpoint(t, nil)
		src := source(t, e.URL, c)
		e.Close()
		if _, err := src.Token(t.Context()); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("the caller gives up", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		e := newEndpoint(t, func(w http.ResponseWriter, _ int32) { cancel(); w.WriteHeader(http.StatusServiceUnavailable) })
		src := source(t, e.URL, c)
		src.wait = waitTimer
		if _, err := src.Token(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
}

func TestTokenSource_otherSources(t *testing.T) {
	c := &clock{}
	c.ms.Store(1_000_000_000_500)
	t.Run("a file", func(t *testing.T) {
		name := filepath.Join(t.TempDir(), "token")
		want := jwt(map[string]any{"exp": c.now().Unix() + 10})
		if err := os.WriteFile(name, []byte(want+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		tok, err := source(t, "file://"+name, c).Token(t.Context())
		if err != nil || tok.Value.Reveal() != want {
			t.Errorf("token %q, %v", tok.Value.Reveal(), err)
		}
		if _, err := source(t, "file://"+name+".not", c).Token(t.Context()); err == nil || !strings.Contains(err.Error(), "no such file") {
			t.Errorf("error of a missing file: %v", err)
		}
	})
	t.Run("a function", func(t *testing.T) {
		s := defaultSASL()
		var next Token
		calls := 0
		s.OAuth.Source = func(context.Context) (Token, error) { calls++; return next, nil }
		src, err := s.NewTokenSource(c.now)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := src.Token(t.Context()); err == nil || !strings.Contains(err.Error(), "empty token") {
			t.Errorf("error of an empty token: %v", err)
		}
		for _, tc := range []struct {
			name  string
			token Token
			calls int // of three requests
		}{
			{"without an end", Token{Value: "a"}, 3},
			{"with an end", Token{Value: "b", Expires: c.now().Add(time.Hour), Extensions: map[string]string{"x": "y"}}, 1},
		} {
			next, calls = tc.token, 0
			for range 3 {
				if tok, err := src.Token(t.Context()); err != nil || cmp.Diff(tc.token, tok) != "" {
					t.Errorf("%s: token %v, %v", tc.name, tok, err)
				}
			}
			if calls != tc.calls {
				t.Errorf("%s: %d calls, want %d", tc.name, calls, tc.calls)
			}
		}
	})
	t.Run("without security", func(t *testing.T) {
		s := defaultSASL()
		s.Login.Claims = map[string]string{
			"unsecuredLoginStringClaim_sub": "alice", "unsecuredLoginNumberClaim_n": "1.5", "unsecuredLoginListClaim_scope": "|a|b",
			"unsecuredLoginLifetimeSeconds": "60",
		}
		src, err := s.NewTokenSource(c.now)
		if err != nil {
			t.Fatal(err)
		}
		tok, err := src.Token(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(tok.Value.Reveal(), ".")
		if len(parts) != 3 || parts[2] != "" {
			t.Fatalf("token %q has no empty signature", tok.Value.Reveal())
		}
		var texts [2]string
		for i := range texts {
			b, err := base64.RawURLEncoding.DecodeString(parts[i])
			if err != nil {
				t.Fatal(err)
			}
			texts[i] = string(b)
		}
		if texts != [2]string{`{"alg":"none"}`, `{"exp":1000000060.5,"iat":1000000000.5,"n":1.5,"scope":["a","b"],"sub":"alice"}`} {
			t.Errorf("token %q", texts)
		}
		if want := c.now().Add(time.Minute); !tok.Expires.Equal(want) {
			t.Errorf("it ends at %v, want %v", tok.Expires, want)
		}
	})
}
