package assign

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/millrace-io/millrace/internal/broker"
)

func tasksOf(stateful, stateless int, partitions int32) []broker.GroupTask {
	var ts []broker.GroupTask
	for i := range stateful + stateless {
		ts = append(ts, broker.GroupTask{
			ID:       broker.TaskID{Subtopology: i / int(partitions), Partition: int32(i) % partitions},
			Stateful: i < stateful,
		})
	}
	return ts
}

func genTasks(t *rapid.T) []broker.GroupTask {
	subs := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) [2]int {
		return [2]int{rapid.IntRange(0, 7).Draw(t, "partitions"), rapid.IntRange(0, 1).Draw(t, "stateful")}
	}), 0, 6).Draw(t, "subtopologies")
	var ts []broker.GroupTask
	for s, x := range subs {
		for p := range x[0] {
			ts = append(ts, broker.GroupTask{ID: broker.TaskID{Subtopology: s, Partition: int32(p)}, Stateful: x[1] == 1})
		}
	}
	return ts
}

func memberNames(n int) []broker.GroupMember {
	var ms []broker.GroupMember
	for i := range n {
		ms = append(ms, broker.GroupMember{ID: fmt.Sprintf("m%02d", i), ProcessID: fmt.Sprintf("p%02d", i)})
	}
	return ms
}

// owning sets what each member owns from an assignment.
func owning(ms []broker.GroupMember, a map[string][]broker.TaskID) []broker.GroupMember {
	out := slices.Clone(ms)
	for i := range out {
		out[i].Owned = a[out[i].ID]
	}
	return out
}

func statefulSet(tasks []broker.GroupTask) map[broker.TaskID]bool {
	s := make(map[broker.TaskID]bool)
	for _, t := range tasks {
		s[t.ID] = t.Stateful
	}
	return s
}

// checkBalance fails unless every task is assigned once and all counts differ by at most one.
func checkBalance(t *rapid.T, ms []broker.GroupMember, tasks []broker.GroupTask, got map[string][]broker.TaskID) {
	t.Helper()
	if len(got) != len(ms) {
		t.Fatalf("%d members have an entry, want %d", len(got), len(ms))
	}
	stateful := statefulSet(tasks)
	seen := make(map[broker.TaskID]string)
	lo, hi, slo, shi := 1<<30, 0, 1<<30, 0
	for m, ids := range got {
		s := 0
		for _, id := range ids {
			if other, dup := seen[id]; dup {
				t.Fatalf("task %v is with %s and %s", id, other, m)
			}
			seen[id] = m
			if _, known := stateful[id]; !known {
				t.Fatalf("task %v does not exist", id)
			}
			if stateful[id] {
				s++
			}
		}
		lo, hi, slo, shi = min(lo, len(ids)), max(hi, len(ids)), min(slo, s), max(shi, s)
	}
	if len(seen) != len(tasks) {
		t.Fatalf("%d of %d tasks assigned", len(seen), len(tasks))
	}
	if hi-lo > 1 || shi-slo > 1 {
		t.Fatalf("unbalanced: %d to %d tasks, %d to %d stateful ones: %v", lo, hi, slo, shi, got)
	}
}

func TestAssign_balancedForAnyHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tasks := genTasks(t)
		ms := memberNames(rapid.IntRange(1, 7).Draw(t, "members"))
		for i := range ms {
			for _, task := range tasks {
				if rapid.IntRange(0, 3).Draw(t, "owns") == 0 {
					ms[i].Owned = append(ms[i].Owned, task.ID)
				}
				if rapid.IntRange(0, 3).Draw(t, "stored") == 0 {
					ms[i].Stored = append(ms[i].Stored, task.ID)
				}
			}
			ms[i].Owned = append(ms[i].Owned, broker.TaskID{Subtopology: 99}) // no longer in the topology
		}
		checkBalance(t, ms, tasks, Assign(ms, tasks))
	})
}

func TestAssign_sameInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tasks := genTasks(t)
		ms := memberNames(rapid.IntRange(1, 5).Draw(t, "members"))
		owners := rapid.SliceOfN(rapid.IntRange(-1, len(ms)-1), len(tasks), len(tasks)).Draw(t, "owners")
		for i, o := range owners {
			if o >= 0 {
				ms[o].Owned = append(ms[o].Owned, tasks[i].ID)
			}
		}
		want := Assign(ms, tasks)
		shuffled := rapid.Permutation(ms).Draw(t, "member order")
		for i := range shuffled {
			shuffled[i].Owned = rapid.Permutation(shuffled[i].Owned).Draw(t, "owned order")
		}
		got := Assign(shuffled, rapid.Permutation(tasks).Draw(t, "task order"))
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("another order gives another assignment (-want +got):\n%s", d)
		}
	})
}

