package runtime

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/broker/brokertest"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/serde"
)

// Refused access stops an instance under exactly-once, with an error that says what was refused, and nothing is committed.
func TestRefused_exactlyOnce(t *testing.T) {
	for name, x := range map[string]struct {
		refuse func(*stepper)
		code   broker.Code
		says   string
	}{
		"the transactional id": {func(s *stepper) {
			s.cluster.ExpireTxn("app-x")
			s.cluster.Inject(brokertest.Fault{Op: brokertest.OpEndTxn, Err: broker.ErrNoAnswer})
			s.cluster.Inject(brokertest.Fault{Op: brokertest.OpProve, Err: broker.CodeTransactionalIDAuthorizationFailed})
		}, broker.CodeTransactionalIDAuthorizationFailed, "the transactional id cannot be taken"},
		"the group": {func(s *stepper) {
			s.cluster.Inject(brokertest.Fault{Op: brokertest.OpTxnOffsets, Err: broker.CodeGroupAuthorizationFailed})
		}, broker.CodeGroupAuthorizationFailed, "a transaction cannot be committed"},
		"the topic": {func(s *stepper) {
			s.prod.Fail(brokertest.ProduceFault{Err: broker.CodeTopicAuthorizationFailed})
		}, broker.CodeTopicAuthorizationFailed, "grant WRITE on the topic"},
	} {
		t.Run(name, func(t *testing.T) {
			s := exactly(t, countTopology(t))
			x.refuse(s)
			s.cluster.Append(tp("in", 0), kv("a", "1"))
			for range 40 {
				s.settle()
				s.advance(500 * time.Millisecond)
			}
			if !s.finished || !errors.Is(s.err, x.code) || !strings.Contains(s.err.Error(), x.says) {
				t.Errorf("finished %t, error %v, want %v and %q", s.finished, s.err, x.code, x.says)
			}
			s.wantCommitted(-1)
			wantOutputs(t, s.cluster)
		})
	}
}

// twoStores keeps the latest value of each key in the named stores, on disk, and writes the updates of the first one to out.
func twoStores(t testing.TB, names ...string) *topology.Topology {
	return build(t, func(b *topology.Builder) {
		b.AddSource(topology.Source{Name: "source", Topics: []string{"in"}, Op: op.NewSource(op.SourceSpec[string, string]{Key: serde.String, Value: serde.String})})
		parent := "source"
		for i, name := range names {
			spec := &op.TableSpec{Store: name}
			step := "latest-" + name
			b.AddProcessor(topology.Processor{Name: step, Parents: []string{"source"}, Op: op.NewTableSource[string, string](spec)})
			b.AddStore(topology.Store{Name: name, Kind: topology.KeyValue, Persistent: true, Logged: true, Op: &op.KVFactory[string, string]{
				Spec: op.StoreSpec{Name: name, Logged: true}, Key: serde.String, Value: serde.String,
			}}, step)
			if i == 0 {
				b.AddProcessor(topology.Processor{Name: "stream", Parents: []string{step}, Op: op.NewToStream[string, string]()})
				parent = "stream"
			}
		}
		b.AddSink(topology.Sink{Name: "sink", Topic: "out", Parents: []string{parent}, Op: op.NewSink(op.SinkSpec[string, string]{Topic: "out", Key: serde.String, Value: serde.String})})
	})
}

