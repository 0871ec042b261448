package kgoclient

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/serde"
)

type batchSpec struct {
	first      int64
	lastDelta  int32
	epoch      int32
	attributes int16
	producer   int64
	firstTs    int64
	maxTs      int64
	records    []broker.Record // Offset counts from first, TimestampMs from firstTs
}

func appendRecord(dst []byte, r broker.Record) []byte {
	var b []byte
	b = append(b, 0)
	b = kbin.AppendVarlong(b, r.TimestampMs)
	b = kbin.AppendVarint(b, int32(r.Offset))
	b = kbin.AppendVarintBytes(b, r.Key)
	b = kbin.AppendVarintBytes(b, r.Value)
	b = kbin.AppendVarint(b, int32(len(r.Headers)))
	for _, h := range r.Headers {
		b = kbin.AppendVarintString(b, h.Key)
		b = kbin.AppendVarintBytes(b, h.Value)
	}
	return append(kbin.AppendVarint(dst, int32(len(b))), b...)
}

// encodeBatch writes a record batch as a broker keeps it.
func encodeBatch(dst []byte, s batchSpec) []byte {
	var recs []byte
	for _, r := range s.records {
		recs = appendRecord(recs, r)
	}
	if codec := s.attributes & attrCompression; codec != 0 {
		c, err := kgo.DefaultCompressor(map[int16]kgo.CompressionCodec{
			1: kgo.GzipCompression(), 2: kgo.SnappyCompression(), 3: kgo.Lz4Compression(), 4: kgo.ZstdCompression(),
		}[codec])
		if err != nil {
			panic(err)
		}
		recs = appendCompressed(c, recs)
	}
	b := kmsg.RecordBatch{
		FirstOffset: s.first, PartitionLeaderEpoch: s.epoch, Magic: 2, Attributes: s.attributes, LastOffsetDelta: s.lastDelta,
		FirstTimestamp: s.firstTs, MaxTimestamp: s.maxTs, ProducerID: s.producer, ProducerEpoch: 0, FirstSequence: -1,
		NumRecords: int32(len(s.records)), Records: recs,
	}
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[batchLength:], uint32(len(raw)-batchEpoch))
	binary.BigEndian.PutUint32(raw[batchCRC:], crc32.Checksum(raw[batchAttributes:], castagnoli))
	return append(dst, raw...)
}

func appendCompressed(c kgo.Compressor, src []byte) []byte {
	var buf bytes.Buffer
	out, _ := c.Compress(&buf, src)
	return append([]byte{}, out...)
}

func control(first, producer int64, commit bool) batchSpec {
	kind := byte(0)
	if commit {
		kind = 1
	}
	return batchSpec{
		first: first, producer: producer, attributes: attrTransactional | attrControl,
		records: []broker.Record{{Key: []byte{0, 0, 0, kind}, Value: []byte{0, 0, 0, 0, 0, 0}}},
	}
}

// decodeBoth decodes with our decoder and with franz-go's.
func decodeBoth(t testing.TB, in []byte, offset int64, aborted []kmsg.FetchResponseTopicPartitionAbortedTransaction, committed bool) (d decoder, err error, oracle []broker.Record, next int64, oracleErr error) {
	rp := &kmsg.FetchResponseTopicPartition{RecordBatches: in, AbortedTransactions: aborted}
	d = decoder{decompressor: kgo.DefaultDecompressor(), topic: "t", offset: offset, lastEpoch: -1, committed: committed}
	err = d.decode(rp)
	opts := kgo.ProcessFetchPartitionOpts{Offset: offset, Topic: "t"}
	if committed {
		opts.IsolationLevel = kgo.ReadCommitted()
	}
	fp, next := kgo.ProcessFetchPartition(opts, rp, kgo.DefaultDecompressor(), nil)
	for _, r := range fp.Records {
		rec := broker.Record{Key: r.Key, Value: r.Value, TimestampMs: r.Timestamp.UnixMilli(), Offset: r.Offset, LeaderEpoch: r.LeaderEpoch}
		for _, h := range r.Headers {
			rec.Headers = append(rec.Headers, serde.Header{Key: h.Key, Value: h.Value})
		}
		oracle = append(oracle, rec)
	}
	return d, err, oracle, next, fp.Err
}

func genBytes(t *rapid.T, name string) []byte {
	switch rapid.IntRange(0, 3).Draw(t, name+" kind") {
	case 0:
		return nil
	case 1:
		return []byte{}
	}
	return rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(t, name)
}

