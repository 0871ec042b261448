package millrace

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func wantEqual(t *testing.T, what string, got, want []string) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func TestApp_filterAndMap(t *testing.T) {
	k := newKafka(t)
	k.topic("in", 2)
	k.topic("out", 2)
	topology := mustBuild(t, func(b *Builder) {
		kept := From(b, strTopic("in")).Filter(func(_, v string) bool { return v != "drop" })
		MapValues(kept, strings.ToUpper).To(strTopic("out"))
	})
	k.produce(rec("in", "a", "one", 1), rec("in", "b", "drop", 2), rec("in", "c", "two", 3))
	a := k.start(topology)
	got := values(k.read("out", 2))
	slices.Sort(got)
	wantEqual(t, "out", got, []string{"a=ONE", "c=TWO"})
	a.untilDone()
	k.produce(rec("in", "d", "three", 4))
	if got := values(k.read("out", 3)); !slices.Contains(got, "d=THREE") {
		t.Errorf("out holds %v", got)
	}
	a.untilDone()
	a.stop()
	if m := a.app.Metrics(); m.Processed != 4 || m.Commits == 0 {
		t.Errorf("processed %d, commits %d", m.Processed, m.Commits)
	}
}

// Stop and start again: counts go on where they were, from the directory or from the changelog.
func TestApp_stopAndResume(t *testing.T) {
	for _, c := range []struct {
		name string
		opts func(t *testing.T) []AppOption
	}{
		{"in memory", func(*testing.T) []AppOption { return []AppOption{InMemoryState()} }},
		{"same directory", func(t *testing.T) []AppOption { return []AppOption{StateDir(t.TempDir())} }},
		{"new directory", func(*testing.T) []AppOption { return nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newKafka(t)
			k.topic("in", 3)
			k.topic("out", 3)
			opts := append(c.opts(t), CacheBytes(0))
			topology := countInto(t, "in", "out")
			want := make(map[string]int)
			for round := range 3 {
				for i := range 30 {
					key := fmt.Sprint("k", i%7)
					k.produce(rec("in", key, "x", int64(i)))
					want[key]++
				}
				a := k.start(topology, opts...)
				a.untilDone()
				a.stop()
				got := make(map[string]string)
				for _, s := range counts(t, k.all("out")) {
					key, n, _ := strings.Cut(s, "=")
					n, _, _ = strings.Cut(n, "@")
					got[key] = n
				}
				for key, n := range want {
					if got[key] != fmt.Sprint(n) {
						t.Errorf("round %d: count of %s is %s, want %d", round, key, got[key], n)
					}
				}
			}
			if n := len(k.all("out")); n != 90 {
				t.Errorf("%d counts were written for 90 records", n)
			}
		})
	}
}

// A process that dies without a word loses nothing: what it had not committed is counted again, never less.
func TestApp_killedAndResumed(t *testing.T) {
	for _, memory := range []bool{true, false} {
		t.Run(fmt.Sprint("memory ", memory), func(t *testing.T) {
			k := newKafka(t)
			k.topic("in", 2)
			k.topic("out", 2)
			opts := []AppOption{StateDir(t.TempDir()), CacheBytes(0), SessionTimeout(200 * time.Millisecond)}
			if memory {
				opts = append(opts, InMemoryState())
			}
			topology := countInto(t, "in", "out")
			for i := range 20 {
				k.produce(rec("in", fmt.Sprint("k", i%2), "x", int64(i)))
			}
			a := k.start(topology, append(opts, CommitInterval(time.Hour))...)
			k.read("out", 20)
			a.kill()
			if o := k.committed("app", "in"); len(o) != 0 {
				t.Errorf("a killed process has committed %v", o)
			}
			for i := range 10 {
				k.produce(rec("in", fmt.Sprint("k", i%2), "x", int64(i)))
			}
			a = k.start(topology, opts...)
			a.untilDone()
			a.stop()
			last := make(map[string]int64)
			for _, s := range counts(t, k.all("out")) {
				var key string
				var n, at int64
				if _, err := fmt.Sscanf(strings.NewReplacer("=", " ", "@", " ").Replace(s), "%s %d %d", &key, &n, &at); err != nil {
					t.Fatal(err)
				}
				last[key] = n
			}
			for _, key := range []string{"k0", "k1"} {
				if last[key] < 15 {
					t.Errorf("count of %s is %d, want at least 15", key, last[key])
				}
			}
		})
	}
}
