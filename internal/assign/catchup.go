package assign

import (
	"cmp"
	"slices"
)

// copyKind is what a member is to keep of a task that it does not run.
type copyKind uint8

const (
	noCopy copyKind = iota
	standbyCopy
	warmupCopy
)

// catchUp finds who runs each task now, on the way to a target: a task whose target is not level stays with a member that
// is, its present one first. The warm-ups say where it is going; those come first that are already under way, then those
// that are nearest to being level, so that what was begun is finished. Where nobody is level there is nothing to wait for.
func (g *group) catchUp(target []int) (active []int, warm [][]copyKind) {
	active, warm = slices.Clone(target), make([][]copyKind, len(g.tasks))
	for t := range warm {
		warm[t] = make([]copyKind, len(g.members))
	}
	if g.policy.MaxWarmups == 0 {
		return active, warm
	}
	load := make([]int, len(g.members))
	for _, m := range target {
		if m >= 0 {
			load[m]++
		}
	}
	var waiting []int
	for t, m := range target {
		if m < 0 || g.level(m, t) {
			continue
		}
		if now := g.levelMember(t, load); now >= 0 {
			load[now]++
			load[m]--
			active[t] = now
			waiting = append(waiting, t)
		}
	}
	slices.SortStableFunc(waiting, func(x, y int) int {
		return cmp.Or(cmp.Compare(g.class(target[x], x), g.class(target[y], y)),
			cmp.Compare(g.state[x][target[x]].behind, g.state[y][target[y]].behind))
	})
	left := g.policy.MaxWarmups
	for _, t := range waiting {
		m := target[t]
		switch {
		case g.policy.Standbys > 0 && g.state[t][m].running:
			warm[t][m] = warmupCopy // it was a standby: no new copy
		case left > 0:
			warm[t][m] = warmupCopy
			left--
		}
	}
	return active, warm
}

// levelMember finds a member that could take a task at once: the one that has it, else the one with fewest tasks; -1
// without any.
func (g *group) levelMember(t int, load []int) int {
	if g.owner[t] >= 0 {
		return g.owner[t]
	}
	best := -1
	for m := range g.members {
		if g.takes(m, t) && g.level(m, t) && (best < 0 || cmp.Or(cmp.Compare(g.class(m, t), g.class(best, t)), cmp.Compare(load[m], load[best])) < 0) {
			best = m
		}
	}
	return best
}
