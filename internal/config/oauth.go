package config

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Token is an OAUTHBEARER token.
type Token struct {
	Value      Secret
	Expires    time.Time // zero: unknown
	Extensions map[string]string
}

// TokenSource gives the tokens of a SASL configuration and keeps each until a part of its life has passed. It may be
// used by several goroutines; those that need a new token at the same time wait for one request.
//
// In Kafka's Java client: OAuthBearerLoginCallbackHandler and ExpiringCredentialRefreshingLogin.
type TokenSource struct {
	sasl *SASL
	now  func() time.Time
	wait func(ctx context.Context, d time.Duration) error
	http *http.Client // nil where none is asked

	turn    chan struct{} // holds one token while nobody fetches
	mu      sync.Mutex
	cached  Token
	refresh time.Time
}

// NewTokenSource returns the source of tokens of an OAUTHBEARER configuration. now tells the time.
func (s *SASL) NewTokenSource(now func() time.Time) (*TokenSource, error) {
	t := &TokenSource{sasl: s, now: now, wait: waitTimer, turn: make(chan struct{}, 1)}
	t.turn <- struct{}{}
	if s.OAuth.Source != nil || s.OAuth.TokenEndpointURL == "" {
		return t, nil
	}
	u, err := parseTokenURL(s.OAuth.TokenEndpointURL)
	if err != nil {
		return nil, &SettingError{Name: "sasl.oauthbearer.token.endpoint.url", Value: s.OAuth.TokenEndpointURL, Reason: err.Error()}
	}
	if u.Scheme == "file" {
		return t, nil
	}
	tlsConfig, err := s.Login.TLS.Build()
	if err != nil {
		return nil, err
	}
	t.http = &http.Client{
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			TLSClientConfig:       tlsConfig,
			DialContext:           (&net.Dialer{Timeout: s.OAuth.ConnectTimeout}).DialContext,
			TLSHandshakeTimeout:   s.OAuth.ConnectTimeout,
			ResponseHeaderTimeout: s.OAuth.ReadTimeout,
			DisableKeepAlives:     true, // one request an hour
		},
		// A redirect would carry the credentials to where nobody meant them to go.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return t, nil
}

