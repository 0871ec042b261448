package kgoclient

import (
	"context"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Mechanism is a way to authenticate. It is made by Plain, ScramSHA256, ScramSHA512 or OAuthBearer.
type Mechanism interface {
	// Name is the name of Kafka's sasl.mechanism.
	Name() string

	mechanism() sasl.Mechanism
}

type mechanism struct{ m sasl.Mechanism }

func (m mechanism) Name() string              { return m.m.Name() }
func (m mechanism) mechanism() sasl.Mechanism { return m.m }

// Plain sends user and password as they are: use it over TLS only.
func Plain(user, password string) Mechanism {
	return mechanism{plain.Auth{User: user, Pass: password}.AsMechanism()}
}

// ScramSHA256 is SCRAM-SHA-256.
func ScramSHA256(user, password string) Mechanism {
	return mechanism{scram.Auth{User: user, Pass: password}.AsSha256Mechanism()}
}

// ScramSHA512 is SCRAM-SHA-512.
func ScramSHA512(user, password string) Mechanism {
	return mechanism{scram.Auth{User: user, Pass: password}.AsSha512Mechanism()}
}

// Token is what OAuthBearer authenticates one connection with.
type Token struct {
	Token      string
	Extensions map[string]string // SASL extensions, if the provider wants any (logicalCluster, ...)
}

// OAuthBearer is OAUTHBEARER. token is asked for each new connection and each reauthentication; it should keep a token as
// long as it is good.
func OAuthBearer(token func(context.Context) (Token, error)) Mechanism {
	return mechanism{oauth.Oauth(func(ctx context.Context) (oauth.Auth, error) {
		t, err := token(ctx)
		if err != nil {
			return oauth.Auth{}, err
		}
		return oauth.Auth{Token: t.Token, Extensions: t.Extensions}, nil
	})}
}
