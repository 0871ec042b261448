package kgoclient

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/serde"
)

// Record batches (magic 2) are decoded straight into broker.Record: one slab for the records of a partition and one for
// their headers, where kgo.ProcessFetchPartition makes a larger record, a pointer to it and a slice of headers each. The
// rules are the same (a test compares the two), except that timestamps are not bent through time.Time, which cannot hold
// all of them, and that aborted data is not even decompressed. Message sets of old segments (magic 0 and 1) go through
// kgo.ProcessFetchPartition.

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// The layout of a record batch's head.
const (
	batchLength     = 8  // int32, counted from after itself
	batchEpoch      = 12 // int32
	batchMagic      = 16 // int8
	batchCRC        = 17 // uint32, over what follows
	batchAttributes = 21 // int16
	batchLastDelta  = 23 // int32
	batchFirstTs    = 27 // int64
	batchMaxTs      = 35 // int64
	batchProducer   = 43 // int64
	batchCount      = 57 // int32
	batchHead       = 61

	attrCompression   = 0x07
	attrLogAppendTime = 0x08
	attrTransactional = 0x10
	attrControl       = 0x20

	minRecordBytes = 7
)

// decoder turns the bytes of one fetched partition into records.
type decoder struct {
	decompressor kgo.Decompressor
	topic        string
	partition    int32
	offset       int64 // what is before it is left out; moves to the next offset to read
	lastEpoch    int32 // leader epoch of the last batch that moved offset
	aborted      map[int64][]int64
	committed    bool

	records  []broker.Record
	headers  []serde.Header
	prevKeys []string // header keys of the record before, which are most often those of the next one too
}

// decode reads all whole batches. An error is given only if nothing could be read before it.
func (d *decoder) decode(rp *kmsg.FetchResponseTopicPartition) error {
	if d.committed {
		d.aborted = abortedTransactions(rp)
	}
	in := rp.RecordBatches
	d.records = make([]broker.Record, 0, countRecords(in, d.offset))
	start := d.offset
	for len(in) > batchMagic {
		length := int(int32(binary.BigEndian.Uint32(in[batchLength:]))) + batchEpoch
		if length < batchEpoch || length > len(in) {
			break // a batch cut off by the byte limit: it comes with the next fetch
		}
		if in[batchMagic] != 2 {
			return d.old(rp, in)
		}
		if err := d.batch(in[:length]); err != nil {
			if d.offset > start {
				break // shown again, first, by the next fetch
			}
			return err
		}
		in = in[length:]
	}
	return nil
}

// countRecords adds up the counts in the heads of all whole batches, so that one slab fits. They are not trusted beyond
// what the bytes could hold.
func countRecords(in []byte, offset int64) int {
	n, limit := 0, len(in)
	for len(in) >= batchHead {
		length := int(int32(binary.BigEndian.Uint32(in[batchLength:]))) + batchEpoch
		if length < batchHead || length > len(in) || in[batchMagic] != 2 {
			break
		}
		last := int64(binary.BigEndian.Uint64(in)) + int64(int32(binary.BigEndian.Uint32(in[batchLastDelta:])))
		if count := int(int32(binary.BigEndian.Uint32(in[batchCount:]))); count > 0 && last >= offset {
			n += count
		}
		in = in[length:]
	}
	return min(n, limit)
}

// errCorrupt is data that cannot be read, now or later.
var errCorrupt = errors.New("corrupt record batch")

func (d *decoder) corrupt(first int64, format string, args ...any) error {
	return fmt.Errorf("millrace: %s-%d@%d: %w: %s", d.topic, d.partition, first, errCorrupt, fmt.Sprintf(format, args...))
}

func (d *decoder) batch(b []byte) error {
	first := int64(binary.BigEndian.Uint64(b))
	if len(b) < batchHead {
		return d.corrupt(first, "%d bytes are less than its head", len(b))
	}
	last := first + int64(int32(binary.BigEndian.Uint32(b[batchLastDelta:])))
	if last < d.offset {
		return nil // wholly before what was asked for
	}
	if sum := crc32.Checksum(b[batchAttributes:], castagnoli); sum != binary.BigEndian.Uint32(b[batchCRC:]) {
		return d.corrupt(first, "checksum does not match; if it stays so, the log segment on the broker is damaged")
	}
	attributes := binary.BigEndian.Uint16(b[batchAttributes:])
	producer := int64(binary.BigEndian.Uint64(b[batchProducer:]))
	count := int(int32(binary.BigEndian.Uint32(b[batchCount:])))
	epoch := int32(binary.BigEndian.Uint32(b[batchEpoch:]))

	aborted := d.isAborted(attributes, producer, first)
	switch {
	case attributes&attrControl != 0:
		if aborted && isAbortMarker(b[batchHead:]) {
			d.transactionEnded(producer)
		}
	case aborted:
	default:
		raw := b[batchHead:]
		if codec := attributes & attrCompression; codec != 0 {
			var err error
			if raw, err = d.decompressor.Decompress(raw, kgo.CompressionCodecType(codec)); err != nil {
				return d.corrupt(first, "decompress: %v", err)
			}
		}
		if err := d.recordsOf(raw, b, attributes, first, epoch, count); err != nil {
			return err
		}
	}
	// A compacted batch keeps its last offset, whatever is left in it.
	d.offset, d.lastEpoch = last+1, epoch
	return nil
}