// Any log that a broker may keep is decoded as franz-go decodes it: transactions, compaction, compression, all of it,
// from any offset and with the last batch cut off anywhere.
func TestDecode_sameAsFranzGo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var in []byte
		var aborted []kmsg.FetchResponseTopicPartitionAbortedTransaction
		open := make(map[int64]int64) // producer -> first offset
		offset := int64(rapid.IntRange(0, 100).Draw(t, "start"))
		start := offset
		for range rapid.IntRange(0, 8).Draw(t, "batches") {
			producer := int64(rapid.IntRange(1, 3).Draw(t, "producer"))
			if first, ok := open[producer]; ok && rapid.Bool().Draw(t, "end") {
				commit := rapid.Bool().Draw(t, "commit")
				if !commit {
					aborted = append(aborted, kmsg.FetchResponseTopicPartitionAbortedTransaction{ProducerID: producer, FirstOffset: first})
				}
				delete(open, producer)
				in = encodeBatch(in, control(offset, producer, commit))
				offset++
				continue
			}
			s := batchSpec{
				first: offset, epoch: int32(rapid.IntRange(0, 3).Draw(t, "epoch")), producer: producer,
				attributes: int16(rapid.IntRange(0, 4).Draw(t, "codec")), firstTs: int64(rapid.IntRange(0, 1e9).Draw(t, "ts")),
			}
			if rapid.Bool().Draw(t, "transactional") {
				s.attributes |= attrTransactional
				if _, ok := open[producer]; !ok {
					open[producer] = offset
				}
			}
			if rapid.Bool().Draw(t, "log append time") {
				s.attributes |= attrLogAppendTime
				s.maxTs = 77
			}
			n := rapid.IntRange(1, 6).Draw(t, "offsets")
			s.lastDelta = int32(n - 1)
			for i := range n {
				if rapid.IntRange(0, 3).Draw(t, "compacted") == 0 {
					continue
				}
				r := broker.Record{Offset: int64(i), TimestampMs: int64(rapid.IntRange(-50, 50).Draw(t, "delta")), Key: genBytes(t, "key"), Value: genBytes(t, "value")}
				for range rapid.IntRange(0, 2).Draw(t, "headers") {
					r.Headers = append(r.Headers, serde.Header{Key: rapid.SampledFrom([]string{"", "a", "trace"}).Draw(t, "header"), Value: genBytes(t, "header value")})
				}
				s.records = append(s.records, r)
			}
			if len(s.records) == 0 {
				s.attributes &^= attrCompression // an empty batch is kept uncompressed
			}
			in = encodeBatch(in, s)
			offset += int64(n) + int64(rapid.IntRange(0, 1).Draw(t, "gap"))
		}
		if cut := rapid.IntRange(0, 200).Draw(t, "cut off"); cut < len(in) && rapid.Bool().Draw(t, "cut") {
			in = in[:len(in)-cut]
		}
		from := start + int64(rapid.IntRange(0, 10).Draw(t, "from"))
		committed := rapid.Bool().Draw(t, "committed")
		d, err, oracle, next, oracleErr := decodeBoth(nil, in, from, aborted, committed)
		if err != nil || oracleErr != nil {
			t.Fatalf("errors %v, %v", err, oracleErr)
		}
		if diff := cmp.Diff(oracle, d.records, cmp.Transformer("none", func(r []broker.Record) []broker.Record {
			if len(r) == 0 {
				return nil
			}
			return r
		})); diff != "" {
			t.Fatalf("records (-franz-go +ours):\n%s", diff)
		}
		if d.offset != next {
			t.Fatalf("next offset %d, franz-go says %d", d.offset, next)
		}
	})
}

func TestDecode_emptyBatchAtTheEndMovesThePosition(t *testing.T) {
	in := encodeBatch(nil, batchSpec{first: 3, lastDelta: 0, records: []broker.Record{{Value: []byte("v")}}})
	in = encodeBatch(in, batchSpec{first: 4, lastDelta: 5, epoch: 2}) // compaction left nothing but the offsets
	d, err, _, _, _ := decodeBoth(t, in, 3, nil, true)
	if err != nil || len(d.records) != 1 || d.offset != 10 || d.lastEpoch != 2 {
		t.Errorf("%d records, next %d, epoch %d, %v; want 1, 10, 2", len(d.records), d.offset, d.lastEpoch, err)
	}
}

func TestDecode_timestampsBeyondTheYear2262(t *testing.T) {
	for _, ts := range []int64{0, -1, math.MaxInt64, 1_700_000_000_000_000 /* microseconds by mistake */} {
		in := encodeBatch(nil, batchSpec{firstTs: ts, records: []broker.Record{{Value: []byte("v")}}})
		d, err, _, _, _ := decodeBoth(t, in, 0, nil, true)
		if err != nil || d.records[0].TimestampMs != ts {
			t.Errorf("timestamp %d came back as %+v, %v", ts, d.records, err)
		}
	}
}

