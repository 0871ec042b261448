package runtime

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/restore"
	"github.com/millrace-io/millrace/internal/state"
	"github.com/millrace-io/millrace/internal/task"
)

// standby is a copy of the state of a task that another instance runs. The group asks for it. It goes on until the group does
// not ask any more, or gives the instance the task itself: then the task begins with the stores as they are.
type standby struct {
	slot *slot // what the task would be; it is in no list of the machine
	warm bool  // the instance is to get the task as soon as the copy is level

	phase   standbyPhase
	wanted  bool  // by the last assignment
	level   bool  // as the carrier told
	askedMs int64 // when the group was last asked for the task, 0 never
	tries   int   // in a row that failed, or in which the group did not give the task
	retryMs int64 // not before

	// Told by the carrier at any time.
	at, behind atomic.Int64
}

type standbyPhase uint8

const (
	standbyWaiting   standbyPhase = iota // for its time, or for the end of the task that was here
	standbyFollowing                     // the carrier has it
	standbyEnding                        // the carrier was asked for it
)

// takeStandbys compares the copies that an assignment asks for with what is there.
func (m *Machine) takeStandbys(e broker.MembershipEvent) {
	for _, sb := range m.standbys {
		sb.wanted = false
	}
	ask := func(ids []broker.TaskID, warm bool) {
		for _, id := range ids {
			if m.find(id) != nil {
				continue // it runs here: the leader is mistaken
			}
			sb := m.standbyOf(id)
			if sb == nil {
				s, err := m.newSlot(id, broker.MembershipEvent{Identity: e.Identity})
				if err != nil {
					m.fail(err)
					return
				}
				sb = &standby{slot: s}
				at, _ := slices.BinarySearchFunc(m.standbys, id, func(sb *standby, id broker.TaskID) int { return sb.slot.id.Compare(id) })
				m.standbys = slices.Insert(m.standbys, at, sb)
			}
			if warm && !sb.warm {
				sb.askedMs, sb.tries = 0, 0
			}
			sb.wanted, sb.warm = true, warm
		}
	}
	ask(e.Standbys, false)
	ask(e.Warmups, true)
	if len(m.standbys) > 0 {
		m.log.Info("copies of tasks", "standbys", len(e.Standbys), "warm_ups", len(e.Warmups), "generation", e.Identity.Generation)
	}
	m.advanceStandbys()
}

// standbyOf finds the copy of a task; nil without one.
func (m *Machine) standbyOf(id broker.TaskID) *standby {
	i, ok := slices.BinarySearchFunc(m.standbys, id, func(sb *standby, id broker.TaskID) int { return sb.slot.id.Compare(id) })
	if !ok {
		return nil
	}
	return m.standbys[i]
}

func (m *Machine) advanceStandbys() {
	for _, sb := range slices.Clone(m.standbys) {
		m.advanceStandby(sb)
	}
}

// advanceStandby does what can be done for a copy now.
func (m *Machine) advanceStandby(sb *standby) {
	taken := m.find(sb.slot.id) != nil
	switch {
	case sb.phase == standbyWaiting && (!sb.wanted || taken || m.drain != nil):
		m.dropStandby(sb)
	case sb.phase == standbyWaiting:
		if m.nowMs < sb.retryMs || m.lingering(sb.slot.id) != nil {
			return
		}
		sb.retryMs = 0
		m.follow(sb, nil)
	case sb.phase == standbyFollowing && (!sb.wanted || taken || m.drain != nil):
		sb.phase = standbyEnding
		m.do(Unfollow{standby: sb, Keep: taken && m.drain == nil})
	}
}

func (m *Machine) dropStandby(sb *standby) {
	if i := slices.Index(m.standbys, sb); i >= 0 {
		m.standbys = slices.Delete(m.standbys, i, i+1)
	}
}

// follow hands a copy to the carrier. Its stores are opened there, unless they are open already.
func (m *Machine) follow(sb *standby, set *state.Set) {
	sb.phase, sb.level = standbyFollowing, false
	sb.behind.Store(-1)
	cfg := m.restoreConfig(sb.slot)
	cfg.Set = set
	m.do(Follow{standby: sb, Job: restore.NewStandby(cfg)})
}

