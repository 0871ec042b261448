package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestCode_namesAndSentinels(t *testing.T) {
	for _, x := range []struct {
		code   Code
		name   string
		is     error
		course Course
	}{
		{CodeGroupIDNotFound, "GROUP_ID_NOT_FOUND", nil, CourseLost},
		{CodeInvalidTransactionTimeout, "INVALID_TRANSACTION_TIMEOUT", nil, CourseStop},
		{CodeIllegalGeneration, "ILLEGAL_GENERATION", nil, CourseAwaitRebalance},
		{CodeRebalanceInProgress, "REBALANCE_IN_PROGRESS", nil, CourseAwaitRebalance},
		{CodeStaleMemberEpoch, "STALE_MEMBER_EPOCH", nil, CourseAwaitRebalance},
		{CodeUnknownMemberID, "UNKNOWN_MEMBER_ID", nil, CourseLost},
		{CodeFencedInstanceID, "FENCED_INSTANCE_ID", nil, CourseLost},
		{CodeUnstableOffsetCommit, "UNSTABLE_OFFSET_COMMIT", nil, CourseRetry},
		{CodeConcurrentTransactions, "CONCURRENT_TRANSACTIONS", nil, CourseRetry},
		{CodeNotCoordinator, "NOT_COORDINATOR", nil, CourseRetry},
		{CodeCoordinatorLoadInProgress, "COORDINATOR_LOAD_IN_PROGRESS", nil, CourseRetry},
		{CodeCoordinatorNotAvailable, "COORDINATOR_NOT_AVAILABLE", nil, CourseRetry},
		{CodeInvalidProducerEpoch, "INVALID_PRODUCER_EPOCH", nil, CourseRebuild},
		{CodeProducerFenced, "PRODUCER_FENCED", nil, CourseRebuild},
		{CodeInvalidTxnState, "INVALID_TXN_STATE", nil, CourseRebuild},
		{CodeInvalidProducerIDMapping, "INVALID_PRODUCER_ID_MAPPING", nil, CourseRebuild},
		{CodeTransactionAbortable, "TRANSACTION_ABORTABLE", nil, CourseAbort},
		{CodeOffsetMetadataTooLarge, "OFFSET_METADATA_TOO_LARGE", nil, CourseAbort},
		{CodeUnknownTopicOrPartition, "UNKNOWN_TOPIC_OR_PARTITION", ErrUnknownTopic, CourseAbort},
		{CodeUnknownTopicID, "UNKNOWN_TOPIC_ID", ErrUnknownTopic, CourseAbort},
		{CodeGroupAuthorizationFailed, "GROUP_AUTHORIZATION_FAILED", ErrUnauthorized, CourseStop},
		{CodeUnsupportedVersion, "UNSUPPORTED_VERSION", nil, CourseStop},
		{CodeRequestTimedOut, "REQUEST_TIMED_OUT", ErrNoAnswer, CourseUnknown},
		{CodeTopicAlreadyExists, "TOPIC_ALREADY_EXISTS", ErrTopicExists, CourseAbort},
		{CodeMessageTooLarge, "MESSAGE_TOO_LARGE", ErrRecordTooLarge, CourseAbort},
		{CodeOffsetOutOfRange, "OFFSET_OUT_OF_RANGE", ErrOffsetOutOfRange, CourseAbort},
		{Code(9999), "KAFKA_ERROR_9999", nil, CourseAbort},
	} {
		if x.code.Error() != x.name {
			t.Errorf("code %d is called %s, want %s", int16(x.code), x.code.Error(), x.name)
		}
		wrapped := fmt.Errorf("somewhere: %w", x.code)
		if !errors.Is(wrapped, x.code) || x.is != nil && !errors.Is(wrapped, x.is) {
			t.Errorf("%s does not match itself or %v", x.name, x.is)
		}
		for _, other := range []error{ErrTopicExists, ErrUnknownTopic, ErrOffsetOutOfRange, ErrRecordTooLarge, ErrUnauthorized, ErrNoAnswer} {
			if other != x.is && errors.Is(wrapped, other) {
				t.Errorf("%s matches %v", x.name, other)
			}
		}
		if got := CourseOf(wrapped); got != x.course {
			t.Errorf("%s: %v, want %v", x.name, got, x.course)
		}
	}
	if !CodeNotLeaderForPartition.Retriable() || CodeMessageTooLarge.Retriable() || Code(0).Retriable() {
		t.Error("retriable codes are mixed up")
	}
}