func TestDecode_corruptBatchIsAnErrorAfterWhatIsGood(t *testing.T) {
	good := encodeBatch(nil, batchSpec{first: 0, records: []broker.Record{{Value: []byte("v")}}})
	bad := encodeBatch(nil, batchSpec{first: 1, records: []broker.Record{{Value: []byte("w")}}})
	bad[len(bad)-2] ^= 1
	d, err, _, _, _ := decodeBoth(t, append(good, bad...), 0, nil, true)
	if err != nil || len(d.records) != 1 || d.offset != 1 {
		t.Fatalf("good then bad: %d records, next %d, %v", len(d.records), d.offset, err)
	}
	if _, err, _, _, _ = decodeBoth(t, bad, 1, nil, true); err == nil {
		t.Fatal("no error for a wrong checksum")
	}
	for name, lie := range map[string]func([]byte){
		"more records than bytes": func(b []byte) { binary.BigEndian.PutUint32(b[batchCount:], 1<<30) },
		"negative count":          func(b []byte) { binary.BigEndian.PutUint32(b[batchCount:], 1<<31) },
		"one record too many":     func(b []byte) { binary.BigEndian.PutUint32(b[batchCount:], 2) },
		"long record":             func(b []byte) { b[batchHead] = 0x7e },
	} {
		b := encodeBatch(nil, batchSpec{first: 1, records: []broker.Record{{Value: []byte("a value of some length")}}})
		lie(b)
		binary.BigEndian.PutUint32(b[batchCRC:], crc32.Checksum(b[batchAttributes:], castagnoli))
		if d, err, _, _, _ := decodeBoth(t, b, 0, nil, true); err == nil {
			t.Errorf("%s: no error, %d records", name, len(d.records))
		}
	}
}

func TestDecode_oldMessageSets(t *testing.T) {
	m := kmsg.MessageV1{Offset: 5, Magic: 1, Timestamp: 99, Key: []byte("k"), Value: []byte("v")}
	raw := m.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[12:], crc32.ChecksumIEEE(raw[16:]))
	d, err, _, _, _ := decodeBoth(t, raw, 0, nil, true)
	want := []broker.Record{{Key: []byte("k"), Value: []byte("v"), TimestampMs: 99, Offset: 5, LeaderEpoch: -1}}
	if diff := cmp.Diff(want, d.records); diff != "" || err != nil || d.offset != 6 {
		t.Errorf("next %d, %v (-want +got):\n%s", d.offset, err, diff)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(encodeBatch(nil, batchSpec{records: []broker.Record{{Key: []byte("k"), Headers: serde.Headers{{Key: "h"}}}}}), int64(0))
	f.Add(encodeBatch(nil, control(4, 7, false)), int64(2))
	f.Add(encodeBatch(nil, batchSpec{attributes: 2, records: []broker.Record{{Value: []byte("v")}}}), int64(0))
	f.Fuzz(func(t *testing.T, in []byte, offset int64) {
		if len(in) >= batchHead {
			// Let it past the checksum.
			binary.BigEndian.PutUint32(in[batchCRC:], crc32.Checksum(in[batchAttributes:], castagnoli))
		}
		d := decoder{decompressor: kgo.DefaultDecompressor(), topic: "t", offset: offset, committed: true}
		if err := d.decode(&kmsg.FetchResponseTopicPartition{RecordBatches: in}); err == nil && d.offset < offset {
			t.Errorf("position went back from %d to %d", offset, d.offset)
		}
	})
}

func TestDecode_allocations(t *testing.T) {
	var recs []broker.Record
	for i := range 500 {
		recs = append(recs, broker.Record{
			Offset: int64(i), Key: fmt.Appendf(nil, "%d", i), Value: []byte("value"),
			Headers: serde.Headers{{Key: "trace", Value: []byte("1")}, {Key: "tenant", Value: []byte("2")}},
		})
	}
	in := encodeBatch(nil, batchSpec{lastDelta: 499, records: recs, firstTs: time.Now().UnixMilli()})
	rp := &kmsg.FetchResponseTopicPartition{RecordBatches: in}
	dec := kgo.DefaultDecompressor()
	n := testing.AllocsPerRun(20, func() {
		d := decoder{decompressor: dec, topic: "t", committed: true}
		if err := d.decode(rp); err != nil || len(d.records) != 500 {
			t.Fatal(err, len(d.records))
		}
	})
	if n > 15 { // the slabs of records and of headers, two header keys; a few more under the race detector
		t.Errorf("%v allocations for 500 records with headers", n)
	}
}

func BenchmarkDecode(b *testing.B) {
	var recs []broker.Record
	for i := range 1000 {
		recs = append(recs, broker.Record{Offset: int64(i), Key: fmt.Appendf(nil, "key-%06d", i), Value: make([]byte, 100)})
	}
	in := encodeBatch(nil, batchSpec{lastDelta: 999, records: recs})
	rp := &kmsg.FetchResponseTopicPartition{RecordBatches: in}
	dec := kgo.DefaultDecompressor()
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			d := decoder{decompressor: dec, topic: "t", committed: true}
			_ = d.decode(rp)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/record")
	})
	b.Run("franz-go", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Topic: "t"}, rp, dec, nil)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/record")
	})
}
