package config

import (
	"fmt"
	"strings"
	"time"
)

// Guarantee is a processing guarantee.
type Guarantee uint8

const (
	// AtLeastOnce loses nothing; after a failure records may be processed again.
	AtLeastOnce Guarantee = iota
	// ExactlyOnceV2 makes results, offsets and state of a commit atomic.
	ExactlyOnceV2
)

// String returns the value of the property processing.guarantee.
func (g Guarantee) String() string { return enumText(guarantees(), g) }

func guarantees() []enumValue[Guarantee] {
	return []enumValue[Guarantee]{{AtLeastOnce, "at_least_once"}, {ExactlyOnceV2, "exactly_once_v2"}}
}

// GroupProtocol says who assigns the tasks of the group.
type GroupProtocol uint8

const (
	// Classic lets the member that leads the group assign them.
	Classic GroupProtocol = iota
	// Streams lets the brokers assign them (KIP-1071).
	Streams
)

// String returns the value of the property group.protocol.
func (p GroupProtocol) String() string { return enumText(groupProtocols(), p) }

func groupProtocols() []enumValue[GroupProtocol] {
	return []enumValue[GroupProtocol]{{Classic, "classic"}, {Streams, "streams"}}
}

// StoreKind says where a store lies.
type StoreKind uint8

const (
	Persistent StoreKind = iota // on disk, in Pebble
	InMemory                    // in memory, restored from the changelog at each start
)

// String returns the value of the property default.dsl.store.
func (k StoreKind) String() string { return enumText(storeKinds(), k) }

func storeKinds() []enumValue[StoreKind] {
	return []enumValue[StoreKind]{{Persistent, "rocksDB"}, {InMemory, "in_memory"}}
}

// storeClasses are the classes that name a StoreKind.
func storeClasses() []enumValue[StoreKind] {
	return []enumValue[StoreKind]{
		{Persistent, "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$RocksDBDslStoreSuppliers"},
		{InMemory, "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers"},
	}
}

// ErrorPolicy is what becomes of a record that fails. A handler written in Go can decide more finely.
type ErrorPolicy uint8

const (
	// FailOnError stops the task; nothing after the last commit counts.
	FailOnError ErrorPolicy = iota
	// ContinueOnError logs and counts the record and goes on without it.
	ContinueOnError
)

// String returns "fail" or "continue".
func (p ErrorPolicy) String() string {
	if p == ContinueOnError {
		return "continue"
	}
	return "fail"
}

const errorsPackage = "org.apache.kafka.streams.errors."

func deserializationHandlers() []enumValue[ErrorPolicy] {
	return []enumValue[ErrorPolicy]{
		{FailOnError, errorsPackage + "LogAndFailExceptionHandler"},
		{ContinueOnError, errorsPackage + "LogAndContinueExceptionHandler"},
	}
}

func processingHandlers() []enumValue[ErrorPolicy] {
	return []enumValue[ErrorPolicy]{
		{FailOnError, errorsPackage + "LogAndFailProcessingExceptionHandler"},
		{ContinueOnError, errorsPackage + "LogAndContinueProcessingExceptionHandler"},
	}
}

func productionHandlers() []enumValue[ErrorPolicy] {
	return []enumValue[ErrorPolicy]{{FailOnError, errorsPackage + "DefaultProductionExceptionHandler"}}
}

// TimestampPolicy says what gives a record its event time.
type TimestampPolicy uint8

const (
	// FailOnInvalidTimestamp takes the record's timestamp; a negative one stops the task.
	FailOnInvalidTimestamp TimestampPolicy = iota
	// SkipInvalidTimestamp takes the record's timestamp; a record with a negative one is skipped and counted.
	SkipInvalidTimestamp
	// PartitionTimeOnInvalid takes the record's timestamp; a negative one is replaced by the highest that was read from
	// the partition before.
	PartitionTimeOnInvalid
	// WallclockTimestamp takes the time at which the record is processed.
	WallclockTimestamp
)

// String returns the simple name of the Java class.
func (p TimestampPolicy) String() string {
	return strings.TrimPrefix(enumText(timestampClasses(), p), processorPackage)
}

const processorPackage = "org.apache.kafka.streams.processor."

