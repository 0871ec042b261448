package restore

import "github.com/millrace-io/millrace/internal/broker"

// CopyStep is what becomes of a copy.
type CopyStep uint8

// Steps of a copy, in order. Each copy that is begun ends in one of the last two ways.
const (
	CopyBegun    CopyStep = iota // it is open, and reads from At on
	CopyRead                     // it has applied a chunk of its changelog
	CopyPromoted                 // its store is the task's now
	CopyEnded                    // it is not kept here any more, or begins again after an error
)

// Copied tells of the copy of one store.
type Copied struct {
	Step    CopyStep
	Task    string
	Store   string
	Log     broker.TopicPartition
	At      int64 // the next offset to read
	End     int64 // of the changelog, or what counts of it, as it was seen last
	Records int64 // applied, with CopyRead
}

// tell tells of one store. Of one that was not begun nobody knows.
func (s *storeJob) tell(step CopyStep) {
	if s.j.cfg.Copied == nil || s.copying == (step == CopyBegun) {
		return
	}
	s.copying = step == CopyBegun || step == CopyRead
	c := Copied{Step: step, Task: s.j.cfg.Task, Store: s.log.Store, Log: s.log.TopicPartition, At: s.at, End: s.end}
	if step == CopyRead {
		c.Records = int64(s.applied)
	}
	s.j.cfg.Copied(c)
}

func (s *Standby) tell(step CopyStep) {
	for _, l := range s.job.stores {
		l.tell(step)
	}
}
