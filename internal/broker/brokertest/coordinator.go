package brokertest

import (
	"slices"

	"github.com/millrace-io/millrace/internal/broker"
)

// Coordinator takes a group through its rebalances as the real ones go: step by step, and what moves from one member to
// another is taken away first. Who gets what is for the test to say.
type Coordinator struct {
	group *Group
	tasks []broker.TaskID
	owner map[broker.TaskID]*Membership // as the last Sync said
	goal  map[broker.TaskID]*Membership // of the rebalance under way
	next  []func()                      // the rest of its steps
}

// Coordinator makes the one who rebalances the group.
func (g *Group) Coordinator(tasks ...broker.TaskID) *Coordinator {
	return &Coordinator{group: g, tasks: tasks, owner: make(map[broker.TaskID]*Membership)}
}

// Rebalance begins a rebalance after which choose(task) has each task; nil leaves it to nobody. False: there is one under way.
func (c *Coordinator) Rebalance(choose func(broker.TaskID) *Membership) bool {
	if c.Busy() {
		return false
	}
	c.released()
	c.goal = make(map[broker.TaskID]*Membership)
	moves := false
	for _, id := range c.tasks {
		c.goal[id] = choose(id)
		moves = moves || c.owner[id] != nil && c.owner[id] != c.goal[id]
	}
	c.round(func(id broker.TaskID) bool { return c.owner[id] == nil || c.owner[id] == c.goal[id] })
	if moves {
		c.round(func(broker.TaskID) bool { return true })
	}
	return true
}

// round plans one generation, in which the tasks that may be given out are.
func (c *Coordinator) round(may func(broker.TaskID) bool) {
	c.next = append(c.next, c.group.BeginRebalance, c.group.CompleteJoin, func() {
		given := make(map[*Membership][]broker.TaskID)
		owner := make(map[broker.TaskID]*Membership)
		for _, id := range c.tasks {
			if m := c.goal[id]; m != nil && may(id) {
				given[m] = append(given[m], id)
				owner[id] = m
			}
		}
		c.group.Sync(given)
		for id, m := range owner {
			if !slices.Contains(m.Owned(), id) { // it refuses the task
				delete(owner, id)
			}
		}
		c.owner = owner
	})
}

// Busy tells whether a rebalance is under way.
func (c *Coordinator) Busy() bool { return len(c.next) > 0 || c.group.revoking() }

// Step does the next step of the rebalance under way. It is false if there is none, or if a member has not given up yet what
// was taken from it.
func (c *Coordinator) Step() bool {
	if len(c.next) == 0 || c.group.revoking() {
		return false
	}
	c.released()
	do := c.next[0]
	c.next = c.next[1:]
	do()
	return true
}

// Finish does the steps that can be done.
func (c *Coordinator) Finish() {
	for c.Step() {
	}
}

// Tasks are those of the group.
func (c *Coordinator) Tasks() []broker.TaskID { return c.tasks }

// Owner is the member that has a task, nil if nobody has.
func (c *Coordinator) Owner(id broker.TaskID) *Membership {
	c.released()
	return c.owner[id]
}

// released takes from members what they have refused to run since it was given to them.
func (c *Coordinator) released() {
	for id, m := range c.owner {
		if !slices.Contains(m.Owned(), id) {
			delete(c.owner, id)
		}
	}
}

// Replace puts one member in the place of another, see Group.Replace.
func (c *Coordinator) Replace(old, m *Membership) {
	for id, x := range c.owner {
		if x == old {
			c.owner[id] = m
		}
	}
}

// Forget takes a member out of the plans: it is not in the group any more, and others may have its tasks at once.
func (c *Coordinator) Forget(m *Membership) {
	for _, of := range []map[broker.TaskID]*Membership{c.owner, c.goal} {
		for id, x := range of {
			if x == m {
				delete(of, id)
			}
		}
	}
}

// revoking tells whether a member of the group has yet to give up what was taken from it, or to hear of it.
func (g *Group) revoking() bool {
	g.c.mu.Lock()
	defer g.c.mu.Unlock()
	for _, m := range g.members {
		if !m.left && (m.revoking || len(m.events) > 0) {
			return true
		}
	}
	return false
}
