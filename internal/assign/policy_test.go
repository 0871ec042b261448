package assign

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/millrace-io/millrace/internal/broker"
)

// world is a group that lives through rounds: members do as they are told, copies are made, members come and go.
type world struct {
	t      *rapid.T
	policy Policy
	tasks  []broker.GroupTask
	ends   map[broker.TaskID]int64
	actors []*actor
	born   int
	round  int32
}

type actor struct {
	broker.GroupMember
	warm []broker.TaskID // warm-ups of the last round
}

func newWorld(t *rapid.T, p Policy, members int) *world {
	w := &world{t: t, policy: p, ends: make(map[broker.TaskID]int64)}
	w.tasks = genTasks(t)
	for i := range w.tasks {
		w.tasks[i].End = -1
		if w.tasks[i].Stateful {
			w.tasks[i].End = rapid.Int64Range(0, 3).Draw(t, "end") * 100
			w.ends[w.tasks[i].ID] = w.tasks[i].End
		}
	}
	for range members {
		w.join()
	}
	return w
}

func (w *world) join() {
	w.born++
	w.actors = append(w.actors, &actor{GroupMember: broker.GroupMember{
		ID: fmt.Sprintf("m%02d", w.born), ProcessID: fmt.Sprintf("p%02d", w.born), Generation: -1, Positions: make(map[broker.TaskID]int64),
		Tags: map[string]string{"zone": fmt.Sprint(rapid.IntRange(0, 2).Draw(w.t, "zone"))},
	}})
}

// leave takes a member away. It may come back with what it has on disk.
func (w *world) leave(i int) *actor {
	gone := w.actors[i]
	w.actors = slices.Delete(w.actors, i, i+1)
	gone.Owned, gone.Standbys, gone.warm, gone.Generation = nil, nil, nil, -1
	return gone
}

func (w *world) back(a *actor) {
	w.born++
	a.ID = fmt.Sprintf("m%02d", w.born)
	w.actors = append(w.actors, a)
}

func (w *world) members() []broker.GroupMember {
	var ms []broker.GroupMember
	for _, a := range w.actors {
		m := a.GroupMember
		m.Positions = maps.Clone(m.Positions)
		ms = append(ms, m)
	}
	return rapid.Permutation(ms).Draw(w.t, "members")
}

func (w *world) stateful(id broker.TaskID) bool { _, ok := w.ends[id]; return ok }

func (w *world) level(a *actor, id broker.TaskID) bool {
	at, ok := a.Positions[id]
	return !w.stateful(id) || w.ends[id] <= w.policy.AcceptableLag || ok && w.ends[id]-at <= w.policy.AcceptableLag
}

