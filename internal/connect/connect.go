// Package connect turns settings into what a client needs to reach the brokers: addresses, time limits, TLS and SASL.
package connect

import (
	"context"
	"time"

	"github.com/millrace-io/millrace/internal/broker/kgoclient"
	"github.com/millrace-io/millrace/internal/config"
)

// Client is the configuration of a client by the connection settings of one of the clients of a Config. now tells the time
// for tokens that expire.
func Client(bootstrap []string, clientID string, conn *config.Connection, now func() time.Time) (kgoclient.Config, error) {
	cfg := kgoclient.Config{
		Bootstrap: bootstrap, ClientID: clientID, DialTimeout: conn.ConnectionSetup, RequestTimeout: conn.RequestTimeout,
		RetryBackoff: conn.RetryBackoff, RetryBackoffMax: conn.RetryBackoffMax, MetadataMaxAge: conn.MetadataMaxAge,
	}
	sec := &conn.Security
	if sec.Protocol.TLS() {
		t, err := sec.TLS.Build()
		if err != nil {
			return cfg, err
		}
		cfg.TLS = t
	}
	if !sec.Protocol.SASL() {
		return cfg, nil
	}
	login := &sec.SASL.Login
	switch sec.SASL.Mechanism {
	case config.MechanismPlain:
		cfg.SASL = kgoclient.Plain(login.Username, login.Password.Reveal())
	case config.MechanismScram256:
		cfg.SASL = kgoclient.ScramSHA256(login.Username, login.Password.Reveal())
	case config.MechanismScram512:
		cfg.SASL = kgoclient.ScramSHA512(login.Username, login.Password.Reveal())
	case config.MechanismOAuthBearer:
		tokens, err := sec.SASL.NewTokenSource(now)
		if err != nil {
			return cfg, err
		}
		cfg.SASL = kgoclient.OAuthBearer(func(ctx context.Context) (kgoclient.Token, error) {
			t, err := tokens.Token(ctx)
			return kgoclient.Token{Token: t.Value.Reveal(), Extensions: t.Extensions}, err
		})
	}
	return cfg, nil
}
