package integration_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/millrace-io/millrace"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// A state directory that another instance has is refused, with its path; once that instance has ended it can be had.
func TestStateDir_inUse(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		app, dir := b.Name("in-use"), t.TempDir()
		topics := childTopics{In: kafkatest.CreateTopic(t, b, "in", 1), Out: kafkatest.CreateTopic(t, b, "out", 1)}
		settings := map[string]string{"application.id": app, "bootstrap.servers": strings.Join(b.Bootstrap(), ","), "state.dir": dir}
		other := startChild(t, "other", childSpec{Topology: "count", Topics: topics, Settings: settings})
		await(t, "the other process has the directory", patience, func() bool { return other.Status().Ready == 1 })
		err := startKind(t, b, app, "count", topics, millrace.StateDir(dir)).fails()
		if !errors.Is(err, millrace.ErrStateDirInUse) {
			t.Errorf("the error is %v", err)
		}
		says(t, err, filepath.Join(dir, app), fmt.Sprint(other.ID()), "give each instance a directory of its own")
		if s := other.Status(); s.Ready != 1 {
			t.Errorf("the other process is disturbed: %+v", s)
		}
		other.Kill() // the lock ends with its holder, however it ends
		r := startKind(t, b, app, "count", topics, millrace.StateDir(dir))
		r.untilRunning()
		r.stop()
	})
}

// State of another cluster, or of another application, is refused.
func TestStateDir_foreign(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		app, dir := b.Name("foreign"), t.TempDir()
		elsewhere := kafkatest.Embedded(t, kfake.ClusterID("another-cluster"), kfake.SeedTopics(1, "in", "out"))
		r := startKind(t, elsewhere, app, "count", childTopics{In: "in", Out: "out"}, millrace.StateDir(dir))
		r.untilRunning()
		r.stop()

		topics := childTopics{In: kafkatest.CreateTopic(t, b, "in", 1), Out: kafkatest.CreateTopic(t, b, "out", 1)}
		err := startKind(t, b, app, "count", topics, millrace.StateDir(dir)).fails()
		if !errors.Is(err, millrace.ErrForeignState) {
			t.Errorf("the error is %v", err)
		}
		says(t, err, filepath.Join(dir, app), "another-cluster", "cluster")

		renamed := b.Name("renamed")
		if err := os.Rename(filepath.Join(dir, app), filepath.Join(dir, renamed)); err != nil {
			t.Fatal(err)
		}
		err = startKind(t, elsewhere, renamed, "count", childTopics{In: "in", Out: "out"}, millrace.StateDir(dir)).fails()
		if !errors.Is(err, millrace.ErrForeignState) {
			t.Errorf("the error is %v", err)
		}
		says(t, err, filepath.Join(dir, renamed), app)
	})
}

// damaged is an application that counts each of its keys once a round, on a state directory that gets damaged.
type damaged struct {
	t      *testing.T
	b      kafkatest.Broker
	app    string
	dir    string
	topics childTopics
	keys   int
	rounds int
}

func newDamaged(t *testing.T, b kafkatest.Broker, keys int) *damaged {
	t.Helper()
	d := &damaged{t: t, b: b, app: b.Name("damaged"), dir: t.TempDir(), keys: keys}
	d.topics = childTopics{In: kafkatest.CreateTopic(t, b, "in", 1), Out: kafkatest.CreateTopic(t, b, "out", 1)}
	return d
}

func (d *damaged) load() {
	d.t.Helper()
	d.rounds++
	kafkatest.Load(d.t, d.b, d.topics.In, numbered("v", d.keys)...)
}

func (d *damaged) start() *running {
	d.t.Helper()
	return startKind(d.t, d.b, d.app, "count", d.topics, millrace.StateDir(d.dir), millrace.CacheBytes(0))
}

// finish waits until all is counted, stops the application and judges the count of each key.
func (d *damaged) finish(r *running, right func(n, want int64) bool) {
	d.t.Helper()
	awaitCommitted(d.t, d.b, d.app, d.topics.In, int64(d.rounds*d.keys))
	r.stop()
	got := highest(d.t, kafkatest.ReadAll(d.t, d.b, d.topics.Out, kafkatest.Committed))
	for i := range d.keys {
		if n := got[fmt.Sprint("k", i)]; !right(n, int64(d.rounds)) {
			d.t.Fatalf("the count of k%d is %d after %d rounds", i, n, d.rounds)
		}
	}
}

func exactly(n, want int64) bool { return n == want }
func atLeast(n, want int64) bool { return n >= want }

// Whatever file of the database is damaged, the counts go on where they were: stores are rebuilt from the changelog, and what
// is damaged is kept aside.
func TestStateDir_damaged(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		d := newDamaged(t, b, 100)
		d.load()
		d.finish(d.start(), exactly)
		for _, c := range []struct {
			files string
			aside bool // the whole database is moved aside, and it is said
		}{
			{"db/MANIFEST-*", false}, {"db/*.sst", true}, {"db/OPTIONS-*", true}, {"catalogue", false}, {"db/marker.manifest.*", false},
		} {
			t.Run(c.files, func(t *testing.T) {
				d.t = t
				damage(t, filepath.Join(d.dir, d.app, c.files))
				d.load()
				r := d.start()
				d.finish(r, exactly)
				if !r.logged("store restored", "store=counts", fmt.Sprint("records=", (d.rounds-1)*d.keys)) {
					t.Error("the store was not rebuilt from the whole changelog")
				}
				if !c.aside {
					return
				}
				if !r.logged("ERROR", "the state database was damaged: it was moved aside", filepath.Join(d.dir, d.app)) {
					t.Error("the log does not tell of the damage")
				}
				if kept, _ := filepath.Glob(filepath.Join(d.dir, d.app, "db.damaged-*")); len(kept) != 1 {
					t.Errorf("kept aside: %v", kept)
				}
			})
		}
	})
}

// Damage that shows only when a row is read ends the application with an error that says so and what to do; the next start
// rebuilds the stores.
func TestStateDir_damageFoundLate(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		d := newDamaged(t, b, 20_000)
		d.load()
		d.finish(d.start(), exactly)
		damage(t, filepath.Join(d.dir, d.app, "db/*.sst"))
		d.load()
		err := d.start().fails()
		says(t, err, filepath.Join(d.dir, d.app), "step counts", "damaged", "checksum mismatch", "the next start moves the database aside")
		r := d.start()
		d.finish(r, atLeast)
		if !r.logged("ERROR", "the state database was damaged: it was moved aside", filepath.Join(d.dir, d.app)) {
			t.Error("the log does not tell of the damage")
		}
	})
}

// damage flips all bits in the middle of the files that match, and removes those that are empty.
func damage(t *testing.T, pattern string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no file is %s: %v", pattern, err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) == 0 {
			if err := os.Remove(f); err != nil {
				t.Fatal(err)
			}
			continue
		}
		for i := len(data) / 3; i < 2*len(data)/3+1; i++ {
			data[i] ^= 0xff
		}
		if err := os.WriteFile(f, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