// A topology that has changed under one application id goes on from what is committed: stores that stay keep what they hold,
// those that are new or renamed begin empty, which the log tells, and those that are gone do no harm. A store that comes back
// later is level with its changelog.
func TestChanged_stores(t *testing.T) {
	guarantees(t, func(t *testing.T, eos bool) {
		for name, x := range map[string]struct {
			then  []string
			news  []string
			holds map[string]bool // by store: whether the key of before is there
		}{
			"added":     {[]string{"one", "two", "three"}, []string{"three"}, map[string]bool{"one": true, "two": true, "three": false}},
			"removed":   {[]string{"one"}, nil, map[string]bool{"one": true}},
			"renamed":   {[]string{"one", "due"}, []string{"due"}, map[string]bool{"one": true, "due": false}},
			"unchanged": {[]string{"one", "two"}, nil, map[string]bool{"one": true, "two": true}},
			"reordered": {[]string{"two", "one"}, nil, map[string]bool{"one": true, "two": true}},
		} {
			t.Run(name, func(t *testing.T) {
				var opts []stepOption
				if eos {
					opts = append(opts, transactional("app-x"))
				}
				fs := vfs.NewMem()
				c := cluster()
				run := func(topo *topology.Topology, check func(s *stepper)) {
					s := newStepper(t, c, topo, append(opts, onDisk(t, fs, nil))...)
					s.settle()
					s.assign(t0)
					s.settle()
					s.advance(100 * time.Millisecond)
					check(s)
					s.step(Stop{})
					s.settle()
					if !s.finished || s.err != nil {
						t.Fatalf("finished %t, error %v", s.finished, s.err)
					}
					if err := s.db.Close(); err != nil {
						t.Fatal(err)
					}
				}
				c.Append(tp("in", 0), kv("a", "1"))
				run(twoStores(t, "one", "two"), func(s *stepper) { s.wantCommitted(1) })

				var log bytes.Buffer
				topo := twoStores(t, x.then...)
				p := &planner{appID: "app", topology: topo, resolve: topology.DefaultResolveConfig(), admin: c.Admin(), log: slog.New(slog.NewTextHandler(&log, nil))}
				plan, err := p.look(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if err := p.make(t.Context(), plan); err != nil {
					t.Fatal(err)
				}
				p.warnNewStores(t.Context(), plan)
				want := ""
				if len(x.news) > 0 {
					want = fmt.Sprintf("stores=%v changelogs=[app-%s-changelog] input_topics=[in]", x.news, x.news[0])
				}
				if told := strings.Contains(log.String(), "stores="); told != (want != "") || !strings.Contains(log.String(), want) {
					t.Errorf("told %t, want %q:\n%s", told, want, &log)
				}
				c.Append(tp("in", 0), kv("b", "2"))
				run(topo, func(s *stepper) {
					s.wantCommitted(2)
					for store, want := range x.holds {
						kv, err := s.machine.find(t0).life.set.KeyValue(store)
						if err != nil {
							t.Fatal(err)
						}
						if _, ok, err := kv.Get([]byte("a")); err != nil || ok != want {
							t.Errorf("store %s holds the key of before: %t (%v), want %t", store, ok, err, want)
						}
						if _, ok, err := kv.Get([]byte("b")); err != nil || !ok {
							t.Errorf("store %s does not hold the key of after (%v)", store, err)
						}
					}
				})
				c.Append(tp("in", 0), kv("c", "3"))
				run(twoStores(t, "one", "two"), func(s *stepper) { s.wantCommitted(3) })
				wantOutputs(t, c, "a=1", "b=2", "c=3")
			})
		}
	})
}

// Brokers that are down at the start are waited for; anything else that keeps them from being reached is an error at once.
func TestStart_brokersThatAreDown(t *testing.T) {
	down := fmt.Errorf("connect: %w: %w", broker.ErrUnreachable, syscall.ECONNREFUSED)
	for name, x := range map[string]struct {
		answers []error
		says    string
		warns   int
	}{
		"come up":         {[]error{down, down, nil}, "", 1},
		"refuse to speak": {[]error{down, broker.ErrUnreachable}, "no broker can be reached", 1},
		"stay down":       {[]error{down, down, down, down, down}, "within 1s (default.api.timeout.ms)", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				n := 0
				r := NewRunner(RunnerConfig{StartTimeout: time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil)), Clients: Clients{Ping: func(context.Context) error {
					n++
					return x.answers[min(n, len(x.answers))-1]
				}}})
				err := r.reach(t.Context())
				if x.says == "" && err != nil || x.says != "" && (err == nil || !strings.Contains(err.Error(), x.says) || !errors.Is(err, broker.ErrUnreachable)) {
					t.Errorf("error %v, want %q", err, x.says)
				}
				if got := strings.Count(log.String(), "level=WARN"); got != x.warns {
					t.Errorf("%d warnings: %s", got, &log)
				}
			})
		})
	}
}