func timestampClasses() []enumValue[TimestampPolicy] {
	return []enumValue[TimestampPolicy]{
		{FailOnInvalidTimestamp, processorPackage + "FailOnInvalidTimestamp"},
		{SkipInvalidTimestamp, processorPackage + "LogAndSkipOnInvalidTimestamp"},
		{PartitionTimeOnInvalid, processorPackage + "UsePartitionTimeOnInvalidTimestamp"},
		{WallclockTimestamp, processorPackage + "WallclockTimestampExtractor"},
	}
}

// Isolation says whether records of open or aborted transactions are read.
type Isolation uint8

const (
	ReadUncommitted Isolation = iota
	ReadCommitted
)

// String returns the value of the property isolation.level.
func (i Isolation) String() string { return enumText(isolations(), i) }

func isolations() []enumValue[Isolation] {
	return []enumValue[Isolation]{{ReadUncommitted, "read_uncommitted"}, {ReadCommitted, "read_committed"}}
}

// RackStrategy says how tasks are assigned to instances in the rack of what they read.
type RackStrategy uint8

const (
	RackNone               RackStrategy = iota // without regard to racks
	RackMinTraffic                             // as many tasks on each instance as without
	RackBalanceSubtopology                     // as many tasks of each sub-topology as without
)

// String returns the value of the property rack.aware.assignment.strategy.
func (r RackStrategy) String() string { return enumText(rackStrategies(), r) }

func rackStrategies() []enumValue[RackStrategy] {
	return []enumValue[RackStrategy]{{RackNone, "none"}, {RackMinTraffic, "min_traffic"}, {RackBalanceSubtopology, "balance_subtopology"}}
}

// Codec is a way to compress batches.
type Codec uint8

const (
	CompressionNone Codec = iota
	CompressionGzip
	CompressionSnappy
	CompressionLZ4
	CompressionZstd
)

// String returns the value of the property compression.type.
func (c Codec) String() string { return enumText(codecs(), c) }

func codecs() []enumValue[Codec] {
	return []enumValue[Codec]{
		{CompressionNone, "none"}, {CompressionGzip, "gzip"}, {CompressionSnappy, "snappy"},
		{CompressionLZ4, "lz4"}, {CompressionZstd, "zstd"},
	}
}

// ResetKind tells the kinds of Reset apart.
type ResetKind uint8

const (
	ResetEarliest ResetKind = iota // the first record kept
	ResetLatest                    // only what is written from now on
	ResetNone                      // stop with an error
	ResetDuration                  // the first record that is not older than Reset.Back
)

// Reset is where reading starts when no offset is committed, or the committed one is gone.
//
// In Kafka Streams: AutoOffsetReset.
type Reset struct {
	Kind ResetKind
	Back time.Duration // of ResetDuration
}

// String returns the value of the property auto.offset.reset.
func (r Reset) String() string {
	switch r.Kind {
	case ResetLatest:
		return "latest"
	case ResetNone:
		return "none"
	case ResetDuration:
		return "by_duration:" + formatISODuration(r.Back)
	}
	return "earliest"
}

// ParseReset reads a value of the property auto.offset.reset.
func ParseReset(s string) (Reset, error) {
	switch s {
	case "earliest":
		return Reset{Kind: ResetEarliest}, nil
	case "latest":
		return Reset{Kind: ResetLatest}, nil
	case "none":
		return Reset{Kind: ResetNone}, nil
	}
	iso, ok := strings.CutPrefix(s, "by_duration:")
	if !ok {
		return Reset{}, fmt.Errorf("must be earliest, latest, none or by_duration:<ISO 8601 duration>, such as by_duration:PT1H")
	}
	d, err := ParseISODuration(iso)
	if err != nil {
		return Reset{}, err
	}
	if d < 0 {
		return Reset{}, fmt.Errorf("must not look into the future: the duration is negative")
	}
	return Reset{Kind: ResetDuration, Back: d}, nil
}

// enumValue is one value of an enumeration with its text as a property.
type enumValue[T comparable] struct {
	value T
	text  string
}

func enumText[T comparable](values []enumValue[T], v T) string {
	for _, e := range values {
		if e.value == v {
			return e.text
		}
	}
	return "unknown"
}

func enumTexts[T comparable](values []enumValue[T]) []string {
	out := make([]string, len(values))
	for i, e := range values {
		out[i] = e.text
	}
	return out
}
