package state

import (
	"errors"
	"fmt"
)

// Unit is what a task wrote to its stores between two hand-overs. It stays readable through the Set until it is sealed or
// discarded.
type Unit struct {
	set    *Set
	layers []*layer // by store, nil where nothing was written
	bytes  int64
}

// Bytes is the memory that the unit holds; 0 for nil.
func (u *Unit) Bytes() int64 {
	if u == nil {
		return 0
	}
	return u.bytes
}

// HandOver turns the private layers of all stores into one unit. It returns nil if nothing was written, or if the set was
// closed or abandoned. It swaps tables and copies nothing.
func (s *Set) HandOver() *Unit {
	if s.check() != nil {
		return nil
	}
	var u *Unit
	for i, st := range s.stores {
		l := st.handOver()
		if l == nil {
			continue
		}
		if u == nil {
			u = &Unit{set: s, layers: make([]*layer, len(s.stores))}
		}
		u.layers[i] = l
		u.bytes += l.size()
	}
	if u != nil {
		s.units = append(s.units, u)
	}
	return u
}

// errOrder says that the caller lost count of its units.
var errOrder = errors.New("units are sealed in the order in which they were handed over, each once")

// Seal takes a unit whose commit is confirmed: it must be the oldest one that is not decided. positions are those that
// the stores named stand for once the unit is in them; a store that is not named keeps the one it has. A nil unit sets
// positions only. For persistent stores the unit is merged into the sealed layer and reaches the disk with the next
// Flush; for memory stores it is merged into the base.
func (s *Set) Seal(u *Unit, positions map[string]Position) error {
	if err := s.check(); err != nil {
		return err
	}
	if u != nil && (u.set != s || len(s.units) == 0 || s.units[0] != u) {
		return fmt.Errorf("millrace: cannot seal a unit%s: %w", s.ofTask(), errOrder)
	}
	for name := range positions {
		if _, err := s.find(name); err != nil {
			return err
		}
	}
	dirty := false
	if u != nil {
		s.units[0] = nil
		s.units = s.units[1:]
		for i, l := range u.layers {
			if l != nil {
				s.stores[i].seal(l)
				dirty = dirty || s.stores[i].disk != nil
			}
		}
		u.set, u.layers = nil, nil
	}
	for name, p := range positions {
		st := s.byName[name]
		if !st.hasPosition || st.position != p {
			st.position, st.hasPosition, st.positionNew = p, true, true
			dirty = dirty || st.disk != nil
		}
	}
	if dirty && s.sealedSinceMs == NoTime {
		s.sealedSinceMs = s.db.opts.Now()
	}
	return nil
}

// Discard drops a unit that is not committed, every unit handed over after it and the private layers: all of them were
// computed on top of it. The task goes through gap replay before it processes again. A unit that was decided already, and
// nil, is no error.
func (s *Set) Discard(u *Unit) error {
	if err := s.check(); err != nil {
		return err
	}
	for i, o := range s.units {
		if o == u {
			s.dropUnits(i)
			return nil
		}
	}
	return nil
}

// DropPrivate drops what was written since the last hand-over.
func (s *Set) DropPrivate() error {
	if err := s.check(); err != nil {
		return err
	}
	s.dropUnits(len(s.units))
	return nil
}

// DropAll drops the private layers and all units that are not decided.
func (s *Set) DropAll() error {
	if err := s.check(); err != nil {
		return err
	}
	s.dropUnits(0)
	return nil
}

// dropUnits drops the private layers and the units from the given one on.
func (s *Set) dropUnits(from int) {
	for i, st := range s.stores {
		keep := 0
		for _, u := range s.units[:from] {
			if u.layers[i] != nil {
				keep++
			}
		}
		clear(st.pending[keep:])
		st.pending = st.pending[:keep]
		st.private = newLayer()
		st.rewind()
	}
	for _, u := range s.units[from:] {
		u.set, u.layers = nil, nil
	}
	clear(s.units[from:])
	s.units = s.units[:from]
}

// PrivateBytes is the memory of what was written since the last hand-over.
func (s *Set) PrivateBytes() int64 {
	var n int64
	for _, st := range s.stores {
		n += st.private.size()
	}
	return n
}

// PendingBytes is the memory of the units that are not decided.
func (s *Set) PendingBytes() int64 {
	var n int64
	for _, u := range s.units {
		n += u.bytes
	}
	return n
}

// SealedBytes is the memory of what is committed and waits for Flush.
func (s *Set) SealedBytes() int64 {
	var n int64
	for _, st := range s.stores {
		n += st.sealed.size()
	}
	return n
}

// BaseBytes is the memory that the bases of memory stores hold.
func (s *Set) BaseBytes() int64 {
	var n int64
	for _, st := range s.stores {
		n += st.base.size()
	}
	return n
}