func waitTimer(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Token returns a token that is not about to expire.
func (t *TokenSource) Token(ctx context.Context) (Token, error) {
	if tok, ok := t.fresh(); ok {
		return tok, nil
	}
	select {
	case <-t.turn:
		defer func() { t.turn <- struct{}{} }()
	case <-ctx.Done():
		return Token{}, ctx.Err()
	}
	if tok, ok := t.fresh(); ok { // another goroutine fetched it meanwhile
		return tok, nil
	}
	asked := t.now()
	tok, err := t.fetch(ctx)
	if err != nil {
		return Token{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cached, t.refresh = tok, time.Time{}
	if life := tok.Expires.Sub(asked); !tok.Expires.IsZero() && life > 0 {
		t.refresh = asked.Add(time.Duration(float64(life) * t.sasl.OAuth.RefreshFactor))
	}
	return tok, nil
}

func (t *TokenSource) fresh() (Token, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cached, t.now().Before(t.refresh)
}

func (t *TokenSource) fetch(ctx context.Context) (Token, error) {
	o := &t.sasl.OAuth
	if o.Source != nil {
		tok, err := o.Source(ctx)
		if err == nil && tok.Value == "" {
			err = errors.New("millrace: the token function gave an empty token")
		}
		return tok, err
	}
	tok, err := t.ask(ctx)
	tok.Extensions = t.sasl.Login.Extensions
	return tok, err
}

// ask gets a token from where the settings say.
func (t *TokenSource) ask(ctx context.Context) (Token, error) {
	o := &t.sasl.OAuth
	if o.TokenEndpointURL == "" {
		v, err := unsecuredToken(t.sasl.Login.Claims, t.now())
		if err != nil {
			return Token{}, &SettingError{Name: "sasl.jaas.config", Value: oauthModule + " ...", Reason: err.Error()}
		}
		return Token{Value: Secret(v), Expires: expiry(v)}, nil
	}
	if t.http == nil {
		return t.fromFile()
	}
	fail := func(err error) (Token, error) {
		return Token{}, fmt.Errorf("millrace: no token from sasl.oauthbearer.token.endpoint.url %s: %w", o.TokenEndpointURL, err)
	}
	var waited time.Duration
	for backoff := o.RetryBackoff; ; backoff = min(2*backoff, o.RetryBackoffMax) {
		tok, again, err := t.request(ctx)
		if err == nil {
			return tok, nil
		}
		if !again || waited+backoff > o.RetryBackoffMax || backoff <= 0 {
			return fail(err)
		}
		waited += backoff
		if werr := t.wait(ctx, backoff); werr != nil {
			return fail(errors.Join(werr, err))
		}
	}
}

func (t *TokenSource) fromFile() (Token, error) {
	u, _ := parseTokenURL(t.sasl.OAuth.TokenEndpointURL)
	data, err := os.ReadFile(u.Path)
	if err != nil {
		return Token{}, fmt.Errorf("millrace: no token from file %s: %s", u.Path, reasonOf(err))
	}
	v := strings.TrimSpace(string(data))
	if v == "" {
		return Token{}, fmt.Errorf("millrace: no token in file %s: it is empty", u.Path)
	}
	return Token{Value: Secret(v), Expires: expiry(v)}, nil
}

// request asks once; again says whether another try may help.
func (t *TokenSource) request(ctx context.Context) (tok Token, again bool, err error) {
	id, secret, scope := t.sasl.ClientCredentials()
	form := url.Values{"grant_type": {"client_credentials"}}
	if scope != "" {
		form.Set("scope", scope)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.sasl.OAuth.TokenEndpointURL, strings.NewReader(form.Encode()))
	if err != nil {
		return Token{}, false, err
	}
	user, pass := id, secret.Reveal()
	if t.sasl.OAuth.HeaderURLEncode {
		user, pass = url.QueryEscape(user), url.QueryEscape(pass)
	}
	req.SetBasicAuth(user, pass)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	resp, err := t.http.Do(req)
	if err != nil {
		return Token{}, ctx.Err() == nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return Token{}, ctx.Err() == nil, err
	}
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusCreated {
		return Token{}, retriable(resp.StatusCode), fmt.Errorf("the answer is %s: %s", resp.Status, oauthError(body))
	}
	var answer struct {
		AccessToken string      `json:"access_token"`
		IDToken     string      `json:"id_token"`
		ExpiresIn   json.Number `json:"expires_in"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return Token{}, false, errors.New("the answer is no JSON object with an access_token")
	}
	v := answer.AccessToken
	if v == "" {
		v = answer.IDToken
	}
	if v == "" {
		return Token{}, false, errors.New("the answer holds no access_token")
	}
	tok = Token{Value: Secret(v), Expires: expiry(v)}
	if tok.Expires.IsZero() {
		if s, err := answer.ExpiresIn.Float64(); err == nil && s > 0 && s < 1e9 {
			tok.Expires = t.now().Add(time.Duration(s * float64(time.Second)))
		}
	}
	return tok, false, nil
}

func retriable(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return false
	}
	return status >= 500
}

// oauthError returns what an answer says of the reason, and never the whole of it: it may hold more than it should.
func oauthError(body []byte) string {
	var e struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	if json.Unmarshal(body, &e) != nil || e.Error == "" {
		return "no reason given"
	}
	if e.Description != "" {
		return e.Error + " (" + e.Description + ")"
	}
	return e.Error
}

// expiry returns the time at which a JSON web token ends, or the zero time.
func expiry(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil {
		return time.Time{}
	}
	var claims struct {
		Exp float64 `json:"exp"`
	}
	if json.Unmarshal(payload, &claims) != nil || claims.Exp <= 0 || claims.Exp > 1e11 {
		return time.Time{}
	}
	return time.UnixMilli(int64(claims.Exp * 1000))
}

func parseTokenURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, errors.New("must be a URL")
	}
	switch {
	case (u.Scheme == "https" || u.Scheme == "http") && u.Host != "":
		if u.User != nil {
			return nil, errors.New("must not hold credentials: set the client id and secret instead")
		}
		return u, nil
	case u.Scheme == "file" && u.Path != "":
		return u, nil
	}
	return nil, errors.New("must be a URL that begins with https://, http:// or file:///")
}

// unsecuredToken builds a token without a signature from the options of a JAAS entry, as Kafka's test login does.
//
// In Kafka's Java client: OAuthBearerUnsecuredLoginCallbackHandler.
func unsecuredToken(options map[string]string, now time.Time) (string, error) {
	principal, scopeName, lifetime := "sub", "scope", int64(3600)
	claims := map[string]any{}
	for _, key := range sortedKeys(options) {
		value := options[key]
		switch {
		case key == "unsecuredLoginPrincipalClaimName":
			principal = value
		case key == "unsecuredLoginScopeClaimName":
			scopeName = value
		case key == "unsecuredLoginLifetimeSeconds":
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n < 1 {
				return "", fmt.Errorf("option %s must be a number of seconds", key)
			}
			lifetime = n
		default:
			kind, name, ok := strings.Cut(strings.TrimPrefix(key, "unsecuredLogin"), "_")
			if !ok || name == "" {
				return "", fmt.Errorf("option %s is not known", key)
			}
			switch kind {
			case "StringClaim":
				claims[name] = value
			case "NumberClaim":
				n, err := strconv.ParseFloat(value, 64)
				if err != nil {
					return "", fmt.Errorf("option %s must be a number", key)
				}
				claims[name] = n
			case "ListClaim":
				if value == "" {
					return "", fmt.Errorf("option %s must begin with the character that parts its elements", key)
				}
				claims[name] = strings.Split(value[1:], value[:1])
			default:
				return "", fmt.Errorf("option %s is not known", key)
			}
		}
	}
	if p, ok := claims[principal].(string); !ok || p == "" {
		return "", fmt.Errorf("must hold the option unsecuredLoginStringClaim_%s, which names the user", principal)
	}
	switch claims[scopeName].(type) {
	case nil, string, []string:
	default:
		return "", fmt.Errorf("the scope claim %q must be a string or a list", scopeName)
	}
	if _, ok := claims["iat"]; !ok {
		claims["iat"] = float64(now.UnixMilli()) / 1000
	}
	if _, ok := claims["exp"]; !ok {
		claims["exp"] = float64(now.UnixMilli())/1000 + float64(lifetime)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	enc := base64.RawURLEncoding
	return enc.EncodeToString([]byte(`{"alg":"none"}`)) + "." + enc.EncodeToString(payload) + ".", nil
}
