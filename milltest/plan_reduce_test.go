package milltest_test

import "slices"

// reduce makes a failing plan small: it leaves out what does not matter for its failure, records first and then steps, as long
// as that helps. Any failure will do, so that a plan does not lose its fault for a clearer one.
func (p plan) reduce(fails func(plan) bool) plan {
	for {
		before := len(p.events) + len(p.steps)
		p.events = without(p.events, func(events []planEvent) bool {
			return fails(plan{p.drive, p.steps, events})
		})
		p.steps = without(p.steps, func(steps []planStep) bool {
			return fails(plan{p.drive, steps, p.events})
		})
		if len(p.events)+len(p.steps) == before {
			return p
		}
	}
}

// without leaves out parts of a list, large ones first, while it still fails.
func without[T any](all []T, fails func([]T) bool) []T {
	for size := (len(all) + 1) / 2; size > 0; size /= 2 {
		for at := len(all) - 1; at >= 0; at -= size {
			less := slices.Delete(slices.Clone(all), max(0, at-size+1), at+1)
			if fails(less) {
				all = less
				at = min(at, len(all)) // what followed has been tried
			}
		}
	}
	return all
}
