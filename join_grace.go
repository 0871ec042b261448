package millrace

import (
	"maps"
	"slices"
	"time"

	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/serde"
)

// bufferSuffix follows the name of a join in that of the store in which its records wait.
const bufferSuffix = "-Buffer"

// graceBuffer gives a join the store in which the records of its stream wait, if it has a grace period.
func graceBuffer[K, V, VT any](s *step, in Stream[K, V], t Table[K, VT], node string) (key serde.Serde[K], value serde.Serde[V], waits bool) {
	if !slices.Contains(s.set, optJoinGrace) {
		for _, name := range []string{optMemory, optLogConfig, optNoLog} {
			if slices.Contains(s.set, name) {
				s.errorf("%s has no use for the option %s: it has no store unless JoinGrace is given", s.verb, name)
			}
		}
		return nil, nil, false
	}
	named := s.as != "" || s.node != ""
	s.requireName(named, "a store")
	key, value = keySerde(s, in.key), valueSerde(s, in.value)
	store := node + bufferSuffix
	switch {
	case s.joinGrace < 0:
		s.errorf("%s: JoinGrace has a negative time, %s", s.verb, s.joinGrace)
	case s.joinGrace%time.Millisecond != 0:
		s.errorf("%s: JoinGrace takes whole milliseconds, not %s: timestamps have no finer parts", s.verb, s.joinGrace)
	case !t.t.versioned():
		s.errorf("%s: JoinGrace needs a versioned table: the records that wait are joined with what the table was at their time; give the table millrace.Versioned(…)", s.verb)
	case t.t.history < s.joinGrace:
		s.errorf("%s: the table keeps a history of %s, which is less than the grace period of %s: what a waiting record is joined with would be gone; raise the history to at least that",
			s.verb, t.t.history, s.joinGrace)
	}
	if key == nil || value == nil {
		s.errorf("%s: the store %s needs serdes for the stream's keys and values; give them with WithKey and WithValue", s.verb, store)
		return nil, nil, false
	}
	s.checkSerde("store "+store, key, value)
	s.b.t.AddStore(topology.Store{
		Name: store, Kind: topology.KeyValue, Persistent: !s.inMemory, Logged: !s.noLog, TopicConfigs: maps.Clone(s.topicConfig),
		Auto: !named, Pos: s.pos, HoldsBack: true, Op: &op.BufferFactory{Spec: op.StoreSpec{Name: store, Logged: !s.noLog}, Stream: true},
	}, node)
	return key, value, true
}