// recordsOf appends the records of a batch from d.offset on.
func (d *decoder) recordsOf(raw, head []byte, attributes uint16, first int64, epoch int32, count int) error {
	if count < 0 || count > len(raw)/minRecordBytes {
		return d.corrupt(first, "%d bytes cannot hold %d records", len(raw), count)
	}
	firstTs := int64(binary.BigEndian.Uint64(head[batchFirstTs:]))
	appendTs, logAppend := int64(binary.BigEndian.Uint64(head[batchMaxTs:])), attributes&attrLogAppendTime != 0
	records := slices.Grow(d.records, count)
	for i := range count {
		length, n := kbin.Varint(raw)
		if n <= 0 || length < 0 || int(length) > len(raw)-n {
			return d.corrupt(first, "a record is longer than the batch")
		}
		r := recordReader{in: raw[n : n+int(length)]}
		raw = raw[n+int(length):]
		r.skip(1) // attributes, unused
		ts := firstTs + r.varlong()
		offset := first + int64(r.varint())
		if offset < d.offset && !r.bad {
			continue
		}
		if logAppend {
			ts = appendTs
		}
		rec := broker.Record{Key: r.bytes(), Value: r.bytes(), TimestampMs: ts, Offset: offset, LeaderEpoch: epoch}
		if headers := int(r.varint()); headers != 0 {
			rec.Headers = d.headersOf(&r, headers, count-i, len(raw))
		}
		if r.bad {
			return d.corrupt(first, "a record does not end where it should")
		}
		records = append(records, rec)
	}
	d.records = records
	return nil
}

// headersOf reads n headers into the slab, which grows to what the records left, this one included, need if they have as
// many, or to what their bytes can hold.
func (d *decoder) headersOf(r *recordReader, n, records, bytesAfter int) serde.Headers {
	const least = 2 // two lengths
	if n < 0 || n > len(r.in)/least {
		r.bad = true
		return nil
	}
	if cap(d.headers)-len(d.headers) < n { // the full slab stays with the records before
		d.headers = make([]serde.Header, 0, min(n*records, (len(r.in)+bytesAfter)/least))
	}
	at := len(d.headers)
	for i := range n {
		key := r.bytes()
		var k string
		if i < len(d.prevKeys) && d.prevKeys[i] == string(key) {
			k = d.prevKeys[i]
		} else {
			k = string(key)
			d.prevKeys = append(d.prevKeys[:i], k)
		}
		d.headers = append(d.headers, serde.Header{Key: k, Value: r.bytes()})
	}
	return d.headers[at:len(d.headers):len(d.headers)]
}

// recordReader reads one record's fields; once bad, it gives zeros.
type recordReader struct {
	in  []byte
	bad bool
}

func (r *recordReader) skip(n int) {
	if n > len(r.in) {
		r.bad, n = true, len(r.in)
	}
	r.in = r.in[n:]
}

func (r *recordReader) varint() int32 {
	v, n := kbin.Varint(r.in)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.in = r.in[n:]
	return v
}

func (r *recordReader) varlong() int64 {
	v, n := kbin.Varlong(r.in)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.in = r.in[n:]
	return v
}

// bytes reads a length and so many bytes; below 0 is null.
func (r *recordReader) bytes() []byte {
	n := int(r.varint())
	if n < 0 || r.bad {
		return nil
	}
	if n > len(r.in) {
		r.bad = true
		return nil
	}
	b := r.in[:n:n]
	r.in = r.in[n:]
	return b
}

// abortedTransactions lists the first offsets of each producer's aborted transactions, in order.
func abortedTransactions(rp *kmsg.FetchResponseTopicPartition) map[int64][]int64 {
	if len(rp.AbortedTransactions) == 0 {
		return nil
	}
	m := make(map[int64][]int64)
	for _, t := range rp.AbortedTransactions {
		m[t.ProducerID] = append(m[t.ProducerID], t.FirstOffset)
	}
	for _, firsts := range m {
		slices.Sort(firsts)
	}
	return m
}

// isAborted reports whether a batch belongs to an aborted transaction, its marker included.
func (d *decoder) isAborted(attributes uint16, producer, first int64) bool {
	firsts := d.aborted[producer]
	return attributes&attrTransactional != 0 && len(firsts) > 0 && first >= firsts[0]
}

func (d *decoder) transactionEnded(producer int64) {
	if rest := d.aborted[producer][1:]; len(rest) > 0 {
		d.aborted[producer] = rest
	} else {
		delete(d.aborted, producer)
	}
}

// isAbortMarker looks at the first record of a control batch: its key is a version and a type, 0 for abort.
func isAbortMarker(raw []byte) bool {
	_, n := kbin.Varint(raw)
	if n <= 0 {
		return false
	}
	r := recordReader{in: raw[n:]}
	r.skip(1)
	r.varlong()
	r.varint()
	key := r.bytes()
	return len(key) >= 4 && key[2] == 0 && key[3] == 0
}

// old decodes message sets, and whatever follows them.
func (d *decoder) old(rp *kmsg.FetchResponseTopicPartition, in []byte) error {
	rest := *rp
	rest.RecordBatches, rest.ErrorCode = in, 0
	opts := kgo.ProcessFetchPartitionOpts{Offset: d.offset, Topic: d.topic, Partition: d.partition}
	if d.committed {
		opts.IsolationLevel = kgo.ReadCommitted()
	}
	fp, next := kgo.ProcessFetchPartition(opts, &rest, d.decompressor, nil)
	if fp.Err != nil && next == d.offset && len(d.records) == 0 {
		return d.corrupt(d.offset, "%v", fp.Err)
	}
	for _, r := range fp.Records {
		rec := broker.Record{Key: r.Key, Value: r.Value, TimestampMs: r.Timestamp.UnixMilli(), Offset: r.Offset, LeaderEpoch: r.LeaderEpoch}
		for _, h := range r.Headers {
			rec.Headers = append(rec.Headers, serde.Header{Key: h.Key, Value: h.Value})
		}
		d.records = append(d.records, rec)
		d.lastEpoch = r.LeaderEpoch
	}
	d.offset = next
	return nil
}
