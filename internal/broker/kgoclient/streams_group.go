package kgoclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/internal/broker"
)

// coordinator finds the broker that coordinates a group.
func (c *conn) coordinator(ctx context.Context, group string) (int32, error) {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorType, req.CoordinatorKey, req.CoordinatorKeys = 0, group, []string{group}
	resp, err := req.RequestWith(ctx, c.Client)
	if err != nil {
		return -1, err
	}
	for _, found := range resp.Coordinators {
		if found.Key == group {
			return found.NodeID, withText(codeErr(found.ErrorCode), found.ErrorMessage)
		}
	}
	if err := codeErr(resp.ErrorCode); err != nil {
		return -1, withText(err, resp.ErrorMessage)
	}
	return resp.NodeID, nil
}

// describeStreams describes a streams group; nil if there is no such group.
func (c *conn) describeStreams(ctx context.Context, group string) (*kmsg.StreamsGroupDescribeResponseGroup, error) {
	req := kmsg.NewPtrStreamsGroupDescribeRequest()
	req.Groups = []string{group}
	resp, err := req.RequestWith(ctx, c.Client)
	if err != nil {
		return nil, err
	}
	for i := range resp.Groups {
		g := &resp.Groups[i]
		if g.Group != group {
			continue
		}
		switch err := codeErr(g.ErrorCode); {
		case errors.Is(err, broker.CodeGroupIDNotFound):
			return nil, nil
		case err != nil:
			return nil, withText(err, g.ErrorMessage)
		}
		return g, nil
	}
	return nil, nil
}

// describeStreamsGroup describes a group that is none of the classic protocol. Brokers that know no others say so, or nothing.
func (c *conn) describeStreamsGroup(ctx context.Context, group string) (broker.GroupInfo, error) {
	dead := broker.GroupInfo{State: "Dead"}
	g, err := c.describeStreams(ctx, group)
	if ctx.Err() != nil || broker.CourseOf(err) == broker.CourseStop && !errors.Is(err, broker.CodeUnsupportedVersion) {
		return dead, err
	}
	if err != nil || g == nil {
		return dead, nil
	}
	info := broker.GroupInfo{State: g.State, ProtocolType: "streams", Protocol: protocolName}
	for i := range g.Members {
		m := &g.Members[i]
		if m.MemberEpoch == stayEpoch {
			continue // it keeps a place, and is not there
		}
		if _, ours := memberTopology(m); !ours {
			info.Protocol = ""
		}
		info.Members = append(info.Members, memberName(m))
	}
	slices.Sort(info.Members)
	return info, nil
}

// memberTopology is the signature that a member of a streams group has put into its tags; ok is false if it is none of this
// library.
func memberTopology(m *kmsg.StreamsGroupDescribeResponseGroupMember) (signature string, ok bool) {
	i := slices.IndexFunc(m.ClientTags, func(t kmsg.StreamsGroupDescribeResponseGroupMemberClientTag) bool { return t.Key == topologyTag })
	if i < 0 {
		return "", false
	}
	return m.ClientTags[i].Value, true
}

func memberName(m *kmsg.StreamsGroupDescribeResponseGroupMember) string {
	return m.ClientID + " (" + m.MemberID + " at " + m.ClientHost + ")"
}

// checkMembers looks at who else is in the group, once in each epoch. Brokers let everybody in who reads and keeps the same topics;
// but a member of another program, or of another version of this one, would go on with state that means something else. The error is
// for good; that the group cannot be looked at is none.
func (s *StreamsMembership) checkMembers(epoch int32) error {
	if epoch == s.checked {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, soon)
	defer cancel()
	g, err := s.c.describeStreams(ctx, s.m.cfg.Group)
	if err != nil {
		if broker.CourseOf(s.c.cause(err)) == broker.CourseStop {
			s.checked = epoch // it may not be looked at
		}
		return nil
	}
	s.checked = epoch
	if g == nil {
		return nil
	}
	s.mu.Lock()
	id, signature, ours := s.m.id, s.m.topology.Signature, topicsOf(s.m.topology)
	s.mu.Unlock()
	var foreign []string
	for i := range g.Members {
		m := &g.Members[i]
		switch theirs, known := memberTopology(m); {
		case m.MemberID == id || m.MemberEpoch == stayEpoch:
		case !known:
			foreign = append(foreign, memberName(m))
		case theirs != signature:
			return fmt.Errorf("%w: topology %s here, %s on %s: %s; give one of the two another application.id, or run the same program on all instances",
				broker.ErrTopologyMismatch, signature, theirs, memberName(m), difference(ours, groupTopics(g)))
		}
	}
	if len(foreign) > 0 {
		slices.Sort(foreign)
		return fmt.Errorf("%w that are not of this library: %s; stop them first, a group cannot be shared with another program or with Kafka Streams", broker.ErrMixedGroup, strings.Join(foreign, ", "))
	}
	return nil
}

