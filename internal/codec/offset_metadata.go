package codec

import (
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
)

// NoTime is the time of a partition or task of which no record has been seen.
//
// In Kafka Streams: RecordQueue.UNKNOWN.
const NoTime int64 = -1

// OffsetMetadataLimit is how long, in bytes, the text of an OffsetMetadata may become by entries that are ours alone. A
// broker refuses a commit whose metadata is longer than its offset.metadata.max.bytes, 4096 by default.
const OffsetMetadataLimit = 3000

// ownMetadataPrefix begins the names of entries that are ours alone. No store can have such a name: store names consist of
// letters, digits, '.', '_' and '-'. Kafka Streams keeps entries that it does not know, merges them over partitions by
// their maximum, and writes them back.
const ownMetadataPrefix = "~"

// inputMark parts the name of a store from the number of one of the inputs that share it, in the names of Observed.
const inputMark = "#"

// InputTime names in Observed the time of one of several inputs of a store, numbered from 0, which have a time each. Of the
// first it is the store's name, as for a store with one input.
func InputTime(store string, input int) string {
	if input == 0 {
		return store
	}
	return store + inputMark + strconv.Itoa(input)
}

// StoreOfTime returns the store whose time, or that of whose input, has a name in Observed.
func StoreOfTime(name string) string {
	store, _, _ := strings.Cut(name, inputMark)
	return store
}

// OffsetMetadata stands beside a committed offset, and says how far time had come at that offset.
//
// In Kafka Streams: TopicPartitionMetadata, of which StreamTimeMs and Observed are an extension.
type OffsetMetadata struct {
	// PartitionTimeMs is the highest timestamp read from the partition, NoTime before the first record.
	PartitionTimeMs int64

	// StreamTimeMs is the stream time of the task that reads the partition, never below PartitionTimeMs. It is written
	// only where it is above.
	StreamTimeMs int64

	// Processor holds, by the name of the store, up to which close time a windowed step with emit-on-close has emitted. A
	// task takes the maximum over its partitions.
	Processor map[string]int64

	// Observed holds the observed time of windowed steps, by a name that the engine chooses and that is the same in each
	// version of the topology. The name is not empty. A task takes the maximum over its partitions.
	Observed map[string]int64
}

// AppendOffsetMetadata appends the text of a committed offset's metadata. Equal metadata give equal texts. Entries that are
// ours alone and would make the text longer than OffsetMetadataLimit are left out, and leftOut says how many: a commit
// never fails for them. What Kafka Streams would write too is never left out.
//
// In Kafka Streams: TopicPartitionMetadata.encode.
func AppendOffsetMetadata(dst []byte, m OffsetMetadata) (out []byte, leftOut int) {
	var rawRoom [512]byte
	var nameRoom [16]string
	raw := append(rawRoom[:0], 2) // version
	raw = binary.BigEndian.AppendUint64(raw, uint64(m.PartitionTimeMs))

	// The map is written only if it has entries, so its size is put in front once they are known.
	const countAt, countSize = 9, 4
	count := 0
	raw = append(raw, 0, 0, 0, 0)
	add := func(prefix, name string, value int64) {
		raw = binary.BigEndian.AppendUint32(raw, uint32(len(prefix)+len(name)))
		raw = append(append(raw, prefix...), name...)
		raw = binary.BigEndian.AppendUint64(raw, uint64(value))
		count++
	}
	addOwn := func(name string, value int64) {
		size := len(raw) + 4 + len(ownMetadataPrefix) + len(name) + 8
		if base64.StdEncoding.EncodedLen(size) > OffsetMetadataLimit {
			leftOut++
			return
		}
		add(ownMetadataPrefix, name, value)
	}

	names := sortedNames(nameRoom[:0], m.Processor)
	for _, name := range names {
		add("", name, m.Processor[name])
	}
	// The stream time comes first among ours: it stands in for each observed time that is left out.
	if m.StreamTimeMs > m.PartitionTimeMs {
		addOwn("", m.StreamTimeMs)
	}
	names = sortedNames(names[:0], m.Observed)
	for _, name := range names {
		addOwn(name, m.Observed[name])
	}

	if count == 0 {
		raw = raw[:countAt]
	} else {
		binary.BigEndian.PutUint32(raw[countAt:countAt+countSize], uint32(count))
	}
	return base64.StdEncoding.AppendEncode(dst, raw), leftOut
}

