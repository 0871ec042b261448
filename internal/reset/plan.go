// Package reset takes an application back to where it may begin anew: it sets the committed offsets of its input topics,
// deletes its internal topics, and the state directories that it is given. Look asks the cluster, Make decides without
// asking anybody, and Do carries out. It is what "millrace reset" runs.
//
// In Kafka Streams: the application reset tool (kafka-streams-application-reset.sh).
package reset

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/config"
)

// Spec is what is asked for.
type Spec struct {
	// ApplicationID is the group, and the beginning of the internal topics' names.
	ApplicationID string
	// Inputs are the topics whose offsets are set. Offsets of all other topics stay.
	Inputs []string
	// Intermediate are topics that the application both writes and reads: their offsets go to the end.
	Intermediate []string
	// Internal are the internal topics to delete; nil is all of them.
	Internal []string
	// To says where the offsets go.
	To Target
	// Force takes active members out of the group instead of refusing.
	Force bool
}

// View is what there is in the cluster.
type View struct {
	Group     broker.GroupDetail
	Groups    []broker.GroupListing // all that this user may know of
	Topics    []broker.TopicInfo    // all
	Committed map[broker.TopicPartition]broker.OffsetMeta

	// Of each partition of the inputs and intermediate topics: the log's ends, and for ToTime the offset there.
	Starts, Ends, At map[broker.TopicPartition]int64
}

// Plan is what will be done.
type Plan struct {
	ApplicationID string
	Group         broker.GroupDetail
	Blocked       error                   // why it cannot be done now; wraps ErrActive
	Evict         []broker.MemberInfo     // members to be taken out
	Offsets       []Move                  // in order of topic and partition
	Topics        []string                // to delete
	Forget        []broker.TopicPartition // committed offsets of those topics
	Kept          []string                // internal topics that the spec leaves alone

	// Proof are committed offsets to be committed once more as they are, before anything is changed: the coordinator takes them
	// only if nobody is in the group and the user may commit them. They are those that are to be set, or another one that
	// stays.
	Proof map[broker.TopicPartition]broker.OffsetMeta

	OtherOffsets []string // topics whose offsets stay: neither inputs nor to be deleted
	Warnings     []string // what is done as asked for, but may not be what is wanted
}

// Move is a committed offset that is set.
type Move struct {
	broker.TopicPartition
	From int64 // -1: none was committed
	To   int64
	Note string // where To is not what was asked for, why
}

// ErrActive is wrapped by Plan.Blocked, and by the error of Do, when the group has members.
var ErrActive = errors.New("millrace: reset: the application is running")

// Make decides what to do. An error says what stands in the way; nothing has been changed then.
func Make(s Spec, v View) (Plan, error) {
	p := Plan{ApplicationID: s.ApplicationID, Group: v.Group}
	if err := p.members(s, v); err != nil {
		return Plan{}, err
	}
	known := make(map[string]broker.TopicInfo, len(v.Topics))
	for _, t := range v.Topics {
		known[t.Name] = t
	}
	if err := p.offsets(s, v, known); err != nil {
		return Plan{}, err
	}
	if err := p.topics(s, v); err != nil {
		return Plan{}, err
	}
	gone := make(map[string]bool, len(p.Topics))
	for _, t := range p.Topics {
		gone[t] = true
	}
	for tp := range v.Committed {
		switch {
		case gone[tp.Topic]:
			p.Forget = append(p.Forget, tp)
		case !s.names(tp.Topic) && !slices.Contains(p.OtherOffsets, tp.Topic):
			p.OtherOffsets = append(p.OtherOffsets, tp.Topic)
		}
	}
	p.Proof = make(map[broker.TopicPartition]broker.OffsetMeta)
	var stay []broker.TopicPartition
	for tp, o := range v.Committed {
		if s.names(tp.Topic) {
			p.Proof[tp] = o
		} else if !gone[tp.Topic] {
			stay = append(stay, tp)
		}
	}
	if broker.SortPartitions(stay); len(p.Proof) == 0 && len(stay) > 0 {
		p.Proof[stay[0]] = v.Committed[stay[0]]
	}
	broker.SortPartitions(p.Forget)
	slices.Sort(p.OtherOffsets)
	p.warn(s, v)
	return p, nil
}

