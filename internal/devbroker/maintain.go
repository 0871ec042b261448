package devbroker

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/internal/clock"
)

// maintenanceShare bounds the part of the broker's time that compaction may take: kfake does all its work on one
// goroutine, so nothing else is answered meanwhile.
const maintenanceShare = 20

func (b *Broker) startMaintenance(every time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	b.stop, b.done = cancel, make(chan struct{})
	wall := clock.System()
	go func() {
		defer close(b.done)
		for wait := every; clock.Wait(ctx, wall, wait) == nil; {
			start := wall.Now()
			if err := b.Maintain(ctx); err != nil && ctx.Err() == nil {
				b.log.Warn("millrace: broker: compaction and retention put off", "error", err)
			}
			wait = max(every, maintenanceShare*wall.Now().Sub(start))
		}
	}()
}

// Maintain compacts and applies retention once, now, as the broker does by itself from time to time. Compaction is left out
// while a transaction is open: kfake would drop a committed record for the sake of a newer one that may yet be aborted.
func (b *Broker) Maintain(ctx context.Context) error {
	topics, err := kadm.NewClient(b.client).ListTopics(ctx)
	if err != nil {
		return fmt.Errorf("millrace: broker: cannot list the topics to compact: %w", err)
	}
	names := topics.Names()
	// Looking for open transactions and compacting must not be parted by a produce request. kfake runs a control function
	// between two requests, so the round rides on a request of our own (or on anybody's of the same kind).
	b.cluster.ControlKey(int16(kmsg.Metadata), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.cluster.DropControl()
		if b.openTransaction(names) {
			b.cluster.ApplyRetention()
		} else {
			b.cluster.Compact() // applies retention too
		}
		return nil, nil, false
	})
	// Not cancelled with ctx: once it is sent, kfake must be done with the round before it is closed.
	if _, err := b.client.Request(context.WithoutCancel(ctx), kmsg.NewPtrMetadataRequest()); err != nil {
		return fmt.Errorf("millrace: broker: cannot start a round of compaction: %w", err)
	}
	return nil
}

func (b *Broker) openTransaction(topics []string) bool {
	for _, topic := range topics {
		for _, p := range b.cluster.PartitionInfos(topic) {
			if p.LastStableOffset < p.HighWatermark {
				return true
			}
		}
	}
	return false
}

// dialOnly is a dialer to one address, whichever it is asked for.
func dialOnly(addr string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, addr)
	}
}

// kfakeLogger hands kfake's log lines to slog.
type kfakeLogger struct{ log *slog.Logger }

func (l kfakeLogger) Logf(level kfake.LogLevel, format string, args ...any) {
	to := slog.LevelDebug
	switch level {
	case kfake.LogLevelError:
		to = slog.LevelError
	case kfake.LogLevelWarn:
		to = slog.LevelWarn
	case kfake.LogLevelInfo, kfake.LogLevelDebug, kfake.LogLevelNone:
	}
	if ctx := context.Background(); l.log.Enabled(ctx, to) {
		l.log.Log(ctx, to, fmt.Sprintf("millrace: broker: "+format, args...))
	}
}
