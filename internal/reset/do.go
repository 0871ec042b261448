package reset

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace-io/millrace/internal/broker"
)

// Cluster is what a reset needs of a client.
type Cluster interface {
	ClusterID(ctx context.Context) (string, error)
	MatchTopics(ctx context.Context, pattern string) ([]broker.TopicInfo, error)
	Groups(ctx context.Context) ([]broker.GroupListing, error)
	DescribeGroup(ctx context.Context, group string, t broker.GroupType) (broker.GroupDetail, error)
	AllCommitted(ctx context.Context, group string, topics []broker.TopicInfo) (map[broker.TopicPartition]broker.OffsetMeta, error)
	ListOffsets(ctx context.Context, which broker.ListOffset, tps ...broker.TopicPartition) (map[broker.TopicPartition]int64, error)
	OffsetsAt(ctx context.Context, tsMs int64, tps ...broker.TopicPartition) (map[broker.TopicPartition]int64, error)

	RemoveMembers(ctx context.Context, group, reason string, members ...broker.MemberInfo) error
	DeleteOffsets(ctx context.Context, group string, tps ...broker.TopicPartition) error
	DeleteTopics(ctx context.Context, names ...string) error
	CommitOffsets(ctx context.Context, group string, id broker.Identity, offsets map[broker.TopicPartition]broker.OffsetMeta) error
}

// Look asks the cluster for what Make needs to know. It changes nothing.
func Look(ctx context.Context, c Cluster, s Spec) (View, error) {
	var v View
	var err error
	if v.Groups, err = c.Groups(ctx); err != nil {
		return v, err
	}
	t := broker.GroupClassic // of a group that this user may not list
	for _, g := range v.Groups {
		if g.Name == s.ApplicationID {
			t = g.Type
		}
	}
	if v.Group, err = c.DescribeGroup(ctx, s.ApplicationID, t); err != nil {
		return v, err
	}
	if v.Topics, err = c.MatchTopics(ctx, ".*"); err != nil {
		return v, err
	}
	if v.Committed, err = c.AllCommitted(ctx, s.ApplicationID, v.Topics); err != nil {
		return v, fmt.Errorf("%w; a transaction that a killed instance left open is ended by the brokers after its timeout (10 s by default)", err)
	}
	var tps []broker.TopicPartition
	for _, info := range v.Topics {
		for n := range info.Partitions {
			if s.names(info.Name) {
				tps = append(tps, broker.TopicPartition{Topic: info.Name, Partition: n})
			}
		}
	}
	if len(tps) == 0 {
		return v, nil
	}
	if v.Starts, err = c.ListOffsets(ctx, broker.Earliest, tps...); err != nil {
		return v, err
	}
	if v.Ends, err = c.ListOffsets(ctx, broker.HighWatermark, tps...); err != nil {
		return v, err
	}
	if s.To.Kind == ToTime {
		v.At, err = c.OffsetsAt(ctx, s.To.TimeMs, tps...)
	}
	return v, err
}

// StateDir is a state directory that is held.
type StateDir interface {
	Path() string
	// Empty deletes what is in it.
	Empty() error
}

// Do carries a plan out and tells each step that is done. Whatever stops it half-way, the same command again ends well:
// offsets come last, so that a shift is not applied twice. After members were taken out, wait is called: it returns when
// instances that run after all have had the time to come back.
func Do(ctx context.Context, c Cluster, p Plan, dirs []StateDir, wait func(context.Context) error, done func(step string)) error {
	if p.Blocked != nil {
		return p.Blocked
	}
	if err := evict(ctx, c, p, wait, done); err != nil {
		return err
	}
	if err := p.prove(ctx, c); err != nil {
		return err
	}
	if len(p.Forget) > 0 {
		if err := c.DeleteOffsets(ctx, p.ApplicationID, p.Forget...); err != nil {
			return halfDone(err)
		}
	}
	if len(p.Topics) > 0 {
		if err := c.DeleteTopics(ctx, p.Topics...); err != nil {
			return halfDone(err)
		}
		done(fmt.Sprintf("deleted %s", count(len(p.Topics), "internal topic")))
	}
	for _, d := range dirs {
		if err := d.Empty(); err != nil {
			return halfDone(err)
		}
		done("deleted the state in " + d.Path())
	}
	offsets := make(map[broker.TopicPartition]broker.OffsetMeta, len(p.Offsets))
	for _, m := range p.Offsets {
		// Without metadata: the application sees that the offset was set by hand, and takes no time from it.
		offsets[m.TopicPartition] = broker.OffsetMeta{Offset: m.To, Epoch: -1}
	}
	if len(offsets) > 0 {
		if err := p.commit(ctx, c, offsets); err != nil {
			return halfDone(err)
		}
		done(fmt.Sprintf("set the offsets of %s", count(len(offsets), "partition")))
	}
	if len(p.Evict) == 0 {
		return nil
	}
	return p.stayedOut(ctx, c)
}

func halfDone(err error) error {
	return fmt.Errorf("%w; the reset is half done: run the same command again before you start the application", err)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// evict takes the members out. Instances that run come back after their next heartbeat.
func evict(ctx context.Context, c Cluster, p Plan, wait func(context.Context) error, done func(string)) error {
	if len(p.Evict) == 0 {
		return nil
	}
	if err := c.RemoveMembers(ctx, p.ApplicationID, "millrace reset --force", p.Evict...); err != nil {
		return err
	}
	done(fmt.Sprintf("took %s out of the group", count(len(p.Evict), "member")))
	if err := wait(ctx); err != nil {
		return err
	}
	return p.stayedOut(ctx, c)
}

// stayedOut is an error if the group has members again after all were taken out.
func (p Plan) stayedOut(ctx context.Context, c Cluster) error {
	g, err := c.DescribeGroup(ctx, p.ApplicationID, p.Group.Type)
	if err == nil && len(g.Members) > 0 {
		err = fmt.Errorf("%w: the members of group %s were taken out, and an instance that still runs has come back: %s; stop it, and run the same command again", ErrActive, p.ApplicationID, memberNames(g))
	}
	return err
}

// prove lets the coordinator say that nobody is in the group, and that the offsets may be set, by a commit that changes nothing:
// what is deleted next cannot be brought back, and an instance may have come since the plan was made.
func (p Plan) prove(ctx context.Context, c Cluster) error {
	if len(p.Proof) > 0 {
		return p.commit(ctx, c, p.Proof)
	}
	g, err := c.DescribeGroup(ctx, p.ApplicationID, p.Group.Type)
	if err == nil && len(g.Members) > 0 {
		err = active(p.ApplicationID, g)
	}
	return err
}

// commit commits as somebody outside of the group, which the coordinator takes only if nobody is in it.
func (p Plan) commit(ctx context.Context, c Cluster, offsets map[broker.TopicPartition]broker.OffsetMeta) error {
	err := c.CommitOffsets(ctx, p.ApplicationID, broker.Identity{Generation: -1}, offsets)
	for _, code := range []broker.Code{broker.CodeUnknownMemberID, broker.CodeIllegalGeneration, broker.CodeStaleMemberEpoch} {
		if errors.Is(err, code) {
			return fmt.Errorf("%w: an instance has joined group %s since; stop all instances, and see that nothing starts them: %w", ErrActive, p.ApplicationID, err)
		}
	}
	return err
}