func TestAssign_settledStaysAsItIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tasks := genTasks(t)
		ms := memberNames(rapid.IntRange(1, 6).Draw(t, "members"))
		first := Assign(ms, tasks)
		again := Assign(owning(ms, first), tasks)
		if d := cmp.Diff(first, again); d != "" {
			t.Fatalf("a balanced group was changed (-first +again):\n%s", d)
		}
	})
}

// A member that joins takes its share, and nothing moves between the others; a member that leaves has its share taken
// over, and the others keep what they have. This holds exactly for stateful tasks, whose moves cost a restore.
func TestAssign_joinAndLeaveMoveOnlyWhatMust(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tasks := genTasks(t)
		ms := memberNames(rapid.IntRange(1, 6).Draw(t, "members"))
		stateful := statefulSet(tasks)
		before := Assign(ms, tasks)
		ownerBefore := make(map[broker.TaskID]string)
		for m, ids := range before {
			for _, id := range ids {
				ownerBefore[id] = m
			}
		}

		joined := append(owning(ms, before), broker.GroupMember{ID: "new", ProcessID: rapid.SampledFrom([]string{"a", "z"}).Draw(t, "process")})
		after := Assign(joined, tasks)
		checkBalance(t, joined, tasks, after)
		for m, ids := range after {
			for _, id := range ids {
				if stateful[id] && m != "new" && ownerBefore[id] != m {
					t.Fatalf("join: stateful task %v moved from %s to %s\nbefore %v\nafter %v", id, ownerBefore[id], m, before, after)
				}
			}
		}

		if len(ms) < 2 {
			return
		}
		gone := rapid.IntRange(0, len(ms)-1).Draw(t, "leaver")
		rest := owning(slices.Delete(slices.Clone(ms), gone, gone+1), before)
		after = Assign(rest, tasks)
		checkBalance(t, rest, tasks, after)
		for _, m := range rest {
			for _, id := range m.Owned {
				if stateful[id] && !slices.Contains(after[m.ID], id) {
					t.Fatalf("leave: %s lost its stateful task %v\nbefore %v\nafter %v", m.ID, id, before, after)
				}
			}
		}
	})
}

func TestAssign_rollingRestartConverges(t *testing.T) {
	// Every member leaves and comes back once with a new id and its state on disk: in the end each has what it had.
	tasks := tasksOf(12, 0, 4)
	ms := memberNames(3)
	want := Assign(ms, tasks)
	now := want
	for i := range ms {
		old := ms[i]
		rest := owning(slices.Delete(slices.Clone(ms), i, i+1), now)
		now = Assign(rest, tasks)
		ms[i] = broker.GroupMember{ID: old.ID + "'", ProcessID: old.ProcessID, Stored: want[old.ID]}
		back := owning(ms, now)
		now = Assign(back, tasks)
		if d := cmp.Diff(want[old.ID], now[ms[i].ID]); d != "" {
			t.Fatalf("%s came back to other tasks (-before +after):\n%s", ms[i].ID, d)
		}
	}
}

