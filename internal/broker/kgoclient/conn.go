package kgoclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/internal/broker"
)

// conn is a franz-go client that remembers why connecting to which address failed.
type conn struct {
	*kgo.Client
	cfg      Config
	attempts *attempts
}

func connect(cfg Config, more ...kgo.Opt) (*conn, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	a := &attempts{failed: make(map[string]error)}
	cl, err := kgo.NewClient(append(append(cfg.opts(), kgo.WithHooks(a)), more...)...)
	if err != nil {
		return nil, fmt.Errorf("millrace: set up client: %w", err)
	}
	cfg.Seeds.add(cl)
	return &conn{Client: cl, cfg: cfg, attempts: a}, nil
}

// attempts notes the outcome of the last attempt to connect to each address.
type attempts struct {
	mu     sync.Mutex
	failed map[string]error
}

var _ kgo.HookBrokerConnect = (*attempts)(nil)

func (a *attempts) OnBrokerConnect(meta kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	addr := net.JoinHostPort(meta.Host, fmt.Sprint(meta.Port))
	if err == nil {
		delete(a.failed, addr)
		return
	}
	if errors.Is(err, kgo.ErrClientClosed) || errors.Is(err, context.Canceled) {
		return
	}
	a.failed[addr] = err
}

// list gives the addresses that could not be connected to, each with the reason and what to check.
func (a *attempts) list(cfg Config) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []string
	for addr, err := range a.failed {
		out = append(out, addr+": "+explainConn(err, cfg))
	}
	slices.Sort(out)
	return out
}

func (a *attempts) of(addr string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failed[addr]
}

func explainConn(err error, cfg Config) string {
	text := strings.TrimPrefix(err.Error(), "unable to dial: ")
	hint := ""
	var dns *net.DNSError
	var firstRead *kgo.ErrFirstReadEOF
	var te *tlsError
	var ke *kerr.Error
	switch {
	case errors.As(err, &dns):
		hint = "check the host name"
	case strings.Contains(text, "remote error: tls:"):
		// Since TLS 1.3 a broker refuses a client's certificate only after the handshake.
		hint = "the broker refuses this client's certificate: check whether the listener wants one, that it is valid and signed by an authority that the broker trusts"
	case errors.As(err, &te):
		hint = "check that the listener speaks TLS and that its certificate is signed by a trusted authority for this host name"
	case strings.Contains(text, "tls alert record"):
		text, hint = "the answer is a TLS alert", "this listener wants TLS"
	case errors.As(err, &ke), cfg.SASL != nil && !errors.As(err, &firstRead) && strings.Contains(strings.ToLower(text), "sasl"):
		hint = "check the user, the password and that the listener offers this SASL mechanism"
		if cfg.SASL != nil && cfg.SASL.Name() == "OAUTHBEARER" {
			hint = "check who issues the token, whether it is still valid, and that the listener offers OAUTHBEARER"
		}
	case errors.As(err, &firstRead) || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET):
		text = "the broker closed the connection"
		switch {
		case cfg.SASL != nil:
			hint = "check the user and the password, that the listener offers " + cfg.SASL.Name() + ", and whether it wants TLS"
		case cfg.TLS != nil:
			hint = "check that this listener speaks TLS, and whether it wants SASL"
		default:
			hint = "check whether this listener wants TLS or SASL"
		}
	case errors.Is(err, syscall.ECONNREFUSED):
		hint = "check that a broker listens there"
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded):
		hint = "check the address, the network and the firewall"
		if cfg.TLS == nil {
			hint += ", and whether this listener wants TLS"
		} else {
			hint += ", and that this listener speaks TLS"
		}
	}
	if hint != "" {
		return text + " (" + hint + ")"
	}
	return text
}

// fail turns an error of franz-go into one of package broker. what says what was done, to which topic, group or partition.
func (c *conn) fail(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("millrace: %s: %w", what, c.cause(err))
}

func (c *conn) cause(err error) error {
	var code broker.Code
	if errors.As(err, &code) {
		return err
	}
	var ke *kerr.Error
	if errors.As(err, &ke) {
		return broker.Code(ke.Code)
	}
	if errors.Is(err, kgo.ErrClientClosed) {
		return broker.ErrClosed
	}
	// No answer: because nobody can be reached, if that is known, else for a reason of its own.
	if failed := c.attempts.list(c.cfg); len(failed) > 0 {
		return &noAnswer{unreachable: true, why: strings.Join(failed, "; "), err: err}
	}
	return &noAnswer{why: err.Error(), err: err}
}

// noAnswer is a request without a response.
type noAnswer struct {
	unreachable bool // connecting failed
	why         string
	err         error
}

func (e *noAnswer) Error() string {
	if e.unreachable {
		return broker.ErrUnreachable.Error() + ": " + e.why
	}
	return broker.ErrNoAnswer.Error() + ": " + e.why
}

func (e *noAnswer) Unwrap() error { return e.err }

// Is: an unreachable broker gives no answer either, and an earlier connection may have carried the request.
func (e *noAnswer) Is(target error) bool {
	return target == broker.ErrNoAnswer || e.unreachable && target == broker.ErrUnreachable
}

// codeErr turns an error code of a response into an error, nil for 0.
func codeErr(code int16) error {
	if code == 0 {
		return nil
	}
	return broker.Code(code)
}

// latecomers is how long Ping waits for further addresses once one has answered.
const latecomers = 500 * time.Millisecond

// Ping checks that the cluster can be spoken to: it asks every bootstrap address until one answers, and leaves those that
// do in the configuration's Seeds. It takes at most as long as the context and 2 x DialTimeout, for a wrong address, a failed
// TLS handshake and a refused login alike, and the error (it matches broker.ErrUnreachable) says for each address what went
// wrong and what to check.
func Ping(ctx context.Context, cfg Config) error {
	shared := cfg.Seeds
	cfg.Seeds = nil
	c, err := connect(cfg, kgo.RequestRetries(0))
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, 2*c.cfg.DialTimeout)
	defer cancel()

	type answer struct {
		addr string
		err  error
	}
	seeds := c.SeedBrokers()
	answers := make(chan answer, len(seeds))
	for i, b := range seeds {
		go func() {
			// Metadata needs a connection that is through TLS and SASL.
			req := kmsg.NewPtrMetadataRequest()
			req.Topics = []kmsg.MetadataRequestTopic{}
			_, err := b.Request(ctx, req)
			answers <- answer{cfg.Bootstrap[i], err}
		}()
	}
	var answered, failed []string
	var last error
	var enough <-chan time.Time
	for waiting := len(seeds); waiting > 0; waiting-- {
		var a answer
		select {
		case a = <-answers:
		case <-enough:
			return shared.narrow(answered)
		}
		if a.err == nil {
			answered = append(answered, a.addr)
			if enough == nil {
				t := time.NewTimer(latecomers)
				defer t.Stop()
				enough = t.C
			}
			continue
		}
		if err := c.attempts.of(a.addr); err != nil {
			a.err = err // what made the time run out
		}
		failed = append(failed, a.addr+": "+explainConn(a.err, c.cfg))
		if last == nil || errors.Is(last, syscall.ECONNREFUSED) {
			last = a.err // a refusal stands only if all have refused: the brokers are down, and the addresses may be right
		}
	}
	switch len(answered) {
	case 0:
	case len(seeds):
		return nil
	default:
		return shared.narrow(answered)
	}
	slices.Sort(failed)
	return fmt.Errorf("millrace: connect: %w", &noAnswer{unreachable: true, why: strings.Join(failed, "; "), err: last})
}