// play is one round. It checks what must hold in every one, and tells whether another round will follow by itself.
func (w *world) play() (again bool) {
	t := w.t
	got := w.policy.Round(w.members(), w.tasks)
	if len(got) != len(w.actors) {
		t.Fatalf("%d members have an entry, want %d", len(got), len(w.actors))
	}
	runs, owner := make(map[broker.TaskID]bool), make(map[broker.TaskID]*actor)
	for _, a := range w.actors {
		for _, id := range a.Owned {
			owner[id] = a
		}
	}
	gives := 0
	fresh := 0
	for _, a := range w.actors {
		now := got[a.ID]
		for _, id := range now.Tasks {
			if runs[id] || owner[id] != nil && owner[id] != a {
				t.Fatalf("%v runs twice", id)
			}
			runs[id] = true
		}
		copies := make(map[broker.TaskID]bool)
		for _, id := range slices.Concat(now.Standbys, now.Warmups) {
			if !w.stateful(id) {
				t.Fatalf("%v has no state, and a copy of it on %s", id, a.ID)
			}
			if slices.Contains(now.Tasks, id) || copies[id] {
				t.Fatalf("%s has a copy of %v beside the task or another copy", a.ID, id)
			}
			copies[id] = true
		}
		for _, id := range now.Warmups {
			if !w.level(a, id) && !slices.Contains(a.Standbys, id) {
				fresh++
			}
		}
		var gone []broker.TaskID
		for _, id := range a.Owned {
			if !slices.Contains(now.Tasks, id) {
				gone = append(gone, id)
			}
		}
		broker.SortTasks(gone)
		if !slices.Equal(gone, now.GiveUp) {
			t.Fatalf("%s loses %v and is told %v", a.ID, gone, now.GiveUp)
		}
		gives += len(gone)
	}
	if w.policy.MaxWarmups > 0 && fresh > w.policy.MaxWarmups {
		t.Fatalf("%d copies are warmed up at once, at most %d may", fresh, w.policy.MaxWarmups)
	}
	if len(runs)+gives != len(w.tasks) {
		t.Fatalf("%d tasks run and %d move, of %d", len(runs), gives, len(w.tasks))
	}
	w.round++
	waits := false
	for _, a := range w.actors {
		now := got[a.ID]
		for _, id := range now.GiveUp {
			if w.policy.MaxWarmups > 0 && !slices.ContainsFunc(w.actors, func(x *actor) bool {
				return x != a && w.level(x, id) && slices.Contains(got[x.ID].Warmups, id) || !w.stateful(id)
			}) {
				t.Fatalf("%s gives up %v, and nobody has a level copy of it", a.ID, id)
			}
		}
		for _, id := range a.Owned { // it wrote all of the changelog
			if w.stateful(id) {
				a.Positions[id] = w.ends[id]
			}
		}
		a.Stored = nil
		for id := range a.Positions {
			a.Stored = append(a.Stored, id)
		}
		a.Owned, a.Generation = now.Tasks, w.round
		a.Standbys, a.warm = slices.Concat(now.Standbys, now.Warmups), now.Warmups
		waits = waits || slices.ContainsFunc(a.warm, func(id broker.TaskID) bool { return !w.level(a, id) })
	}
	return gives > 0 || waits
}

// catchUp lets some of the copies become level; all if everything is true.
func (w *world) catchUp(everything bool) {
	for _, a := range w.actors {
		for _, id := range slices.Concat(a.Standbys, a.Owned) {
			if everything || rapid.Bool().Draw(w.t, "level") {
				a.Positions[id] = w.ends[id]
			}
		}
	}
}

// settle plays until nothing follows by itself.
func (w *world) settle() {
	limit := 20 + 4*len(w.tasks) // each warm-up may need two rounds
	for n := 0; w.play(); n++ {
		w.catchUp(true)
		if n > limit {
			w.t.Fatalf("not settled after %d rounds", limit)
		}
	}
}

// owned is who runs what.
func (w *world) owned() map[string][]broker.TaskID {
	out := make(map[string][]broker.TaskID)
	for _, a := range w.actors {
		out[a.ID] = a.Owned
	}
	return out
}

// checkSettled checks what holds when a group has come to rest and all copies are level.
func (w *world) checkSettled() {
	t := w.t
	ms := w.members()
	checkBalance(t, ms, w.tasks, w.owned())
	want := min(w.policy.Standbys, len(ms)-1)
	copies := make(map[broker.TaskID]int)
	for _, a := range w.actors {
		for _, id := range a.Standbys {
			copies[id]++
		}
		if len(a.warm) > 0 {
			t.Fatalf("%s still warms up %v", a.ID, a.warm)
		}
	}
	for id := range w.ends {
		if copies[id] != want {
			t.Fatalf("%v has %d copies, want %d", id, copies[id], want)
		}
	}
	if len(w.policy.RackTags) == 0 {
		w.checkCopiesBalanced()
	}
	before := make(map[string][3][]broker.TaskID)
	for _, a := range w.actors {
		before[a.ID] = [3][]broker.TaskID{a.Owned, a.Standbys, a.warm}
	}
	w.play()
	after := make(map[string][3][]broker.TaskID)
	for _, a := range w.actors {
		after[a.ID] = [3][]broker.TaskID{a.Owned, a.Standbys, a.warm}
	}
	if d := cmp.Diff(before, after); d != "" {
		t.Fatalf("a settled group was changed (-before +after):\n%s", d)
	}
}