func sortedNames(dst []string, m map[string]int64) []string {
	for name := range m {
		dst = append(dst, name)
	}
	slices.Sort(dst)
	return dst
}

// ParseOffsetMetadata reads the metadata of a committed offset. ok is false if it holds no time: it is empty, was written by
// something else, or has a version that is not known; all times are unset then, and that is no error. Where only the
// entries are broken, the partition's time counts, as in Kafka Streams.
//
// In Kafka Streams: TopicPartitionMetadata.decode.
func ParseOffsetMetadata(text string) (m OffsetMetadata, ok bool) {
	m = OffsetMetadata{PartitionTimeMs: NoTime, StreamTimeMs: NoTime}
	// Java's decoder takes a text without its padding too.
	raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil || len(raw) < 9 || raw[0] != 1 && raw[0] != 2 {
		return m, false
	}
	m.PartitionTimeMs = int64(binary.BigEndian.Uint64(raw[1:]))
	m.StreamTimeMs = m.PartitionTimeMs
	if raw[0] == 2 {
		m.parseEntries(raw[9:])
	}
	return m, true
}

// parseEntries takes all entries or, if one is broken, none.
func (m *OffsetMetadata) parseEntries(raw []byte) {
	if len(raw) < 4 {
		return
	}
	count := int32(binary.BigEndian.Uint32(raw))
	raw = raw[4:]
	streamTimeMs := m.PartitionTimeMs
	var processor, observed map[string]int64
	for range count {
		if len(raw) < 4 {
			return
		}
		size := int64(int32(binary.BigEndian.Uint32(raw)))
		raw = raw[4:]
		if size < 0 || size+8 > int64(len(raw)) {
			return
		}
		name := string(raw[:size])
		value := int64(binary.BigEndian.Uint64(raw[size:]))
		raw = raw[size+8:]
		own, isOwn := strings.CutPrefix(name, ownMetadataPrefix)
		switch {
		case !isOwn:
			processor = put(processor, name, value)
		case own == "":
			streamTimeMs = max(streamTimeMs, value)
		default:
			observed = put(observed, own, value)
		}
	}
	m.StreamTimeMs, m.Processor, m.Observed = streamTimeMs, processor, observed
}

func put(m map[string]int64, name string, value int64) map[string]int64 {
	if m == nil {
		m = make(map[string]int64)
	}
	m[name] = value
	return m
}

// Merge takes over what the metadata of another partition of the same task knows of the task: each time becomes the higher
// of the two, except PartitionTimeMs, which stays that of its own partition. It changes the maps of m.
func (m *OffsetMetadata) Merge(other OffsetMetadata) {
	m.StreamTimeMs = max(m.StreamTimeMs, other.StreamTimeMs)
	m.Processor = mergeMax(m.Processor, other.Processor)
	m.Observed = mergeMax(m.Observed, other.Observed)
}

func mergeMax(into, from map[string]int64) map[string]int64 {
	for name, value := range from {
		if have, ok := into[name]; !ok || value > have {
			into = put(into, name, value)
		}
	}
	return into
}

// ObservedAt tells how far the time of a store's step was when a task's offsets were committed, given the metadata texts of
// its inputs that have a committed offset: the highest that they tell of the step, the task's stream time where they do
// not know it, and NoTime where there are none, or one was set by hand and so has no metadata.
func ObservedAt(store string, texts []string) int64 {
	stream, step := NoTime, NoTime
	for _, text := range texts {
		m, ok := ParseOffsetMetadata(text)
		if !ok {
			return NoTime
		}
		stream = max(stream, m.StreamTimeMs)
		for name, at := range m.Observed {
			if StoreOfTime(name) == store {
				step = max(step, at)
			}
		}
	}
	if step != NoTime {
		return step
	}
	return stream
}