// groupTopics are the topics that the tasks of a group read, sorted.
func groupTopics(g *kmsg.StreamsGroupDescribeResponseGroup) []string {
	if g == nil || g.Topology == nil {
		return nil
	}
	var topics []string
	for _, s := range g.Topology.Subtopologies {
		topics = append(topics, s.SourceTopics...)
		for _, r := range s.RepartitionSourceTopics {
			topics = append(topics, r.Topic)
		}
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}

// difference says what two topologies differ in, as far as it shows in what they read.
func difference(ours, theirs []string) string {
	switch {
	case len(theirs) == 0:
		return "this instance reads " + strings.Join(ours, ", ")
	case slices.Equal(ours, theirs):
		return "both read " + strings.Join(ours, ", ") + ", but process them differently"
	}
	return "this instance reads " + strings.Join(ours, ", ") + ", the group " + strings.Join(theirs, ", ")
}

// topologyOf finds out which topics the group reads, for an error that says so; nil if that cannot be told.
func (s *StreamsMembership) topologyOf() []string {
	ctx, cancel := context.WithTimeout(s.ctx, releaseWithin)
	defer cancel()
	g, err := s.c.describeStreams(ctx, s.m.cfg.Group)
	if err != nil {
		return nil
	}
	return groupTopics(g)
}

// recall finds out what the brokers have assigned, after an answer was lost that may have said it: they say it once only.
func (s *StreamsMembership) recall() bool {
	ctx, cancel := context.WithTimeout(s.ctx, s.c.cfg.RequestTimeout)
	defer cancel()
	g, err := s.c.describeStreams(ctx, s.m.cfg.Group)
	if err != nil || g == nil {
		return false // the next heartbeat shows whether there is a group
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range g.Members {
		m := &g.Members[i]
		if m.MemberID != s.m.id || m.MemberEpoch != s.m.epoch {
			continue
		}
		if err := s.m.take(m.Assignment.ActiveTasks, m.Assignment.StandbyTasks, m.Assignment.WarmupTasks); err != nil {
			s.m.refuse(err)
		}
		return true
	}
	return false
}

// takePlace makes room for this member where another one has its instance id: the life of this instance that ended without a
// word, or another process that was given the same id by mistake, which is told so then. Under the classic protocol brokers do
// this by themselves.
func (s *StreamsMembership) takePlace(cause error) error {
	ctx, cancel := context.WithTimeout(s.ctx, s.c.cfg.RequestTimeout)
	defer cancel()
	g, err := s.c.describeStreams(ctx, s.m.cfg.Group)
	if err != nil {
		return fmt.Errorf("%w: who has the instance id cannot be found out, so this waits for its session timeout: %w", cause, s.c.cause(err))
	}
	if g == nil {
		return nil
	}
	for i := range g.Members {
		m := &g.Members[i]
		if m.InstanceID == nil || *m.InstanceID != s.m.cfg.InstanceID {
			continue
		}
		s.m.cfg.Logger.Warn("the instance id is that of a member that has not left: this instance takes its place", "group", s.m.cfg.Group,
			"instance_id", *m.InstanceID, "member", memberName(m))
		if err := s.release(m.MemberID, stayEpoch); err != nil {
			return fmt.Errorf("%w: the place of %s cannot be taken, so this waits for its session timeout: %w", cause, memberName(m), err)
		}
	}
	return nil
}

// streamsVersion is the feature that a cluster must have finalized for the streams group protocol.
const streamsVersion = "streams.version"

// CheckStreams finds out whether the cluster offers the streams group protocol. The error matches broker.ErrGroupProtocol if it
// does not, and says what it takes.
func CheckStreams(ctx context.Context, cfg Config) error {
	c, err := connect(cfg)
	if err != nil {
		return err
	}
	defer c.Close()
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "millrace", "v0"
	resp, err := req.RequestWith(ctx, c.Client)
	if err != nil {
		return c.fail("ask for the versions of the brokers", err)
	}
	if err := codeErr(resp.ErrorCode); err != nil {
		return c.fail("ask for the versions of the brokers", err)
	}
	if !slices.ContainsFunc(resp.ApiKeys, func(k kmsg.ApiVersionsResponseApiKey) bool { return k.ApiKey == kmsg.StreamsGroupHeartbeat.Int16() }) {
		return fmt.Errorf("millrace: %w: %s", broker.ErrGroupProtocol, unsupportedHint)
	}
	for _, f := range resp.FinalizedFeatures {
		if f.Name == streamsVersion && f.MaxVersionLevel >= 1 {
			return nil
		}
	}
	return fmt.Errorf("millrace: %w: the cluster's feature %s is off: %s", broker.ErrGroupProtocol, streamsVersion, unsupportedHint)
}