// warn finds what the user ought to know of a plan that does what he asked for.
func (p *Plan) warn(s Spec, v View) {
	p.warnOfNames(s, v)
	back := slices.ContainsFunc(p.Offsets, func(m Move) bool { return m.To < m.From })
	var kept []string
	for _, t := range p.Kept {
		// One that may be of another application says nothing about this one.
		if strings.HasSuffix(t, "-changelog") && otherOwner(p.ApplicationID, t, v.Groups) == "" {
			kept = append(kept, t)
		}
	}
	if back && len(kept) > 0 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("offsets go back, and the changelogs %s stay: what is read again is added to what they hold, so that results count it twice; without --internal-topics they are deleted too", strings.Join(kept, ", ")))
	}
}

// warnOfNames finds names that are not likely to be meant: of an application that has left no trace, of topics that it has not
// read. The first is no error, as it is none for Java's tool: offsets may be set for an application that has yet to run.
func (p *Plan) warnOfNames(s Spec, v View) {
	if v.Group.Type == broker.GroupNone && len(v.Committed) == 0 && len(p.Topics)+len(p.Kept) == 0 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("nothing of application %s was found on this cluster: no group, no committed offsets, no internal topics; check the application id", s.ApplicationID))
	}
	var read []string
	for tp := range v.Committed {
		if !Internal(s.ApplicationID, tp.Topic) {
			read = append(read, tp.Topic)
		}
	}
	slices.Sort(read)
	read = slices.Compact(read)
	var unread []string
	for _, t := range s.topics() {
		if slices.Contains(s.Inputs, t) && !slices.ContainsFunc(p.Offsets, func(m Move) bool { return m.Topic == t && m.From >= 0 }) {
			unread = append(unread, t)
		}
	}
	if len(read) > 0 && len(unread) > 0 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("the application has committed no offset of %s, but offsets of %s; check that --input-topics names what it reads, not what it writes", strings.Join(unread, ", "), strings.Join(read, ", ")))
	}
}

// names tells whether the user has named a topic as one of his own.
func (s Spec) names(topic string) bool {
	return slices.Contains(s.Inputs, topic) || slices.Contains(s.Intermediate, topic)
}

// Empty tells that there is nothing to do.
func (p Plan) Empty() bool {
	return len(p.Evict) == 0 && len(p.Topics) == 0 && len(p.Forget) == 0 && !slices.ContainsFunc(p.Offsets, Move.changes)
}

// changes tells whether the move is one.
func (m Move) changes() bool { return m.From != m.To }

// members decides on who is in the group. A group of plain consumers is refused: it is not that of an application.
func (p *Plan) members(s Spec, v View) error {
	if v.Group.Type == broker.GroupConsumer {
		return fmt.Errorf("millrace: reset: group %s is of type consumer: its members are plain consumers, not instances of a streams application; check the application id, or use kafka-consumer-groups.sh", s.ApplicationID)
	}
	if len(v.Group.Members) == 0 {
		return nil
	}
	if s.Force && v.Group.Type != broker.GroupStreams {
		p.Evict = slices.Clone(v.Group.Members)
		return nil
	}
	p.Blocked = active(s.ApplicationID, v.Group)
	return nil
}

// active is the error for a group with members.
func active(group string, g broker.GroupDetail) error {
	advice := "stop these instances first (one that was killed, or closed to come back, stays a member until its session timeout has passed, 45 s by default), or take their members out with --force"
	if g.Type == broker.GroupStreams {
		advice = "stop these instances first: nobody else can take members out of a group of type streams, so that --force does not help; one that was killed stays until its session timeout has passed"
	}
	return fmt.Errorf("%w: group %s has members: %s; %s", ErrActive, group, memberNames(g), advice)
}

func memberNames(g broker.GroupDetail) string {
	names := make([]string, len(g.Members))
	for i, m := range g.Members {
		names[i] = m.String()
	}
	return strings.Join(names, ", ")
}

