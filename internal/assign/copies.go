package assign

import (
	"cmp"
	"slices"
)

// copies adds the standbys to the warm-ups. Each stateful task gets as many as the policy says, on members that do not run
// it. First counts that copies do not share tags, then that a copy which is there stays, then that all members have
// about as many tasks and copies.
//
// A copy that moves for balance alone is made on its new member before the old one goes, as far as warm-ups are left.
func (g *group) copies(active []int, warm [][]copyKind) [][]copyKind {
	p := &placing{group: g, active: active, kind: warm, load: make([]int, len(g.members)), left: g.policy.MaxWarmups}
	p.count()
	for t := range g.tasks {
		p.place(t)
	}
	p.balance()
	return p.kind
}

// placing places copies.
type placing struct {
	*group
	active []int
	kind   [][]copyKind // task -> member
	load   []int        // member -> tasks and copies
	left   int          // warm-ups that may still begin
	// standbys holds the tasks of which each member has a standby, while they are balanced.
	standbys [][]int
	extra    [][2]int // tasks and members whose copies stay until another one is level
}

// count takes the loads as they are if every standby that runs goes on.
func (p *placing) count() {
	for t := range p.tasks {
		if m := p.active[t]; m >= 0 {
			p.load[m]++
		}
		for m := range p.members {
			switch {
			case p.kind[t][m] == warmupCopy:
				if !p.counts(t, m) {
					p.left--
				}
				p.load[m]++
			case p.eligible(t, m) && p.state[t][m].running:
				p.load[m]++
			}
		}
	}
}

// counts tells whether a warm-up is one of the copies that the task has anyway.
func (p *placing) counts(t, m int) bool { return p.policy.Standbys > 0 && p.state[t][m].running }

// eligible tells whether a task may have another copy on a member.
func (p *placing) eligible(t, m int) bool {
	return p.tasks[t].Stateful && p.policy.Standbys > 0 && p.active[t] >= 0 && m != p.active[t] && p.kind[t][m] == noCopy && p.takes(m, t)
}

// place chooses the standbys of a task.
func (p *placing) place(t int) {
	if !p.tasks[t].Stateful || p.policy.Standbys == 0 || p.active[t] < 0 {
		return
	}
	need := p.policy.Standbys
	for m := range p.members {
		if p.kind[t][m] == warmupCopy && p.counts(t, m) {
			need--
		}
	}
	for range need {
		best := -1
		for m := range p.members {
			if p.eligible(t, m) && (best < 0 || p.compare(t, m, best) < 0) {
				best = m
			}
		}
		if best < 0 {
			break
		}
		if !p.state[t][best].running {
			p.load[best]++
		}
		p.kind[t][best] = standbyCopy
	}
	for m := range p.members {
		if p.eligible(t, m) && p.state[t][m].running {
			p.load[m]-- // it was counted, and ends
		}
	}
}

// compare orders two members by how well a copy of a task is placed there, the better one first.
func (p *placing) compare(t, x, y int) int {
	return cmp.Or(cmp.Compare(p.shared(t, x, -1), p.shared(t, y, -1)), cmp.Compare(p.class(x, t), p.class(y, t)),
		cmp.Compare(p.traffic(t, x), p.traffic(t, y)), cmp.Compare(p.load[x], p.load[y]))
}

// shared counts the tags that a copy of a task would have in common with the task and its other copies, but for one of them.
// Warm-ups do not count: they are on their way.
func (p *placing) shared(t, m, but int) (n int) {
	for _, tag := range p.policy.RackTags {
		for x := range p.members {
			here := x == p.active[t] || p.kind[t][x] == standbyCopy
			if x != m && x != but && here && p.members[x].Tags[tag] == p.members[m].Tags[tag] {
				n++
			}
		}
	}
	return n
}

// balance moves copies along chains of members until no two loads differ by more than one, as far as tags allow it.
func (p *placing) balance() {
	if p.policy.Standbys == 0 {
		return
	}
	p.standbys = make([][]int, len(p.members))
	for t := range p.tasks {
		for m := range p.members {
			if p.kind[t][m] == standbyCopy {
				p.standbys[m] = append(p.standbys[m], t)
			}
		}
	}
	for p.moveOne() {
	}
	for _, at := range p.extra {
		p.kind[at[0]][at[1]] = standbyCopy
	}
}

// moveOne finds the shortest chain of moves from the fullest member that has one to a member with two tasks fewer.
func (p *placing) moveOne() bool {
	order := make([]int, len(p.members))
	for m := range order {
		order[m] = m
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(p.load[y], p.load[x]) })
	for _, from := range order {
		if p.load[from] < p.load[order[len(order)-1]]+2 {
			return false
		}
		if p.chain(from) {
			return true
		}
	}
	return false
}

// chain looks for members to pass copies on to, breadth first, and moves them if it finds an end.
func (p *placing) chain(from int) bool {
	type step struct{ from, task, left int } // left are the warm-ups that may still begin
	reached := map[int]step{from: {from: -1, left: p.left}}
	for queue := []int{from}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		for to := range p.members {
			if _, ok := reached[to]; ok {
				continue
			}
			t, left := p.movable(at, to, reached[at].left)
			if t < 0 {
				continue
			}
			reached[to] = step{at, t, left}
			queue = append(queue, to)
			if p.load[to] > p.load[from]-2 {
				continue
			}
			p.load[from]--
			p.load[to]++
			for m := to; reached[m].from >= 0; m = reached[m].from {
				p.move(reached[m].task, reached[m].from, m)
			}
			return true
		}
	}
	return false
}

// movable finds the standby of a member that is best moved to another, -1 without any, and how many warm-ups are left then. A
// copy whose new place would have to be warmed up cannot move if none is.
func (p *placing) movable(from, to, left int) (task, leftThen int) {
	best := -1
	for _, t := range p.standbys[from] {
		if !p.eligible(t, to) || left <= 0 && p.needsWarmup(t, from, to) || p.shared(t, to, from) > p.shared(t, from, -1) {
			continue
		}
		if best < 0 || cmp.Or(cmp.Compare(p.class(to, t), p.class(to, best)), cmp.Compare(p.class(from, best), p.class(from, t))) < 0 {
			best = t
		}
	}
	if best >= 0 && p.needsWarmup(best, from, to) {
		left--
	}
	return best, left
}

// needsWarmup tells whether a copy is to stay where it is until its new place is level.
func (p *placing) needsWarmup(t, from, to int) bool {
	return p.policy.MaxWarmups > 0 && p.class(from, t) == 0 && !p.level(to, t)
}

func (p *placing) move(t, from, to int) {
	p.standbys[from] = slices.DeleteFunc(p.standbys[from], func(x int) bool { return x == t })
	p.kind[t][from] = noCopy
	if p.needsWarmup(t, from, to) {
		p.kind[t][to] = warmupCopy
		p.extra = append(p.extra, [2]int{t, from})
		p.left--
		return
	}
	p.kind[t][to] = standbyCopy
	p.standbys[to] = append(p.standbys[to], t)
}
