package broker

import (
	"errors"
	"fmt"
	"sort"
	"strings"
)

// CommitError holds what a coordinator refused of one offset commit, partition by partition. Partitions that are not in
// it were committed.
type CommitError struct {
	Group      string
	Identity   Identity
	Partitions map[TopicPartition]Code
}

// Error names the codes with the partitions that got them.
func (e *CommitError) Error() string {
	byCode := make(map[Code][]TopicPartition)
	for tp, c := range e.Partitions {
		byCode[c] = append(byCode[c], tp)
	}
	codes := make([]Code, 0, len(byCode))
	for c := range byCode {
		codes = append(codes, c)
	}
	sort.Slice(codes, func(i, j int) bool { return codes[i] < codes[j] })
	var b strings.Builder
	fmt.Fprintf(&b, "millrace: group %s: offset commit of member %q generation %d refused:", e.Group, e.Identity.MemberID, e.Identity.Generation)
	for i, c := range codes {
		tps := byCode[c]
		SortPartitions(tps)
		sep := ""
		if i > 0 {
			sep = ";"
		}
		fmt.Fprintf(&b, "%s %s for %s-%d", sep, c.Error(), tps[0].Topic, tps[0].Partition)
		if len(tps) > 1 {
			fmt.Fprintf(&b, " and %d more", len(tps)-1)
		}
	}
	return b.String()
}

// Is matches a code (or a sentinel that a code belongs to) that any partition got.
func (e *CommitError) Is(target error) bool {
	for _, c := range e.Partitions {
		if error(c) == target || c.Is(target) {
			return true
		}
	}
	return false
}

// Course is the strictest course that any partition's code asks for.
func (e *CommitError) Course() Course {
	course := CourseNone
	for _, c := range e.Partitions {
		course = max(course, c.Course())
	}
	return course
}

// Course is what has to be done after an error of a commit, plain or in a transaction. The courses are ordered: the
// greater one wins where several partitions failed differently.
type Course uint8

const (
	// CourseNone: there was no error.
	CourseNone Course = iota
	// CourseRetry: a passing state (coordinator moving, pending transaction); the same request again.
	CourseRetry
	// CourseAwaitRebalance: the group is between two generations. Wait, bounded, until the member has joined and synced,
	// and try again with the new generation if the member id is unchanged and all partitions are still owned; else abort.
	CourseAwaitRebalance
	// CourseAbort: the transaction (or the commit) cannot succeed; drop it and go back to what is committed.
	CourseAbort
	// CourseUnknown: no answer; ask the coordinator what is committed before anything else.
	CourseUnknown
	// CourseLost: the member is not in the group any more; nothing of it may be committed.
	CourseLost
	// CourseRebuild: the producer was fenced or its transaction timed out; drop all, prove membership, make a new one.
	CourseRebuild
	// CourseStop: it will never succeed (refused authorisation, version not supported): stop the App.
	CourseStop
)

// String names the course for logs.
func (c Course) String() string {
	switch c {
	case CourseNone:
		return "none"
	case CourseRetry:
		return "retry"
	case CourseAwaitRebalance:
		return "await rebalance"
	case CourseAbort:
		return "abort"
	case CourseUnknown:
		return "unknown"
	case CourseLost:
		return "lost"
	case CourseRebuild:
		return "rebuild producer"
	case CourseStop:
		return "stop"
	}
	return "invalid"
}

// Course is what a commit that got this code has to do.
func (c Code) Course() Course {
	switch c {
	case 0:
		return CourseNone
	case CodeIllegalGeneration, CodeRebalanceInProgress, CodeStaleMemberEpoch:
		return CourseAwaitRebalance
	case CodeUnknownMemberID, CodeFencedInstanceID, CodeFencedMemberEpoch,
		CodeGroupIDNotFound: // of a commit: the group has lost all its members
		return CourseLost
	case CodeUnstableOffsetCommit, CodeConcurrentTransactions,
		CodeCoordinatorLoadInProgress, CodeCoordinatorNotAvailable, CodeNotCoordinator:
		return CourseRetry
	case CodeInvalidProducerEpoch, CodeProducerFenced, CodeInvalidTxnState, CodeInvalidProducerIDMapping:
		return CourseRebuild
	case CodeRequestTimedOut, CodeNetworkException:
		return CourseUnknown
	case CodeUnsupportedVersion, CodeInvalidTransactionTimeout:
		return CourseStop
	}
	if c.unauthorized() {
		return CourseStop
	}
	return CourseAbort
}

// CourseOf is the course after any error of a commit call: a CommitError, a Code, a lost answer or a cancelled context,
// wrapped or not. An error that says nothing of the kind is CourseAbort.
func CourseOf(err error) Course {
	if err == nil {
		return CourseNone
	}
	var ce *CommitError
	if errors.As(err, &ce) {
		return ce.Course()
	}
	var c Code
	if errors.As(err, &c) {
		return c.Course()
	}
	if errors.Is(err, ErrNextEpoch) {
		return CourseRebuild
	}
	if errors.Is(err, ErrNoAnswer) || interrupted(err) {
		return CourseUnknown
	}
	if errors.Is(err, ErrUnauthorized) {
		return CourseStop
	}
	return CourseAbort
}
