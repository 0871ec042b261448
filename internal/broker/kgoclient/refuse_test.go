package kgoclient

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/broker/brokertest"
)

// A refused task goes to another member, without a Revoked for it; a member that is alone gets it back when it has taken its
// word back. No Assigned event holds a refused task.
func TestMembership_refusedTaskGoesToAnother(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 4, nil)
	topology := reads("s", []string{"in"})
	a := join(t, cfg, fast(), topology)
	a.until(broker.Assigned, hasTasks(4))
	refused := a.owned[1]
	take := func(e broker.MembershipEvent) bool { return len(e.Tasks) == 4 }

	a.Refuse(refused)
	// Nobody else is there: the task waits.
	e := a.until(broker.Assigned, hasTasks(3))
	if slices.Contains(e.Tasks, refused) || len(e.Inputs[refused]) != 0 {
		t.Errorf("assigned %v, %v is refused", e.Tasks, refused)
	}
	generation := e.Identity.Generation
	a.Refuse(refused) // again: nothing changes
	a.Refuse()
	if e := a.until(broker.Assigned, take); e.Identity.Generation <= generation {
		t.Errorf("generation %d after %d", e.Identity.Generation, generation)
	}

	b := join(t, cfg, fast(), topology)
	settle(t, 4, a, b)
	if last := b.id.Generation; a.id.Generation < last { // what it is told of this round must not come behind the next one
		a.until(broker.Assigned, func(e broker.MembershipEvent) bool { return e.Identity.Generation >= last })
	}
	refused = a.owned[0]
	keeps := broker.WithoutTasks(a.owned, []broker.TaskID{refused})
	a.Refuse(refused)
	a.owned = keeps // it knows so itself
	x := b.next()
	for ; x.Kind != broker.Assigned || !slices.Contains(x.Tasks, refused); x = b.next() {
		x.Done()
	}
	x.Done()
	for _, task := range keeps {
		if slices.Contains(b.owned, task) {
			t.Errorf("%v moved, %v was refused", task, refused)
		}
	}
	// The other one has more than its share now, and hands something on when the word is taken back.
	a.Refuse()
	settle(t, 4, a, b)
}

// A static member that died while it refused a task comes back to an assignment without it, and takes it now.
func TestMembership_restartedMemberRefusesNothing(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 2, nil)
	static := fast()
	static.InstanceID, static.SessionTimeout = "one", 10*time.Second
	answerSync(c, assignmentData{Signature: "s", Tasks: []broker.TaskID{{Partition: 0}}, Refused: []broker.TaskID{{Partition: 1}}}, "in")
	a := join(t, cfg, static, reads("s", []string{"in"}))
	if e := a.next(); e.Kind != broker.Assigned || len(e.Tasks) != 1 {
		t.Fatalf("want what the group gave it, got %+v", e)
	}
	a.until(broker.Assigned, hasTasks(2)) // it joined again by itself
}

// A task that is refused while the answer that gives it is on its way is not assigned, and goes to another member.
func TestMembership_refusedWhileAssigned(t *testing.T) {
	m := &Membership{cfg: MembershipConfig{Group: "app"}, events: newEventQueue(), valid: true, refused: []broker.TaskID{{Partition: 1}}}
	defer m.events.close()
	c, cfg := startCluster(t)
	topic(t, c, "in", 1, nil)
	var err error
	if m.c, err = connect(cfg); err != nil {
		t.Fatal(err)
	}
	defer m.c.Close()
	all := []broker.TaskID{{Partition: 0}, {Partition: 1}}
	m.next = nextAssignment{tasks: all, inputs: map[broker.TaskID][]broker.TopicPartition{all[0]: {tp("in", 0)}, all[1]: {tp("in", 1)}}}
	m.assigned()
	e := <-m.Events()
	if d := cmp.Diff(all[:1], e.Tasks); d != "" || len(e.Inputs) != 1 || !cmp.Equal(m.owned, all[:1]) {
		t.Errorf("assigned %+v", e)
	}
}

// Both implementations keep a refused task out of what they assign, and take back what the member had.
func TestRefuse_contract(t *testing.T) {
	all := []broker.TaskID{{Partition: 0}, {Partition: 1}}
	check := func(t *testing.T, m broker.Membership, events func() broker.MembershipEvent, sync func()) {
		t.Helper()
		assigned := func(want ...broker.TaskID) {
			t.Helper()
			for {
				e := events()
				e.Done()
				if e.Kind == broker.Revoked || e.Kind == broker.Lost {
					t.Fatalf("%+v", e)
				}
				if e.Kind == broker.Assigned && slices.Equal(e.Tasks, want) {
					return
				}
			}
		}
		sync()
		assigned(all...)
		m.Refuse(all[1])
		sync()
		assigned(all[0])
		m.Refuse()
		sync()
		assigned(all...)
	}
	t.Run("kfake", func(t *testing.T) {
		c, cfg := startCluster(t)
		topic(t, c, "in", 2, nil)
		a := join(t, cfg, fast(), reads("s", []string{"in"}))
		check(t, a, a.next, func() {})
	})
	t.Run("scripted", func(t *testing.T) {
		c := brokertest.New()
		c.AddTopic("in", 2)
		g := c.Group("app")
		m := g.Join()
		m.Subscribe(reads("s", []string{"in"}))
		check(t, m, func() broker.MembershipEvent { return <-m.Events() }, func() {
			g.Assign(map[*brokertest.Membership][]broker.TaskID{m: all})
		})
	})
}

func TestBalance_refusedTasks(t *testing.T) {
	topology := reads("s", []string{"in"})
	no := []broker.TaskID{{Partition: 0}}
	got := balance(t, topology, map[string]int32{"in": 2},
		joined("a", []string{"in"}, memberData{Signature: "s", Generation: 3, Owned: []broker.TaskID{{Partition: 1}}, Refused: no}))
	if d := got["a"]; !cmp.Equal(d.Tasks, []broker.TaskID{{Partition: 1}}) || !cmp.Equal(d.Refused, no) {
		t.Errorf("alone: %+v", d)
	}
	got = balance(t, topology, map[string]int32{"in": 2},
		joined("a", []string{"in"}, memberData{Signature: "s", Generation: 3, Refused: []broker.TaskID{{Partition: 0}, {Partition: 1}}}),
		joined("b", []string{"in"}, memberData{Signature: "s", Generation: 3}))
	if len(got["a"].Tasks) != 0 || len(got["b"].Tasks) != 2 {
		t.Errorf("two: %+v", got)
	}
}