func TestAssign_prefersStoredState(t *testing.T) {
	tasks := tasksOf(4, 0, 4)
	ms := memberNames(2)
	ms[1].Stored = []broker.TaskID{{Partition: 0}, {Partition: 1}}
	ms[0].Stored = []broker.TaskID{{Partition: 2}}
	got := Assign(ms, tasks)
	want := map[string][]broker.TaskID{"m00": {{Partition: 2}, {Partition: 3}}, "m01": {{Partition: 0}, {Partition: 1}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestAssign_spreadsEachSubtopology(t *testing.T) {
	got := Assign(memberNames(3), tasksOf(9, 0, 3))
	for m, ids := range got {
		subs := make(map[int]int)
		for _, id := range ids {
			subs[id.Subtopology]++
		}
		if len(subs) != 3 {
			t.Errorf("%s has tasks of %d sub-topologies only: %v", m, len(subs), ids)
		}
	}
}

func TestAssign_noMembersNoTasks(t *testing.T) {
	if got := Assign(nil, tasksOf(3, 0, 3)); len(got) != 0 {
		t.Errorf("no members: %v", got)
	}
	if got := Assign(memberNames(2), nil); len(got) != 2 || len(got["m00"]) != 0 {
		t.Errorf("no tasks: %v", got)
	}
}

func TestHolders_laterGenerationWins(t *testing.T) {
	a, b, c := broker.TaskID{Partition: 1}, broker.TaskID{Partition: 2}, broker.TaskID{Partition: 3}
	got := Holders(map[string]Claim{
		"old":  {Generation: 4, Tasks: []broker.TaskID{a, b}},
		"new":  {Generation: 6, Tasks: []broker.TaskID{b, c}},
		"same": {Generation: 6, Tasks: []broker.TaskID{c}},
	})
	want := map[broker.TaskID]Holder{a: {"old", 4}, b: {"new", 6}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// Play whole rebalances: in each round members see their assignment, give up what they lost and take what they got. No
// task may ever run twice, only moving tasks may pause, whoever has to give up something is told so, and the group settles
// in two rounds.
func TestRound_noTaskRunsTwiceAndItSettles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tasks := genTasks(t)
		ms := memberNames(rapid.IntRange(1, 5).Draw(t, "members"))
		owners := rapid.SliceOfN(rapid.IntRange(-1, len(ms)-1), len(tasks), len(tasks)).Draw(t, "owners")
		for i, o := range owners {
			if o >= 0 {
				ms[o].Owned = append(ms[o].Owned, tasks[i].ID)
			}
		}
		for rounds := int32(1); ; rounds++ {
			runs := make(map[broker.TaskID]string)
			for _, m := range ms {
				for _, id := range m.Owned {
					runs[id] = m.ID
				}
			}
			round := Round(ms, tasks)
			given, moving := make(map[broker.TaskID]bool), 0
			for i := range ms {
				m := &ms[i]
				got, ok := round[m.ID]
				if !ok {
					t.Fatalf("%s has no entry", m.ID)
				}
				for _, id := range got.Tasks {
					if given[id] || runs[id] != "" && runs[id] != m.ID {
						t.Fatalf("task %v runs twice", id)
					}
					given[id] = true
				}
				var gone []broker.TaskID
				for _, id := range m.Owned {
					if !slices.Contains(got.Tasks, id) {
						gone = append(gone, id)
					}
				}
				broker.SortTasks(gone)
				if !slices.Equal(gone, got.GiveUp) {
					t.Fatalf("%s loses %v and is told %v", m.ID, gone, got.GiveUp)
				}
				moving += len(got.GiveUp)
				m.Stored = append(slices.Clone(m.Stored), m.Owned...) // the state of what was given up stays on disk
				m.Owned, m.Generation = got.Tasks, rounds
			}
			if len(given)+moving != len(tasks) {
				t.Fatalf("%d given, %d moving of %d tasks", len(given), moving, len(tasks))
			}
			if moving == 0 {
				break
			}
			if rounds == 3 {
				t.Fatalf("not settled after %d rounds", rounds)
			}
		}
		checkBalance(t, ms, tasks, Assign(ms, tasks))
	})
}

func TestRound_claimsCountByGeneration(t *testing.T) {
	tasks := tasksOf(2, 0, 2)
	all := []broker.TaskID{{Partition: 0}, {Partition: 1}}
	got := Round([]broker.GroupMember{
		{ID: "expelled", ProcessID: "a", Generation: -1, Owned: all}, // says it runs them, and is not in any generation
		{ID: "behind", ProcessID: "b", Generation: 3, Owned: all},
		{ID: "up to date", ProcessID: "c", Generation: 5, Owned: all},
	}, tasks)
	if a := got["up to date"]; len(a.Tasks) != 1 || len(a.GiveUp) != 1 {
		t.Errorf("the owner: %+v", a)
	}
	for _, id := range []string{"expelled", "behind"} {
		if a := got[id]; len(a.Tasks) != 0 || len(a.GiveUp) != 0 {
			t.Errorf("%s: %+v", id, a)
		}
	}
}

func BenchmarkAssign(b *testing.B) {
	tasks := tasksOf(800, 200, 100)
	ms := owning(memberNames(50), Assign(memberNames(49), tasks))
	for b.Loop() {
		Assign(ms, tasks)
	}
}

// Nobody gets what it refuses; what one member at least takes is given out once; and nothing else moves for it.
func TestRound_refusedTasks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tasks := genTasks(t)
		ms := memberNames(rapid.IntRange(1, 5).Draw(t, "members"))
		for i := range ms {
			ms[i].Generation = 4
			for _, task := range tasks {
				switch rapid.IntRange(0, 5).Draw(t, "says") {
				case 0:
					ms[i].Refused = append(ms[i].Refused, task.ID)
				case 1:
					ms[i].Owned = append(ms[i].Owned, task.ID)
				case 2:
					ms[i].Stored = append(ms[i].Stored, task.ID)
				}
			}
		}
		// Rounds until nothing moves, as members give up what they must.
		for n := 0; ; n++ {
			if n == 10 {
				t.Fatal("it does not settle")
			}
			got := Round(ms, tasks)
			moving := false
			for i := range ms {
				a := got[ms[i].ID]
				for _, id := range a.Tasks {
					if slices.Contains(ms[i].Refused, id) {
						t.Fatalf("%s refuses %v and gets it", ms[i].ID, id)
					}
				}
				moving = moving || len(a.GiveUp) > 0 || !slices.Equal(a.Tasks, ms[i].Owned)
				ms[i].Owned, ms[i].Generation = a.Tasks, ms[i].Generation+1
			}
			if !moving {
				break
			}
		}
		for _, task := range tasks {
			owners, takers := 0, 0
			for _, m := range ms {
				if slices.Contains(m.Owned, task.ID) {
					owners++
				}
				if !slices.Contains(m.Refused, task.ID) {
					takers++
				}
			}
			if owners != min(1, takers) {
				t.Fatalf("%v has %d owners, %d members take it", task.ID, owners, takers)
			}
		}
	})
}

