package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/colblk"
)

// Keys in Pebble are
//
//	incarnation (8) | table (1) | ...
//
// with one of these tables behind each incarnation. docs/format/state-directory.md describes them for readers; the byte
// layouts and the comparer's name and Split must never change under a format number.
const (
	// tableHeader holds the header under the empty key. It sorts before everything else of a store, and every batch and
	// every ingested table of a store writes it: so what is ingested always overlaps what is in memory of the same store,
	// and Pebble keeps their order.
	tableHeader = 0x00
	// tableMeta holds the numbers of SetMeta: name -> int64.
	tableMeta = 0x01
	// tablePoint holds key-value rows: key -> value.
	tablePoint = 0x10
	// tableWindow holds window rows: segment (8) | key, escaped | start (8) | sequence (4) -> value. In a versioned store it
	// holds versions that are not the latest value: segment (8) | key, escaped | time (8) | kind (4) -> version.
	tableWindow = 0x20
	// tableSession holds session rows: segment (8) | key, escaped | end (8) | start (8) -> value.
	tableSession = 0x30
)

const (
	incarnationLen   = 8
	tableAt          = incarnationLen
	rowKeyAt         = incarnationLen + 1 + 8 // behind the segment
	windowSuffixLen  = 12
	sessionSuffixLen = 16
)

// Keys inside window and session rows are escaped so that no key is a prefix of another one: rows of keys of different
// length never mix, and rows of one key lie together. A zero byte becomes 00 FF, and the key ends with 00 01. The order
// of keys stays.
const (
	escape     = 0x00
	escapedNul = 0xFF
	terminator = 0x01
)

func appendEscaped(dst, key []byte) []byte {
	for {
		i := bytes.IndexByte(key, escape)
		if i < 0 {
			dst = append(dst, key...)
			return append(dst, escape, terminator)
		}
		dst = append(dst, key[:i]...)
		dst = append(dst, escape, escapedNul)
		key = key[i+1:]
	}
}

// appendUnescaped appends the key whose escaped form, terminator included, src is.
func appendUnescaped(dst, src []byte) ([]byte, error) {
	for {
		i := bytes.IndexByte(src, escape)
		if i < 0 || i+1 == len(src) {
			return dst, fmt.Errorf("%w: a row's key does not end", ErrCorrupt)
		}
		dst = append(dst, src[:i]...)
		switch src[i+1] {
		case escapedNul:
			dst = append(dst, 0)
			src = src[i+2:]
		case terminator:
			if i+2 != len(src) {
				return dst, fmt.Errorf("%w: a row's key ends early", ErrCorrupt)
			}
			return dst, nil
		default:
			return dst, fmt.Errorf("%w: a row's key holds the unknown escape %02x", ErrCorrupt, src[i+1])
		}
	}
}

// comparer orders keys by their bytes. Its Split leaves start and sequence of a window row, and end and start of a
// session row, to the suffix, so that the Bloom filters of tables answer for all rows of a key in a segment; every other
// key, and every bound of a range deletion, is all prefix. The name is written into the database: another order or split
// needs another name.
var comparer = func() *pebble.Comparer {
	c := *pebble.DefaultComparer
	c.Name = "millrace.state.v1"
	c.Split = splitKey
	c.Separator, c.ImmediateSuccessor = separator, successorOfPrefix
	return &c
}()

// separator is a short key from a up to b for the index of a table. It is shortened within a's prefix or not at all: a row's
// key that ends amid its suffix would be a prefix by itself to splitKey, sort behind all rows of the key by it, and amid
// them by its bytes.
func separator(dst, a, b []byte) []byte {
	n, prefix := len(dst), a[:splitKey(a)]
	if len(prefix) > 0 {
		dst = pebble.DefaultComparer.Separator(dst, prefix, b[:splitKey(b)])
	}
	if bytes.Equal(dst[n:], prefix) {
		return append(dst[:n], a...)
	}
	return dst
}

