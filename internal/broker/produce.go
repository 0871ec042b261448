package broker

import (
	"errors"
	"fmt"
)

// ProduceClass is what has to be done after a record could not be written.
type ProduceClass uint8

const (
	// ProduceOK: there was no error.
	ProduceOK ProduceClass = iota
	// ProduceRefused: this record is the reason (too large, invalid timestamp, refused by the broker's checks); other
	// records may pass. The production error handler decides.
	ProduceRefused
	// ProduceFailed: the cluster could not take it in time (no leader, missing topic, broker away, timeout). The same
	// record may pass later; it may also have been written.
	ProduceFailed
	// ProduceBroken: the producer cannot go on (fenced, sequence lost): rebuild it.
	ProduceBroken
	// ProduceForbidden: refused authorisation or an unsupported version: asking again does not help.
	ProduceForbidden
)

// String names the class for logs.
func (c ProduceClass) String() string {
	switch c {
	case ProduceOK:
		return "ok"
	case ProduceRefused:
		return "record refused"
	case ProduceFailed:
		return "failed"
	case ProduceBroken:
		return "producer broken"
	case ProduceForbidden:
		return "forbidden"
	}
	return "invalid"
}

// ProduceError is the error given to done of a record that was not acknowledged.
type ProduceError struct {
	TopicPartition // Partition is -1 where none was chosen yet
	Err            error
}

func (e *ProduceError) Error() string {
	at := e.Topic
	if e.Partition >= 0 {
		at = fmt.Sprintf("%s-%d", e.Topic, e.Partition)
	}
	return fmt.Sprintf("millrace: produce to %s: %v%s", at, e.Err, produceHint(e.Err))
}

func (e *ProduceError) Unwrap() error { return e.Err }

func produceHint(err error) string {
	switch {
	case errors.Is(err, ErrRecordTooLarge):
		return ": raise max.message.bytes of the topic (and max.request.size here), or make the record smaller"
	case errors.Is(err, ErrUnknownTopic):
		return ": create the topic"
	case errors.Is(err, CodeTransactionalIDAuthorizationFailed):
		return ": grant WRITE and DESCRIBE on the transactional id"
	case errors.Is(err, ErrUnauthorized):
		return ": grant WRITE on the topic"
	}
	return ""
}

// ProduceClassOf classifies the error of a done.
func ProduceClassOf(err error) ProduceClass {
	if err == nil {
		return ProduceOK
	}
	var c Code
	if errors.As(err, &c) {
		switch c {
		case CodeMessageTooLarge, CodeRecordListTooLarge, CodeInvalidTimestamp, CodeInvalidRecord, 2 /* CORRUPT_MESSAGE: a null key on a compacted topic */ :
			return ProduceRefused
		case CodeInvalidProducerEpoch, CodeProducerFenced, CodeInvalidTxnState, CodeInvalidProducerIDMapping,
			CodeOutOfOrderSequenceNumber, CodeUnknownProducerID, CodeTransactionAbortable:
			return ProduceBroken
		case CodeUnsupportedVersion:
			return ProduceForbidden
		}
		if c.unauthorized() {
			return ProduceForbidden
		}
		return ProduceFailed
	}
	switch {
	case errors.Is(err, ErrRecordTooLarge):
		return ProduceRefused
	case errors.Is(err, ErrUnauthorized):
		return ProduceForbidden
	}
	return ProduceFailed
}