// checkCopiesBalanced fails if a copy could move to a member that has two tasks and copies fewer.
func (w *world) checkCopiesBalanced() {
	load := func(a *actor) int { return len(a.Owned) + len(a.Standbys) }
	for _, from := range w.actors {
		for _, to := range w.actors {
			for _, id := range from.Standbys {
				if load(from) >= load(to)+2 && !slices.Contains(to.Owned, id) && !slices.Contains(to.Standbys, id) {
					w.t.Fatalf("the copy of %v could move from %s with %d tasks and copies to %s with %d", id, from.ID, load(from), to.ID, load(to))
				}
			}
		}
	}
}

func genPolicy(t *rapid.T) Policy {
	p := Policy{
		AcceptableLag: rapid.Int64Range(0, 1).Draw(t, "acceptable lag") * 100,
		MaxWarmups:    rapid.IntRange(0, 3).Draw(t, "warm-ups"),
		Standbys:      rapid.IntRange(0, 3).Draw(t, "standbys"),
	}
	if rapid.Bool().Draw(t, "tags") {
		p.RackTags = []string{"zone"}
	}
	return p
}

// Whatever happens to a group, each round keeps the rules, and when nothing more happens it comes to rest: balanced, with all
// copies, and a further round changes nothing.
func TestPolicy_convergesUnderChurn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, genPolicy(t), rapid.IntRange(1, 5).Draw(t, "members"))
		var away []*actor
		for range rapid.IntRange(0, 8).Draw(t, "events") {
			switch rapid.IntRange(0, 3).Draw(t, "event") {
			case 0:
				w.join()
			case 1:
				if len(w.actors) > 1 {
					away = append(away, w.leave(rapid.IntRange(0, len(w.actors)-1).Draw(t, "who")))
				}
			case 2:
				if len(away) > 0 {
					w.back(away[0])
					away = away[1:]
				}
			}
			w.catchUp(false)
			w.play()
		}
		w.catchUp(true)
		w.settle()
		w.checkSettled()
	})
}

// A member that joins gets tasks only once it is warm, and meanwhile nothing is interrupted.
func TestPolicy_joinIsWarmedUpFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, Policy{MaxWarmups: rapid.IntRange(1, 4).Draw(t, "warm-ups"), Standbys: rapid.IntRange(0, 1).Draw(t, "standbys")}, 3)
		w.settle()
		w.join()
		fresh := w.actors[len(w.actors)-1]
		for n := 0; ; n++ {
			again := w.play()
			for _, id := range fresh.Owned {
				if w.ends[id] > 0 && !w.level(fresh, id) {
					t.Fatalf("%v is given to a member that would have to restore it", id)
				}
			}
			if !again {
				break
			}
			w.catchUp(true)
			if n > 100 {
				t.Fatal("not settled")
			}
		}
		w.checkSettled()
	})
}

// After a member has gone, its tasks are run by those that have level copies of them.
func TestPolicy_standbysTakeOver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, Policy{MaxWarmups: 2, Standbys: 1}, rapid.IntRange(2, 5).Draw(t, "members"))
		w.settle()
		w.catchUp(true)
		w.leave(rapid.IntRange(0, len(w.actors)-1).Draw(t, "who"))
		w.play()
		for _, a := range w.actors {
			for _, id := range a.Owned {
				if w.ends[id] > 0 && !w.level(a, id) {
					t.Fatalf("%v went to %s, which has to restore it", id, a.ID)
				}
			}
		}
		w.settle()
		w.checkSettled()
	})
}

