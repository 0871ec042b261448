package integration_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/millrace-io/millrace"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

var generationLogged = regexp.MustCompile(`msg=assigned .*generation=(\d+)`)

// generations are those in which an instance was given tasks.
func (r *running) generations() (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.lines {
		if m := generationLogged.FindStringSubmatch(l); m != nil {
			all = append(all, m[1])
		}
	}
	return all
}

// Three instances are restarted one after the other, static members that stay in the group while they are away: the group does not
// rebalance once. Each comes back to its own tasks in the generation that it had left, and nobody else notices. (The embedded broker rebalances whenever a static member comes back with other
// data of its own, which a real coordinator does not look at.)
func TestRollingRestart_staticMembers(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	app, dirs := b.Name("rolling"), t.TempDir()
	in, out := kafkatest.CreateTopic(t, b, "in", 12), kafkatest.CreateTopic(t, b, "out", 12)
	begin := func(i int) *running {
		bld := millrace.NewBuilder()
		counted := millrace.Count(millrace.From(bld, texts(in)).GroupByKey(), millrace.As("counts"))
		counted.ToStream().To(numbers(out))
		return start(t, b, app, buildTopology(t, bld), millrace.StateDir(filepath.Join(dirs, fmt.Sprint(i))), millrace.StayInGroup(),
			millrace.CacheBytes(0), millrace.MaxWarmups(0), millrace.CommitInterval(100*time.Millisecond), millrace.SessionTimeout(45*time.Second))
	}
	shared := func(r *running) func() bool { return func() bool { return runningTasks(r.app) == 4 } }
	var all []*running
	for i := range 3 {
		all = append(all, begin(i))
	}
	for i, r := range all {
		r.until(fmt.Sprint("instance ", i, " has its share"), shared(r))
	}
	kafkatest.Load(t, b, in, numbered("a", 100)...)
	for _, r := range all {
		r.untilDone()
	}
	before := make([]int, 3)
	for i, r := range all {
		before[i] = len(r.generations())
	}
	was := all[0].generations()[before[0]-1]
	for i := range all {
		all[i].stop()
		all[i] = begin(i)
		all[i].until(fmt.Sprint("instance ", i, " is back"), shared(all[i]))
		if g := all[i].generations(); len(g) != 1 || g[0] != was {
			t.Errorf("instance %d was given tasks in generations %v, and the group was in %s", i, g, was)
		}
		before[i] = 1
		kafkatest.Load(t, b, in, numbered(fmt.Sprint("b", i, "-"), 20)...)
		all[i].untilDone()
	}
	for i, r := range all {
		if g := r.generations(); len(g) != before[i] {
			t.Errorf("instance %d was given tasks again: %v", i, g)
		}
		if r.logged("msg=revoked") && before[i] == 1 {
			t.Errorf("tasks were taken from instance %d", i)
		}
	}
	for _, r := range all {
		r.stop()
	}
	if n := len(kafkatest.ReadAll(t, b, out, kafkatest.Committed)); n != 160 {
		t.Errorf("%d results of 160 records", n)
	}
}
