package op

import (
	"fmt"

	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

// joinRelease sends on the unmatched rows whose windows have closed. A result has the row's key and timestamp, and as in Kafka
// Streams the headers of the record that moved the time.
type joinRelease[K, L, R, O any] struct {
	guard
	spec      *StreamJoinSpec[K, L, R, O]
	time      *joinTime
	unmatched *Unmatched
	left      *JoinStore[K, L]
	right     *JoinStore[K, R]
	next      Sink[K, O]
	nilValue  func(*O) bool

	list []byte
	out  processor.Record[K, O]
}

// run sends on all rows that are due, by timestamp, right before left, by key.
func (j *joinRelease[K, L, R, O]) run(headers serde.Headers, tsMs int64) error {
	bounds := j.time.dueBelow()
	for {
		side, due, err := j.unmatched.due(bounds)
		if err != nil || due == nil {
			return err
		}
		rowMs, key := due.tsMs, due.key
		if j.list, err = j.unmatched.take(j.list[:0], side, key, tsMs); err != nil {
			return err
		}
		var sent error // of the steps behind; it has been judged
		err = codec.EachSidedValue(j.list, func(_ byte, value []byte) error {
			sent = j.row(side, key[unmatchedKeyAt:], value, rowMs, headers)
			return sent
		})
		if sent != nil {
			return sent
		}
		if err != nil {
			return j.env.fault(j.unmatched.name, err)
		}
	}
}

// row sends on one row. A failure that the policy passes over costs it alone.
func (j *joinRelease[K, L, R, O]) row(side byte, key string, value []byte, rowMs int64, headers serde.Headers) error {
	for attempt := 1; ; attempt++ {
		err := j.call(side, key, value)
		if err == nil {
			j.out.TimestampMs, j.out.Headers = rowMs, headers
			j.out.NullValue = j.nilValue != nil && j.nilValue(&j.out.Value)
			return j.next.Process(&j.out)
		}
		if retry, err := j.failed(err, attempt); !retry {
			return err
		}
	}
}

func (j *joinRelease[K, L, R, O]) call(side byte, key string, value []byte) (err error) {
	defer recovered(&err)
	var l L
	var r R
	if j.out.Key, err = j.left.key.Decode([]byte(key)); err != nil {
		return fmt.Errorf("millrace: store %s: a stored key does not decode: %w; has the serde of the store changed?", j.unmatched.name, err)
	}
	if side == leftSide {
		l, err = j.left.value.Decode(value)
	} else {
		r, err = j.right.value.Decode(value)
	}
	if err != nil {
		return fmt.Errorf("millrace: store %s: a stored value does not decode: %w; has the serde of the store changed?", j.unmatched.name, err)
	}
	j.out.Value, err = j.spec.Join(l, side == leftSide, r, side == rightSide)
	return err
}
