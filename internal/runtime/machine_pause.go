package runtime

// A machine that is held processes nothing: tasks take no records, and no timer fires. All the rest goes on. What was done before is
// committed; fetching goes on until enough waits; assignments, revocations, restores and copies are dealt with, so that there is
// nothing to catch up with but records.

// hold pauses processing. Turns under way end at their next record boundary by themselves.
func (m *Machine) hold() {
	if m.held {
		return
	}
	m.held = true
	m.log.Info("processing is paused: tasks take no records and fire no timers; the instance stays in its group with its tasks", "tasks", len(m.slots))
}

// goOn lets tasks process again. None of them knows what has come meanwhile, and whether an input is quiet shows from now on.
func (m *Machine) goOn() {
	if !m.held {
		return
	}
	m.held = false
	m.log.Info("processing goes on", "tasks", len(m.slots))
	for _, s := range m.slots {
		s.more = true
		for _, in := range s.inputs {
			if in.epoch != 0 && in.node.IdleMs > 0 {
				in.answers = m.cfg.Answers(in.tp)
			}
		}
	}
	m.advanceAll()
}

// resize changes how many tasks run at a time. Those that are at work go on.
func (m *Machine) resize(e Resize) {
	m.set.Workers, m.set.HardWorkers = e.Workers, e.Hard
	m.shared.privateBytes.Store(e.PrivateBytes)
	m.cfg.Task.PrivateBytes = e.PrivateBytes
	if e.Hard {
		// Whoever is held up counts again: the limit is one.
		for _, s := range m.running {
			if s.heldUp && !s.stuck {
				s.heldUp = false
				m.busy++
			}
		}
	}
	m.log.Info("the number of workers has changed", "workers", e.Workers, "hard_limit", e.Hard, "task_bytes", e.PrivateBytes)
}
