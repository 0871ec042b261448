package runtime

import (
	"errors"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/state"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/serde"
)

// diskTopology keeps the latest value of each key on disk and writes the updates to out.
func diskTopology(t testing.TB) *topology.Topology {
	return build(t, func(b *topology.Builder) {
		spec := &op.TableSpec{Store: "counts"}
		b.AddSource(topology.Source{Name: "source", Topics: []string{"in"}, Op: op.NewSource(op.SourceSpec[string, string]{Key: serde.String, Value: serde.String})})
		b.AddProcessor(topology.Processor{Name: "latest", Parents: []string{"source"}, Op: op.NewTableSource[string, string](spec)})
		b.AddStore(topology.Store{Name: "counts", Kind: topology.KeyValue, Persistent: true, Logged: true, Op: &op.KVFactory[string, string]{
			Spec: op.StoreSpec{Name: "counts", Logged: true}, Key: serde.String, Value: serde.String,
		}}, "latest")
		b.AddProcessor(topology.Processor{Name: "stream", Parents: []string{"latest"}, Op: op.NewToStream[string, string]()})
		b.AddSink(topology.Sink{Name: "sink", Topic: "out", Parents: []string{"stream"}, Op: op.NewSink(op.SinkSpec[string, string]{Topic: "out", Key: serde.String, Value: serde.String})})
	})
}

// onDisk keeps the stores of a stepper in a directory.
func onDisk(t *testing.T, fs vfs.FS, free func(string) (int64, error)) stepOption {
	return func(c *Config, s *stepper) {
		db, err := state.OpenDB(state.Options{FS: fs, Dir: "state", ClusterID: "test-cluster", ApplicationID: "app", Now: s.clock.NowMs, FreeBytes: free})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		s.db = db
		c.OpenSet = db.OpenSet
		c.Headers = func(name string) (map[string]state.Header, error) {
			all, err := db.Tasks()
			m := make(map[string]state.Header)
			for _, x := range all {
				if x.Task == name {
					m[x.Store] = x.Header
				}
			}
			return m, err
		}
	}
}

// A full disk stops the task that wants to write, with an error, and not the instance; once there is room it goes on, and
// nothing is lost.
func TestDisk_full(t *testing.T) {
	free := int64(10 << 30)
	c := cluster()
	k := keyOf(0)
	c.Append(tp("in", 0), kv(k, "1"))
	s := newStepper(t, c, diskTopology(t), onDisk(t, vfs.NewMem(), func(string) (int64, error) { return free, nil }))
	s.settle()
	s.assign(t0)
	s.advance(100 * time.Millisecond)
	s.wantCommitted(1)
	free = 1 << 20
	c.Append(tp("in", 0), kv(k, "2"))
	s.settle()
	s.advance(100 * time.Millisecond)
	s.wantCommitted(2) // the offsets are Kafka's, and the changelog has the write
	for range 10 {
		s.advance(time.Second)
	}
	if s.finished {
		t.Fatalf("it stopped: %v", s.err)
	}
	s.wantState(StateRebalancing)
	c.Append(tp("in", 0), kv(k, "3"))
	s.settle()
	s.wantCommitted(2)
	free = 10 << 30
	for range 6 {
		s.advance(time.Second)
	}
	s.wantState(StateRunning)
	s.wantCommitted(3)
	wantOutputs(t, c, k+"=1", k+"=2", k+"=3")
	if v := s.stored(t0, k); v != "3" {
		t.Errorf("the store holds %q, want 3", v)
	}
}

// A disk that is full when a task is released costs nothing but time: what was not written is in the changelog.
func TestDisk_fullAtRelease(t *testing.T) {
	free := int64(10 << 30)
	c := cluster()
	k := keyOf(0)
	c.Append(tp("in", 0), kv(k, "1"))
	s := newStepper(t, c, diskTopology(t), onDisk(t, vfs.NewMem(), func(string) (int64, error) { return free, nil }))
	s.settle()
	s.assign(t0)
	s.advance(100 * time.Millisecond)
	s.wantCommitted(1)
	free = 1 << 20
	s.assign()
	s.advance(time.Second)
	if s.finished {
		t.Fatalf("it stopped: %v", s.err)
	}
	free = 10 << 30
	s.assign(t0)
	s.advance(time.Second)
	if v := s.stored(t0, k); v != "1" {
		t.Errorf("the store holds %q, want 1", v)
	}
}

// A disk that stays full stops the instance in the end, with an error that says so.
func TestDisk_fullForTooLong(t *testing.T) {
	free := int64(10 << 30)
	c := cluster()
	c.Append(tp("in", 0), kv("a", "1"))
	s := newStepper(t, c, diskTopology(t), onDisk(t, vfs.NewMem(), func(string) (int64, error) { return free, nil }))
	s.settle()
	s.assign(t0)
	free = 1 << 20
	for i := 0; i < 100 && !s.finished; i++ {
		s.advance(time.Second)
	}
	if !s.finished || !errors.Is(s.err, state.ErrDiskFull) {
		t.Errorf("finished %t, error %v", s.finished, s.err)
	}
}

// stored reads a key of the store "counts" of a running task.
func (s *stepper) stored(id broker.TaskID, key string) string {
	s.t.Helper()
	kv, err := s.machine.find(id).life.set.KeyValue("counts")
	if err != nil {
		s.t.Fatal(err)
	}
	v, ok, err := kv.Get([]byte(key))
	if err != nil || !ok {
		s.t.Fatalf("%v %t", err, ok)
	}
	return string(v[8:])
}

// A task that is given back and taken again goes on from what is on disk.
func TestDisk_takenBack(t *testing.T) {
	c := cluster()
	k := keyOf(0)
	c.Append(tp("in", 0), kv(k, "1"))
	s := newStepper(t, c, diskTopology(t), onDisk(t, vfs.NewMem(), nil))
	s.settle()
	s.assign(t0)
	s.member.Revoke(t0)
	s.settle()
	s.wantCommitted(1)
	reads := len(s.cluster.Calls("read"))
	s.assign(t0)
	if v := s.stored(t0, k); v != "1" {
		t.Errorf("the store holds %q", v)
	}
	if n := len(s.cluster.Calls("read")) - reads; n != 0 {
		t.Errorf("%d reads of the changelog although the store is level", n)
	}
	s.step(Stop{})
	s.settle()
	if !s.finished || s.err != nil {
		t.Fatalf("finished %t, error %v", s.finished, s.err)
	}
}