// The copies of a task are in as many zones as there are.
func TestPolicy_tagsSpreadCopies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, Policy{MaxWarmups: 2, Standbys: rapid.IntRange(1, 3).Draw(t, "standbys"), RackTags: []string{"zone"}},
			rapid.IntRange(1, 6).Draw(t, "members"))
		w.settle()
		zones := make(map[string]bool)
		for _, a := range w.actors {
			zones[a.Tags["zone"]] = true
		}
		for id := range w.ends {
			in := make(map[string]bool)
			n := 0
			for _, a := range w.actors {
				if slices.Contains(a.Owned, id) || slices.Contains(a.Standbys, id) {
					in[a.Tags["zone"]] = true
					n++
				}
			}
			if len(in) < min(n, len(zones)) {
				t.Fatalf("%d copies of %v are in %d of %d zones", n, id, len(in), len(zones))
			}
		}
	})
}

// Of two copies the one that is nearer to the end is taken, and one that is known is better than one that is not.
func TestPolicy_bestCopyFirst(t *testing.T) {
	id := broker.TaskID{Partition: 0}
	tasks := []broker.GroupTask{{ID: id, Stateful: true, End: 1000}}
	for name, c := range map[string]struct {
		positions []int64 // -1 unknown, -2 no copy
		want      string
	}{
		"nearer":            {[]int64{500, 900, 100}, "m01"},
		"known":             {[]int64{-1, -2, 10}, "m02"},
		"anything at all":   {[]int64{-2, -1, -2}, "m01"},
		"one that is level": {[]int64{999, 995, 1000}, "m02"},
	} {
		t.Run(name, func(t *testing.T) {
			ms := memberNames(3)
			for i, at := range c.positions {
				if at > -2 {
					ms[i].Stored = []broker.TaskID{id}
				}
				if at >= 0 {
					ms[i].Positions = map[broker.TaskID]int64{id: at}
				}
			}
			got := Policy{AcceptableLag: 10, MaxWarmups: 2}.Round(ms, tasks)
			if len(got[c.want].Tasks) != 1 {
				t.Errorf("%v", got)
			}
		})
	}
}

// While the ends of changelogs are not known, nobody but its present member counts as level.
func TestPolicy_unknownEndsMoveNothing(t *testing.T) {
	tasks := tasksOf(4, 0, 4)
	for i := range tasks {
		tasks[i].End = -1
	}
	ms := memberNames(2)
	for _, task := range tasks {
		ms[0].Owned = append(ms[0].Owned, task.ID)
	}
	got := Policy{MaxWarmups: 1, AcceptableLag: 1 << 40}.Round(ms, tasks)
	if len(got["m00"].Tasks) != 4 || len(got["m01"].Warmups) != 1 {
		t.Errorf("%+v", got)
	}
}

func BenchmarkPolicy(b *testing.B) {
	for _, size := range []struct{ members, partitions int }{{10, 1000}, {50, 1000}} {
		b.Run(fmt.Sprintf("members=%d/tasks=%d", size.members, size.partitions), func(b *testing.B) {
			p := Policy{AcceptableLag: 10, MaxWarmups: 2, Standbys: 1, RackTags: []string{"zone"}, Traffic: Traffic{MinTraffic, 10, 1}}
			tasks := tasksOf(size.partitions, 0, int32(size.partitions))
			ms := memberNames(size.members)
			zones := []string{"a", "b", "c"}
			for i := range ms {
				ms[i].Rack = zones[i%3]
				ms[i].Tags = map[string]string{"zone": ms[i].Rack}
				ms[i].Positions = make(map[broker.TaskID]int64)
			}
			for i := range tasks {
				tasks[i].End = 1000
				tasks[i].Racks = [][]string{{zones[i%3], zones[(i+1)%3]}, {zones[i%3]}}
			}
			first := p.Round(ms[:size.members-1], tasks)
			for i := range ms { // one member is new
				a := first[ms[i].ID]
				ms[i].Owned, ms[i].Standbys = a.Tasks, a.Standbys
				for _, id := range slices.Concat(a.Tasks, a.Standbys) {
					ms[i].Positions[id] = 1000
				}
			}
			b.ResetTimer()
			for b.Loop() {
				p.Round(ms, tasks)
			}
		})
	}
}