// offsets finds where each partition of the inputs goes.
func (p *Plan) offsets(s Spec, v View, known map[string]broker.TopicInfo) error {
	var missing []string
	var tps, inputs []broker.TopicPartition
	for _, name := range s.topics() {
		t, ok := known[name]
		if !ok || !t.Exists {
			missing = append(missing, name)
			continue
		}
		if t.Err != nil {
			return t.Err
		}
		for n := range t.Partitions {
			tp := broker.TopicPartition{Topic: name, Partition: n}
			if tps = append(tps, tp); slices.Contains(s.Inputs, name) {
				inputs = append(inputs, tp)
			}
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("millrace: reset: there is no topic %s; check the spelling, or leave it out", strings.Join(missing, ", "))
	}
	if err := s.To.covers(inputs); err != nil {
		return err
	}
	for _, tp := range tps {
		m := Move{TopicPartition: tp, From: -1}
		if c, ok := v.Committed[tp]; ok {
			m.From = c.Offset
		}
		start, end := v.Starts[tp], v.Ends[tp]
		if slices.Contains(s.Inputs, tp.Topic) {
			m.To, m.Note = s.To.of(tp, m.From, start, end, v.At[tp])
		} else {
			m.To = end
		}
		switch {
		case m.To < start:
			m.Note = fmt.Sprintf("offset %d is below the first one in the log", m.To)
			m.To = start
		case m.To > end:
			m.Note = fmt.Sprintf("offset %d is beyond the end of the log", m.To)
			m.To = end
		}
		p.Offsets = append(p.Offsets, m)
	}
	return nil
}

// topics are those whose offsets are set, in order.
func (s Spec) topics() []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(s.Inputs, s.Intermediate))))
}

// topics finds the internal topics to delete.
func (p *Plan) topics(s Spec, v View) error {
	var all, doubtful []string
	for _, t := range v.Topics {
		if !t.Exists || s.names(t.Name) || !Internal(s.ApplicationID, t.Name) {
			continue
		}
		all = append(all, t.Name)
		if g := otherOwner(s.ApplicationID, t.Name, v.Groups); g != "" {
			doubtful = append(doubtful, fmt.Sprintf("%s (of %s?)", t.Name, g))
		}
	}
	slices.Sort(all)
	if s.Internal == nil {
		if len(doubtful) > 0 {
			return fmt.Errorf("millrace: reset: these topics have names of application %s, but also of another group whose id begins with %s-: %s; name the topics to delete with --internal-topics", s.ApplicationID, s.ApplicationID, strings.Join(doubtful, ", "))
		}
		p.Topics = all
		return nil
	}
	var strange []string
	for _, t := range slices.Compact(slices.Sorted(slices.Values(s.Internal))) {
		switch {
		case slices.Contains(all, t):
			p.Topics = append(p.Topics, t)
		default:
			// Also one that an earlier run has deleted: it looks like one that is misspelt, and then a changelog would stay.
			strange = append(strange, t)
		}
	}
	if len(strange) > 0 {
		are := "it has none"
		if len(all) > 0 {
			slices.SortStableFunc(all, func(a, b string) int {
				return config.EditDistance(strange[0], a) - config.EditDistance(strange[0], b)
			})
			are = "these are: " + strings.Join(all, ", ")
		}
		return fmt.Errorf("millrace: reset: --internal-topics: there is no internal topic %s of application %s; %s; leave out what an earlier run has deleted (--internal-topics= deletes none)", strings.Join(strange, ", "), s.ApplicationID, are)
	}
	for _, t := range all {
		if !slices.Contains(p.Topics, t) {
			p.Kept = append(p.Kept, t)
		}
	}
	return nil
}

// numberedForeignKey matches the topics of a foreign-key join without a name.
var numberedForeignKey = regexp.MustCompile(`(^|-)KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-\d+-topic$`)

// Internal tells whether a topic has the name of an internal topic of an application: a changelog, a repartition topic, or
// one of the two topics of a foreign-key join.
func Internal(applicationID, topic string) bool {
	rest, ok := strings.CutPrefix(topic, applicationID+"-")
	if !ok {
		return false
	}
	for _, end := range []string{"-changelog", "-repartition", "-subscription-registration-topic", "-subscription-response-topic"} {
		if len(rest) > len(end) && strings.HasSuffix(rest, end) {
			return true
		}
	}
	return numberedForeignKey.MatchString(rest)
}

// otherOwner is a group, of a longer name, of which a topic could be as well; empty if there is none.
func otherOwner(applicationID, topic string, groups []broker.GroupListing) string {
	for _, g := range groups {
		if len(g.Name) > len(applicationID) && strings.HasPrefix(g.Name, applicationID+"-") && Internal(g.Name, topic) {
			return g.Name
		}
	}
	return ""
}