// successorOfPrefix is the least prefix behind a prefix. Behind the prefix of rows that is not the prefix with a zero, which
// sorts before the rows by its bytes.
func successorOfPrefix(dst, prefix []byte) []byte {
	if isRowPrefix(prefix) {
		dst = append(dst, prefix...)
		dst[len(dst)-1] = terminator + 1
		return dst
	}
	return pebble.DefaultComparer.ImmediateSuccessor(dst, prefix)
}

// keySchema is how tables lay out keys in columns. It is given here lest it follow a default of the library.
var keySchema = colblk.DefaultKeySchema(comparer, 16)

func splitKey(k []byte) int {
	if len(k) <= rowKeyAt {
		return len(k)
	}
	n := len(k)
	switch k[tableAt] {
	case tableWindow:
		n -= windowSuffixLen
	case tableSession:
		n -= sessionSuffixLen
	default:
		return n
	}
	if n < 0 || !isRowPrefix(k[:n]) {
		return len(k)
	}
	return n
}

// isRowPrefix says whether a key is the whole prefix of rows of a window or session store. Behind the segment the two bytes
// 00 01 stand at the end of the key alone.
func isRowPrefix(k []byte) bool {
	n := len(k)
	return n-2 >= rowKeyAt && (k[tableAt] == tableWindow || k[tableAt] == tableSession) && k[n-2] == escape && k[n-1] == terminator
}

// incarnation is the prefix of all that one life of a store has in Pebble.
type incarnation uint64

func (i incarnation) appendTable(dst []byte, table byte) []byte {
	return append(binary.BigEndian.AppendUint64(dst, uint64(i)), table)
}

// span returns the bounds of everything of an incarnation.
func (i incarnation) span() (start, end []byte) {
	return binary.BigEndian.AppendUint64(nil, uint64(i)), binary.BigEndian.AppendUint64(nil, uint64(i)+1)
}

func (i incarnation) headerKey() []byte { return i.appendTable(nil, tableHeader) }

func (i incarnation) appendMetaKey(dst []byte, name string) []byte {
	return append(i.appendTable(dst, tableMeta), name...)
}

// tableOf is the table of a store's rows. The latest values of a versioned store lie in tablePoint beside it.
func tableOf(k Kind) byte {
	switch k {
	case Window, Versioned:
		return tableWindow
	case Session:
		return tableSession
	}
	return tablePoint
}

// tablesOf are the bounds of a store's tables of entries.
func tablesOf(k Kind) (from, to byte) {
	if k == Versioned {
		return tablePoint, tableWindow + 1
	}
	return tableOf(k), tableOf(k) + 1
}

// appendSegment appends a segment number, or any signed number, in an order-keeping form.
func appendSegment(dst []byte, seg int64) []byte {
	return binary.BigEndian.AppendUint64(dst, sortable(seg))
}

// appendLocalRow appends a row's key as it stands behind incarnation and table.
func appendLocalRow(dst []byte, kind Kind, seg int64, key []byte, time int64, extra uint64) []byte {
	dst = appendSegment(dst, seg)
	dst = appendEscaped(dst, key)
	return appendSuffix(dst, kind, time, extra)
}

// appendRowsEnd makes of a row's prefix the least key behind all its rows up to a time, that included. It is the key of a
// row, or a prefix, but never a row's key with something behind it: that would be a prefix by itself to splitKey, sort behind
// all rows of the key by it, and amid them by its bytes.
func appendRowsEnd(prefix []byte, kind Kind, time int64) []byte {
	if time < math.MaxInt64 {
		return appendSuffix(prefix, kind, time+1, 0)
	}
	prefix[len(prefix)-1] = terminator + 1
	return prefix
}

func appendSuffix(dst []byte, kind Kind, time int64, extra uint64) []byte {
	dst = binary.BigEndian.AppendUint64(dst, sortable(time))
	if kind == Session {
		return binary.BigEndian.AppendUint64(dst, extra)
	}
	return binary.BigEndian.AppendUint32(dst, uint32(extra))
}

func suffixLen(kind Kind) int {
	if kind == Session {
		return sessionSuffixLen
	}
	return windowSuffixLen
}