func TestCourseOf_otherErrors(t *testing.T) {
	for _, x := range []struct {
		err  error
		want Course
	}{
		{nil, CourseNone},
		{context.DeadlineExceeded, CourseUnknown},
		{fmt.Errorf("x: %w", context.Canceled), CourseUnknown},
		{fmt.Errorf("x: %w", ErrNoAnswer), CourseUnknown},
		{ErrUnauthorized, CourseStop},
		{errors.New("whatever"), CourseAbort},
	} {
		if got := CourseOf(x.err); got != x.want {
			t.Errorf("%v: %v, want %v", x.err, got, x.want)
		}
	}
}

func TestCommitError_strictestPartitionDecides(t *testing.T) {
	e := &CommitError{Group: "app", Identity: Identity{MemberID: "m-1", Generation: 4}, Partitions: map[TopicPartition]Code{
		{Topic: "in", Partition: 2}: CodeUnstableOffsetCommit,
		{Topic: "in", Partition: 0}: CodeIllegalGeneration,
		{Topic: "in", Partition: 1}: CodeIllegalGeneration,
	}}
	if c := CourseOf(fmt.Errorf("x: %w", e)); c != CourseAwaitRebalance {
		t.Errorf("course %v", c)
	}
	e.Partitions[TopicPartition{Topic: "x"}] = CodeUnknownMemberID
	if c := CourseOf(e); c != CourseLost {
		t.Errorf("course %v", c)
	}
	if !errors.Is(e, CodeUnknownMemberID) || errors.Is(e, CodeFencedInstanceID) || errors.Is(e, ErrUnauthorized) {
		t.Error("matches the wrong codes")
	}
	for _, word := range []string{"group app", `"m-1"`, "generation 4", "ILLEGAL_GENERATION for in-0 and 1 more", "UNKNOWN_MEMBER_ID for x-0"} {
		if !strings.Contains(e.Error(), word) {
			t.Errorf("%q does not say %q", e, word)
		}
	}
}

func TestProduceClassOf(t *testing.T) {
	tp := TopicPartition{Topic: "out", Partition: 3}
	for _, x := range []struct {
		err  error
		want ProduceClass
		hint string
	}{
		{CodeMessageTooLarge, ProduceRefused, "max.message.bytes"},
		{CodeRecordListTooLarge, ProduceRefused, "max.message.bytes"},
		{CodeInvalidTimestamp, ProduceRefused, ""},
		{CodeInvalidRecord, ProduceRefused, ""},
		{Code(2), ProduceRefused, ""},
		{CodeUnknownTopicOrPartition, ProduceFailed, "create the topic"},
		{CodeNotLeaderForPartition, ProduceFailed, ""},
		{CodeRequestTimedOut, ProduceFailed, ""},
		{ErrUnreachable, ProduceFailed, ""},
		{CodeProducerFenced, ProduceBroken, ""},
		{CodeOutOfOrderSequenceNumber, ProduceBroken, ""},
		{CodeTopicAuthorizationFailed, ProduceForbidden, "grant WRITE"},
		{CodeUnsupportedVersion, ProduceForbidden, ""},
		{ErrClosed, ProduceFailed, ""},
	} {
		err := &ProduceError{TopicPartition: tp, Err: x.err}
		if got := ProduceClassOf(fmt.Errorf("x: %w", err)); got != x.want {
			t.Errorf("%v: %v, want %v", x.err, got, x.want)
		}
		if !strings.Contains(err.Error(), "out-3") || !strings.Contains(err.Error(), x.hint) {
			t.Errorf("%q does not say out-3 or %q", err, x.hint)
		}
	}
	if ProduceClassOf(nil) != ProduceOK {
		t.Error("no error has a class")
	}
	if s := (&ProduceError{TopicPartition: TopicPartition{Topic: "out", Partition: -1}, Err: ErrClosed}).Error(); strings.Contains(s, "-1") {
		t.Errorf("%q names a partition that was not chosen", s)
	}
}

func TestRangeErrors(t *testing.T) {
	var oor error = &OffsetRangeError{TopicPartition: TopicPartition{Topic: "log"}, Offset: 3, LogStart: 5, End: 9}
	var cut error = &TruncatedError{TopicPartition: TopicPartition{Topic: "log"}, Offset: 9, End: 7}
	if !errors.Is(oor, ErrOffsetOutOfRange) || errors.Is(oor, ErrTruncated) || !errors.Is(oor, CodeOffsetOutOfRange) {
		t.Errorf("%v", oor)
	}
	if !errors.Is(cut, ErrOffsetOutOfRange) || !errors.Is(cut, ErrTruncated) || !strings.Contains(cut.Error(), "log-0@9") {
		t.Errorf("%v", cut)
	}
}
