package broker

import (
	"context"
	"errors"
	"fmt"
)

// Sentinels to test for with errors.Is. Errors of the clients wrap them with the topic, partition, group or address that
// they are about.
var (
	// ErrTopicExists is returned by CreateTopic for a topic that is there already.
	ErrTopicExists = errors.New("topic exists already")
	// ErrUnknownTopic means that the cluster does not have the topic or the partition.
	ErrUnknownTopic = errors.New("unknown topic or partition")
	// ErrOffsetOutOfRange means that the offset to read is not in the log: it was deleted, or lies beyond the end.
	ErrOffsetOutOfRange = errors.New("offset out of range")
	// ErrTruncated means that the log was cut back below the offset to read and goes on with other records, after an
	// unclean leader election: what was read last is not in the log any more. It is an offset out of range too.
	ErrTruncated = errors.New("log truncated")
	// ErrRecordTooLarge means that a broker (or the client's own limit) refused a record for its size.
	ErrRecordTooLarge = errors.New("record too large")
	// ErrUnauthorized means that the principal may not do this. Asking again does not help.
	ErrUnauthorized = errors.New("not authorized")
	// ErrNextEpoch means that the client took the next epoch of a transactional id within a transaction: it is aborted, and
	// nobody else has the id.
	ErrNextEpoch = errors.New("the client has begun another epoch by itself")
	// ErrNoAnswer means that a request may have taken effect or not: its answer did not come.
	ErrNoAnswer = errors.New("no answer")
	// ErrUnreachable means that no broker could be spoken to: wrong address, no listener, failed TLS or SASL.
	ErrUnreachable = errors.New("no broker can be reached")
	// ErrClosed means that the client was closed.
	ErrClosed = errors.New("client closed")
	// ErrAborted is the answer to a record that was given up with its transaction.
	ErrAborted = errors.New("given up with its transaction")
	// ErrMixedGroup means that the group holds members that do not speak this library's protocol.
	ErrMixedGroup = errors.New("group holds other members")
	// ErrGroupProtocol means that the brokers do not let the instance into the group, by what they are or how they are set up,
	// and will not later.
	ErrGroupProtocol = errors.New("the group protocol is refused")
	// ErrTopologyMismatch means that the group's leader runs another topology under the same application id.
	ErrTopologyMismatch = errors.New("another topology runs under the same application id")
	// ErrApplicationStopped means that an instance has asked for the end of all of them.
	ErrApplicationStopped = errors.New("an instance has asked for the whole application to stop")
)

// Is makes a code match the sentinel that it belongs to.
func (c Code) Is(target error) bool {
	switch target {
	case ErrTopicExists:
		return c == CodeTopicAlreadyExists
	case ErrUnknownTopic:
		return c == CodeUnknownTopicOrPartition || c == CodeUnknownTopicID
	case ErrOffsetOutOfRange:
		return c == CodeOffsetOutOfRange
	case ErrRecordTooLarge:
		return c == CodeMessageTooLarge || c == CodeRecordListTooLarge
	case ErrUnauthorized:
		return c.unauthorized()
	case ErrNoAnswer:
		// The broker gave up waiting for its followers or was cut off: the request may have been carried out.
		return c == CodeRequestTimedOut || c == CodeNetworkException
	}
	return false
}

func (c Code) unauthorized() bool {
	switch c {
	case CodeTopicAuthorizationFailed, CodeGroupAuthorizationFailed, CodeClusterAuthorizationFailed,
		CodeTransactionalIDAuthorizationFailed, CodeSASLAuthenticationFailed, CodeUnsupportedSASLMechanism:
		return true
	}
	return false
}

// OffsetRangeError says which offset was asked for and where the log starts now.
type OffsetRangeError struct {
	TopicPartition
	Offset   int64
	LogStart int64 // first offset kept, -1 unknown
	End      int64 // high watermark, -1 unknown
}

func (e *OffsetRangeError) Error() string {
	return fmt.Sprintf("millrace: %s-%d@%d: offset out of range: the log holds %d to %d",
		e.Topic, e.Partition, e.Offset, e.LogStart, e.End)
}

// Is matches ErrOffsetOutOfRange and CodeOffsetOutOfRange.
func (e *OffsetRangeError) Is(target error) bool {
	return target == ErrOffsetOutOfRange || target == CodeOffsetOutOfRange
}

// TruncatedError says up to where the log still agrees with what was read.
type TruncatedError struct {
	TopicPartition
	Offset int64 // that was to be read next
	End    int64 // what lies at or behind it is lost
	Remade bool  // the topic was deleted, and made again
}

func (e *TruncatedError) Error() string {
	if e.Remade {
		return fmt.Sprintf("millrace: %s-%d@%d: the topic was deleted and made again while it was read", e.Topic, e.Partition, e.Offset)
	}
	return fmt.Sprintf("millrace: %s-%d@%d: log truncated: an unclean leader election has lost what was at and behind offset %d",
		e.Topic, e.Partition, e.Offset, e.End)
}

// Is matches ErrTruncated, ErrOffsetOutOfRange and CodeOffsetOutOfRange.
func (e *TruncatedError) Is(target error) bool {
	return target == ErrTruncated || target == ErrOffsetOutOfRange || target == CodeOffsetOutOfRange
}

// interrupted reports whether an error is the end of a context, so that nothing is known of the other side.
func interrupted(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
