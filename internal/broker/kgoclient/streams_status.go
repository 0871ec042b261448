package kgoclient

import (
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/internal/broker"
)

// What brokers say of a streams group in their answers, by the numbers of the protocol.
const (
	statusStaleTopology int8 = iota
	statusMissingSources
	statusWronglyPartitioned
	statusMissingInternal
	statusShutdown
	statusDelayed
	statusMissingTags
)

// takeStatuses notes what is said of the group now, and tells what is new in it.
func (m *streamsMember) takeStatuses(all []kmsg.StreamsGroupHeartbeatResponseStatus) {
	now := make(map[int8]string, len(all))
	for _, s := range all {
		now[s.StatusCode] = s.StatusDetail
	}
	before := m.statuses
	m.statuses = now
	_, delayed := now[statusDelayed]
	_, missing := now[statusMissingSources]
	_, wrong := now[statusWronglyPartitioned]
	_, unmade := now[statusMissingInternal]
	m.ready, m.waits = !delayed && !missing && !wrong && !unmade, delayed || unmade
	for _, code := range slices.Sorted(maps.Keys(now)) {
		if detail, was := before[code]; !was || detail != now[code] {
			m.tellStatus(code, now[code])
		}
	}
	for _, code := range slices.Sorted(maps.Keys(before)) {
		if _, is := now[code]; !is && code != statusDelayed {
			m.cfg.Logger.Info("the brokers do not say any more of the group", "group", m.cfg.Group, "status", statusName(code))
		}
	}
}

func (m *streamsMember) tellStatus(code int8, detail string) {
	say := func(text string) {
		m.cfg.Logger.Warn(text, "group", m.cfg.Group, "status", statusName(code), "detail", detail)
	}
	switch code {
	case statusStaleTopology:
		say("the group has a newer topology than this instance: it goes on with the tasks that it has, and gets no others; run the same program on all instances")
	case statusMissingSources:
		m.report(fmt.Errorf("the brokers assign no tasks while source topics are missing: create them, or correct the names in the program: %s: %w", detail, broker.ErrUnknownTopic))
	case statusWronglyPartitioned:
		err := fmt.Errorf("the brokers assign no tasks because of the numbers of partitions: %s. Give topics that are joined the same number; an internal topic whose number does not fit any more has to be deleted, see docs/reset.md", detail)
		if m.valid {
			m.report(err) // topics are being extended, one after the other
			return
		}
		m.refuse(fmt.Errorf("%w: %w", broker.ErrGroupProtocol, err))
	case statusMissingInternal:
		m.cfg.Logger.Info("the brokers make internal topics, or wait for them", "group", m.cfg.Group, "detail", detail)
	case statusShutdown:
		m.refuse(fmt.Errorf("%w: %s (brokers do not carry the reason: see the log of that member)", broker.ErrApplicationStopped, detail))
	case statusDelayed:
		m.cfg.Logger.Debug("the brokers wait for further members before they assign tasks", "group", m.cfg.Group, "detail", detail)
	case statusMissingTags:
		say("the brokers spread standbys by client tags that this instance does not have (streams.rack.aware.assignment.tags of the group): set client.tag.<tag>")
	default:
		say("the brokers say something of the group that this version does not know")
	}
}

func statusName(code int8) string {
	names := []string{"STALE_TOPOLOGY", "MISSING_SOURCE_TOPICS", "INCORRECTLY_PARTITIONED_TOPICS", "MISSING_INTERNAL_TOPICS", "SHUTDOWN_APPLICATION", "ASSIGNMENT_DELAYED", "MISSING_CLIENT_TAGS"}
	if code < 0 || int(code) >= len(names) {
		return fmt.Sprintf("STATUS_%d", code)
	}
	return names[code]
}
