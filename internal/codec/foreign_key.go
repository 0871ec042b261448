package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Instruction says what the right side of a foreign-key join is to do with a subscription.
//
// In Kafka Streams: SubscriptionWrapper.Instruction.
type Instruction byte

const (
	// Unsubscribe forgets the subscription, and nothing is answered.
	Unsubscribe Instruction = 0
	// UnsubscribeAndAnswer forgets the subscription and answers that there is no right row.
	UnsubscribeAndAnswer Instruction = 1
	// SubscribeAndAnswer keeps the subscription and answers with the right row, or that there is none.
	SubscribeAndAnswer Instruction = 2
	// SubscribeAndAnswerIfFound keeps the subscription and answers only if there is a right row.
	SubscribeAndAnswerIfFound Instruction = 3
)

// Keeps tells whether the subscription is kept.
func (i Instruction) Keeps() bool { return i == SubscribeAndAnswer || i == SubscribeAndAnswerIfFound }

// Subscription is what the left side of a foreign-key join tells the right one about a row, under its foreign key: in the
// registration topic, and in the right side's store and changelog.
//
// In Kafka Streams: SubscriptionWrapper.
type Subscription struct {
	Instruction Instruction
	HasHash     bool // false: there is no left row any more
	Hash        Hash128
	PrimaryKey  []byte
	// Partition is where the left row lies; it is not told (HasPartition) by version 0, which releases before 3.2 wrote.
	Partition    int32
	HasPartition bool
}

const (
	noHash = 0x80 // beside the version, in the first byte

	subscriptionVersion = 1
	responseVersion     = 0
)

// AppendSubscription appends a subscription: in version 1, or in version 0 if its partition is not known.
//
// In Kafka Streams: SubscriptionWrapperSerde.
func AppendSubscription(dst []byte, s *Subscription) []byte {
	first := byte(0)
	if s.HasPartition {
		first = subscriptionVersion
	}
	if !s.HasHash {
		first |= noHash
	}
	dst = append(dst, first, byte(s.Instruction))
	if s.HasHash {
		dst = append(dst, s.Hash[:]...)
	}
	dst = append(dst, s.PrimaryKey...)
	if !s.HasPartition {
		return dst
	}
	return binary.BigEndian.AppendUint32(dst, uint32(s.Partition))
}

// ParseSubscription takes a subscription of version 1 or 0 apart. The primary key is a part of src.
func ParseSubscription(src []byte) (Subscription, error) {
	var s Subscription
	if len(src) < 2 {
		return s, fmt.Errorf("codec: a subscription of %d bytes, which has room for neither version nor instruction", len(src))
	}
	version := src[0] &^ noHash
	if version > subscriptionVersion {
		return s, fmt.Errorf("codec: a subscription of version %d; a newer release wrote it, and this one reads up to %d", version, subscriptionVersion)
	}
	if src[1] > byte(SubscribeAndAnswerIfFound) {
		return s, fmt.Errorf("codec: a subscription with the unknown instruction %d", src[1])
	}
	s.Instruction, s.HasHash = Instruction(src[1]), src[0]&noHash == 0
	rest := src[2:]
	if s.HasHash {
		if len(rest) < len(s.Hash) {
			return s, errors.New("codec: a subscription that ends inside its hash")
		}
		rest = rest[copy(s.Hash[:], rest):]
	}
	if version > 0 {
		if len(rest) < 4 {
			return s, errors.New("codec: a subscription that ends inside its partition")
		}
		at := len(rest) - 4
		s.Partition, s.HasPartition = int32(binary.BigEndian.Uint32(rest[at:])), true
		rest = rest[:at]
	}
	s.PrimaryKey = rest[:len(rest):len(rest)]
	return s, nil
}

// SubscriptionResponse is the right side's answer, under the primary key.
//
// In Kafka Streams: SubscriptionResponseWrapper.
type SubscriptionResponse struct {
	HasHash bool
	Hash    Hash128 // that of the subscription
	// Value is the encoded right row. The form has no difference between no row and one of no bytes.
	Value []byte
}

// AppendSubscriptionResponse appends a response.
//
// In Kafka Streams: SubscriptionResponseWrapperSerde.
func AppendSubscriptionResponse(dst []byte, r *SubscriptionResponse) []byte {
	if !r.HasHash {
		return append(append(dst, responseVersion|noHash), r.Value...)
	}
	dst = append(dst, responseVersion)
	dst = append(dst, r.Hash[:]...)
	return append(dst, r.Value...)
}

// ParseSubscriptionResponse takes a response apart. The value is a part of src, and is not nil.
func ParseSubscriptionResponse(src []byte) (SubscriptionResponse, error) {
	var r SubscriptionResponse
	if len(src) == 0 {
		return r, errors.New("codec: a response of no bytes; its first one tells the version")
	}
	if version := src[0] &^ noHash; version != responseVersion {
		return r, fmt.Errorf("codec: a response of version %d; a newer release wrote it, and this one reads %d", version, responseVersion)
	}
	rest := src[1:]
	if r.HasHash = src[0]&noHash == 0; r.HasHash {
		if len(rest) < len(r.Hash) {
			return r, errors.New("codec: a response that ends inside its hash")
		}
		rest = rest[copy(r.Hash[:], rest):]
	}
	r.Value = rest[:len(rest):len(rest)]
	return r, nil
}

// AppendForeignKeyPrefix appends what the keys of all subscriptions of a foreign key begin with, and no others: its length
// and itself.
//
// In Kafka Streams: CombinedKeySchema.prefixBytes.
func AppendForeignKeyPrefix(dst, foreignKey []byte) ([]byte, error) {
	if len(foreignKey) > math.MaxInt32 {
		return dst, fmt.Errorf("codec: a foreign key of %d bytes; at most %d can be told", len(foreignKey), math.MaxInt32)
	}
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(foreignKey))), foreignKey...), nil
}

// AppendCombinedKey appends the key of a subscription in the right side's store: the length of the foreign key, the foreign
// key, the primary key.
//
// In Kafka Streams: CombinedKeySchema.toBytes.
func AppendCombinedKey(dst, foreignKey, primaryKey []byte) ([]byte, error) {
	dst, err := AppendForeignKeyPrefix(dst, foreignKey)
	if err != nil {
		return dst, err
	}
	return append(dst, primaryKey...), nil
}

// ParseCombinedKey takes the key of a subscription apart. Both keys are parts of src.
//
// In Kafka Streams: CombinedKeySchema.fromBytes.
func ParseCombinedKey(src []byte) (foreignKey, primaryKey []byte, err error) {
	if len(src) < 4 {
		return nil, nil, fmt.Errorf("codec: a combined key of %d bytes, which has no room for the length of the foreign key", len(src))
	}
	size, rest := binary.BigEndian.Uint32(src), src[4:]
	if uint64(size) > uint64(len(rest)) {
		return nil, nil, fmt.Errorf("codec: a combined key of %d bytes whose foreign key is to have %d", len(src), size)
	}
	return rest[:size:size], rest[size:len(rest):len(rest)], nil
}