// Members that refuse much leave their shares unfilled. What one of them owns beyond its own share is then not moved to and fro.
func TestRound_refusalsDoNotMakeATaskWander(t *testing.T) {
	id := func(n int) broker.TaskID { return broker.TaskID{Partition: int32(n)} }
	tasks := tasksOf(9, 0, 9)
	ms := memberNames(3)
	refuse := func(m int, but ...int) {
		for n := range tasks {
			if !slices.Contains(but, n) {
				ms[m].Refused = append(ms[m].Refused, id(n))
			}
		}
	}
	refuse(0, 0, 1, 2, 3, 8)
	refuse(1, 4, 5, 6, 7, 8)
	refuse(2)
	ms[0].Owned, ms[1].Owned = []broker.TaskID{id(0), id(1), id(2), id(3)}, []broker.TaskID{id(4), id(5), id(6), id(7), id(8)}
	got := Round(ms, tasks)
	for i := range ms {
		if d := cmp.Diff(ms[i].Owned, got[ms[i].ID].Tasks, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s (-before +after):\n%s", ms[i].ID, d)
		}
	}
}

// A member that comes back with the state of two tasks gets both, though others own as many as their share already.
func TestAssign_whoComesBackTakesUpWhatItHad(t *testing.T) {
	id := func(p int32) broker.TaskID { return broker.TaskID{Partition: p} }
	for _, names := range [][]string{{"a", "b", "c"}, {"b", "a", "c"}, {"c", "a", "b"}} {
		members := []broker.GroupMember{
			{ID: names[0], ProcessID: names[0], Generation: -1, Stored: []broker.TaskID{id(0), id(1)}},
			{ID: names[1], ProcessID: names[1], Generation: 3, Owned: []broker.TaskID{id(2)}, Stored: []broker.TaskID{id(2)}},
			{ID: names[2], ProcessID: names[2], Generation: 3, Owned: []broker.TaskID{id(3)}, Stored: []broker.TaskID{id(3)}},
		}
		var tasks []broker.GroupTask
		for p := range int32(4) {
			tasks = append(tasks, broker.GroupTask{ID: id(p), Stateful: true, End: 100})
		}
		want := map[string][]broker.TaskID{names[0]: {id(0), id(1)}, names[1]: {id(2)}, names[2]: {id(3)}}
		if diff := cmp.Diff(want, Assign(members, tasks)); diff != "" {
			t.Errorf("members %v (-want +got):\n%s", names, diff)
		}
	}
}