// parseRowKey takes a row's Pebble key apart. The user's key is appended to dst.
func parseRowKey(dst, k []byte, kind Kind) (key []byte, seg, time int64, extra uint64, err error) {
	n := len(k) - suffixLen(kind)
	if n < rowKeyAt+2 {
		return dst, 0, 0, 0, fmt.Errorf("%w: a %s row has a key of %d bytes only", ErrCorrupt, kind, len(k))
	}
	seg = unsortable(binary.BigEndian.Uint64(k[tableAt+1:]))
	key, err = appendUnescaped(dst, k[rowKeyAt:n])
	time, extra = parseSuffix(k[n:], kind)
	return key, seg, time, extra, err
}

func parseSuffix(b []byte, kind Kind) (time int64, extra uint64) {
	time = unsortable(binary.BigEndian.Uint64(b))
	if kind == Session {
		return time, binary.BigEndian.Uint64(b[8:])
	}
	return time, uint64(binary.BigEndian.Uint32(b[8:]))
}

// Header is what stands with each store on disk. It is written in the same batch as the entries that it describes.
type Header struct {
	// TopicID is the changelog's topic id, zero if there is none or it is not known.
	TopicID [16]byte
	// Position is the changelog position that the entries stand for. HasPosition is false for a store that never had one.
	Position    Position
	HasPosition bool
	// LevelMs is the wall time at which the store was last level with its changelog; while it is restored for the first
	// time, the time at which that began. NoTime if neither was. In milliseconds since the Unix epoch.
	LevelMs int64
	// ObservedMs is the highest window start (or session end) that the store has seen, NoTime if none.
	ObservedMs int64
	// SegmentMs is the length of the segments in which window and session rows lie; 0 in a key-value store.
	SegmentMs int64

	observed int64 // ObservedMs as layers hold it
}

const (
	headerVersion = 1
	headerLen     = 1 + 1 + 16 + 8 + 4 + 8 + 8 + 8

	headerHasPosition = 1 << 0
	headerHasObserved = 1 << 1
)

func (h *Header) append(dst []byte) []byte {
	var flags byte
	if h.HasPosition {
		flags |= headerHasPosition
	}
	if h.observed != noObserved {
		flags |= headerHasObserved
	}
	dst = append(dst, headerVersion, flags)
	dst = append(dst, h.TopicID[:]...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.Position.Offset))
	dst = binary.BigEndian.AppendUint32(dst, uint32(h.Position.Epoch))
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.LevelMs))
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.observed))
	return binary.BigEndian.AppendUint64(dst, uint64(h.SegmentMs))
}

// errHeader marks the error of a header that this version cannot read.
var errHeader = errors.New("the header is not readable")

// noHeader is the header of a store that was never written.
func noHeader() Header { return Header{LevelMs: NoTime, ObservedMs: NoTime, observed: noObserved} }

func parseHeader(b []byte) (Header, error) {
	h := noHeader()
	if len(b) == 0 || b[0] != headerVersion {
		return h, fmt.Errorf("%w: it has the unknown format %d", errHeader, b[:min(len(b), 1)])
	}
	if len(b) != headerLen {
		return h, fmt.Errorf("%w: it has %d bytes instead of %d", errHeader, len(b), headerLen)
	}
	flags := b[1]
	copy(h.TopicID[:], b[2:18])
	h.Position.Offset = int64(binary.BigEndian.Uint64(b[18:]))
	h.Position.Epoch = int32(binary.BigEndian.Uint32(b[26:]))
	h.HasPosition = flags&headerHasPosition != 0
	h.LevelMs = int64(binary.BigEndian.Uint64(b[30:]))
	h.observed = int64(binary.BigEndian.Uint64(b[38:]))
	h.SegmentMs = int64(binary.BigEndian.Uint64(b[46:]))
	h.ObservedMs = h.observed
	if flags&headerHasObserved == 0 {
		h.observed, h.ObservedMs = noObserved, NoTime
	}
	return h, nil
}

func schemas() sstable.KeySchemas { return sstable.MakeKeySchemas(&keySchema) }