// restoreConfig is the configuration with which the stores of a task are made level.
func (m *Machine) restoreConfig(s *slot) restore.Config {
	cfg := m.cfg.Restore
	cfg.Task, cfg.Group = s.name, m.cfg.AppID
	for _, in := range s.inputs {
		cfg.Inputs = append(cfg.Inputs, restore.Input{
			TopicPartition: in.tp, Committed: m.readsCommitted(in), Reset: m.resetOf(in.node),
		})
	}
	cfg.Logs = m.logsOf(s)
	cfg.StableEnd, cfg.SkipGap = m.set.Broken.StableEnd, m.set.Broken.SkipGap
	cfg.Open = func(identify state.ChangelogIdentity) (*state.Set, error) {
		specs, err := task.StoreSpecs(s.sub)
		if err != nil {
			return nil, err
		}
		return m.cfg.OpenSet(s.name, specs, identify)
	}
	if m.cfg.Headers != nil {
		cfg.Headers = func() (map[string]state.Header, error) { return m.cfg.Headers(s.name) }
	}
	return cfg
}

// levelled hears that a copy is level.
func (m *Machine) levelled(sb *standby) {
	if sb.phase != standbyFollowing {
		return
	}
	sb.level, sb.tries = true, 0
	m.askForWarm(sb)
}

// askForWarm asks the group for the task of a warm-up that is level, again from time to time while it does not come: the
// leader may have found the copy behind.
func (m *Machine) askForWarm(sb *standby) {
	if !sb.warm || !sb.level || sb.phase != standbyFollowing || m.drain != nil || !m.joined || m.nowMs < sb.nextAskMs() {
		return
	}
	if sb.askedMs > 0 {
		sb.tries++
	}
	sb.askedMs = m.nowMs
	m.ask(Rejoin{})
}

// nextAskMs is when the group may be asked again.
func (sb *standby) nextAskMs() int64 {
	if sb.askedMs == 0 {
		return 0
	}
	return sb.askedMs + min(int64(warmAskMs)<<min(sb.tries, 16), warmAskMaxMs)
}

// A warm-up that is level and not given the task asks for it after warmAskMs again, then after twice that, up to warmAskMaxMs.
const (
	warmAskMs    = 2000
	warmAskMaxMs = 600_000
)

// unfollowed hears that the carrier has let go of a copy, because it was asked to or because of an error.
func (m *Machine) unfollowed(e Unfollowed) {
	sb := e.standby
	sb.phase, sb.level = standbyWaiting, false
	sb.behind.Store(-1)
	s := m.find(sb.slot.id)
	switch {
	case e.Err != nil && !errors.Is(e.Err, context.Canceled):
		sb.retryMs = m.nowMs + min(m.set.BackoffMs<<min(sb.tries, 16), m.set.BackoffMaxMs)
		sb.tries++
		m.log.Warn("a copy of a task cannot be kept level, it is tried again", "task", sb.slot.name, "retry_in_ms", sb.retryMs-m.nowMs, "error", e.Err)
	case e.Set == nil:
	case s != nil && s.phase == phaseWaiting && s.kept == nil && s.after == nil:
		s.kept = e.Set
		m.dropStandby(sb)
		m.advance(s)
		return
	case s == nil && sb.wanted && m.drain == nil:
		m.follow(sb, e.Set) // it was to be a task, and is a copy again
		return
	default:
		m.do(CloseSet{Task: sb.slot.name, Set: e.Set})
	}
	m.advanceStandby(sb)
	if s != nil {
		m.advance(s)
	}
}

// standbyWakeMs is when a copy wants to be looked at, 0 if not by time.
func (m *Machine) standbyWakeMs(sb *standby) int64 {
	switch {
	case sb.phase == standbyWaiting:
		return sb.retryMs
	case sb.warm && sb.level && sb.phase == standbyFollowing && m.drain == nil && m.joined:
		return max(1, sb.nextAskMs())
	}
	return 0
}

// standbyTimers does what is due for copies by time.
func (m *Machine) standbyTimers() {
	for _, sb := range slices.Clone(m.standbys) {
		if at := m.standbyWakeMs(sb); at > 0 && m.nowMs >= at {
			m.advanceStandby(sb)
			m.askForWarm(sb)
		}
	}
}
