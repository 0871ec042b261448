package runtime

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/broker/brokertest"
	"github.com/millrace-io/millrace/internal/clock"
	"github.com/millrace-io/millrace/internal/restore"
	"github.com/millrace-io/millrace/internal/state"
)

// following runs the goroutine that keeps copies level, with one copy for each changelog.
type following struct {
	*followers
	c      *brokertest.Cluster
	copies []*standby
	events chan Event
}

func startFollowing(t *testing.T, changelogs int) *following {
	c := brokertest.New()
	f := &following{followers: newFollowers(), c: c, events: make(chan Event, 100)}
	f.clock, f.admin, f.group = clock.System(), c.Admin(), "app"
	f.log, f.restoring = slog.New(slog.DiscardHandler), func() bool { return false }
	f.post = func(e Event) { f.events <- e }
	for i := range changelogs {
		name := fmt.Sprintf("log-%d", i)
		c.AddTopic(name, 1)
		c.Append(tp(name, 0), kv("a", "1"))
		f.copies = append(f.copies, &standby{slot: &slot{id: broker.TaskID{Partition: int32(i)}, name: fmt.Sprint("0_", i)}})
	}
	return f
}

func (f *following) follow(i int) {
	log := restore.Log{TopicPartition: tp(fmt.Sprintf("log-%d", i), 0), Store: "s", Kind: state.KeyValue}
	f.order(Follow{standby: f.copies[i], Job: restore.NewStandby(restore.Config{
		Task: f.copies[i].slot.name, Group: "app", Admin: f.admin, Reader: f.c.Reader(), Logs: []restore.Log{log},
		Open: func(state.ChangelogIdentity) (*state.Set, error) {
			return state.NewMemorySet([]state.Spec{{Name: "s", Kind: state.KeyValue, Logged: true}})
		},
		NowMs: f.clock.NowMs,
	})})
}

// start begins to follow; what is followed is let go of at the end of the test.
func (f *following) start(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// next waits for an event of a kind, for less time than a copy that is stuck would take.
func next[E Event](t *testing.T, f *following) E {
	t.Helper()
	timeout := time.After(followWait / 2)
	for {
		select {
		case e := <-f.events:
			if want, ok := e.(E); ok {
				return want
			}
		case <-timeout:
			t.Fatalf("no %T", *new(E))
		}
	}
}

// A changelog that cannot be read, or whose end nobody knows, holds up neither the copies of other tasks nor a task that is to begin
// with its copy.
func TestFollowers_oneChangelogIsAway(t *testing.T) {
	of := func(topic string) func(brokertest.Call) bool {
		return func(c brokertest.Call) bool {
			return slices.ContainsFunc(c.Partitions, func(p broker.TopicPartition) bool { return p.Topic == topic })
		}
	}
	for _, op := range []brokertest.Op{brokertest.OpRead, brokertest.OpListOffsets} {
		t.Run(string(op), func(t *testing.T) {
			f := startFollowing(t, 2)
			stuck := make(chan struct{}, 1000)
			f.c.Inject(brokertest.Fault{Op: op, Block: true, Times: -1, When: of("log-0"), Do: func(brokertest.Call) { stuck <- struct{}{} }})
			f.follow(0)
			f.follow(1)
			f.start(t)
			if op == brokertest.OpListOffsets { // the first copy cannot even be opened
				<-stuck
			} else if e := next[Levelled](t, f); e.standby != f.copies[1] {
				t.Errorf("%s is level", e.standby.slot.name)
			}
			f.order(Unfollow{standby: f.copies[1], Keep: true})
			e := next[Unfollowed](t, f)
			if e.standby != f.copies[1] || e.Err != nil {
				t.Fatalf("let go of %s, error %v", e.standby.slot.name, e.Err)
			}
			if op == brokertest.OpRead && e.Set == nil {
				t.Error("its stores are not handed over")
			}
		})
	}
}
