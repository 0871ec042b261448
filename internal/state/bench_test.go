package state

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
)

// Keys and values of the benchmarks: 20 bytes and 16 bytes, keys drawn uniformly.
const benchKeys = 100_000

func benchKey(dst []byte, i int) []byte {
	dst = append(dst[:0], "key-00000000"...)
	return binary.BigEndian.AppendUint64(dst, uint64(i)*0x9e3779b97f4a7c15)
}

func benchDB(b *testing.B) *DB {
	b.Helper()
	db, err := OpenDB(Options{Dir: filepath.Join(b.TempDir(), "state"), ClusterID: "c", ApplicationID: "a", MinFreeBytes: 1})
	must(b, err)
	b.Cleanup(func() { _ = db.Close() })
	return db
}

func benchSets(b *testing.B, kind Kind, run func(b *testing.B, set *Set)) {
	for _, persistent := range []bool{false, true} {
		for _, ordered := range []bool{false, true} {
			if kind != KeyValue && ordered {
				continue
			}
			b.Run(fmt.Sprintf("disk=%v/ordered=%v", persistent, ordered), func(b *testing.B) {
				spec := Spec{Name: "s", Kind: kind, Persistent: persistent, Ordered: ordered, Logged: true}
				if kind != KeyValue {
					spec.RetentionMs = 3_600_000
				}
				var set *Set
				var err error
				if persistent {
					set, err = benchDB(b).OpenSet("0_0", []Spec{spec}, nil)
				} else {
					set, err = NewMemorySet([]Spec{spec})
				}
				must(b, err)
				b.ReportAllocs()
				run(b, set)
			})
		}
	}
}

// fill puts all keys into the base.
func fill(b *testing.B, set *Set) {
	b.Helper()
	r, err := set.BeginRestore("s")
	must(b, err)
	var k []byte
	for i := range benchKeys {
		k = benchKey(k, i)
		must(b, r.Apply([]RestoreRecord{{Key: k, Value: []byte("12345678"), TimestampMs: int64(i)}}, Position{Offset: int64(i)}))
	}
	_, err = r.Finish(Position{Offset: benchKeys})
	must(b, err)
}

// BenchmarkGetBase reads keys that lie in no layer above the base.
func BenchmarkGetBase(b *testing.B) {
	benchSets(b, KeyValue, func(b *testing.B, set *Set) {
		fill(b, set)
		kv := kvOf(b, set, "s")
		rng := rand.New(rand.NewPCG(1, 1))
		var k []byte
		for b.Loop() {
			k = benchKey(k, rng.IntN(benchKeys))
			if _, ok, err := kv.Get(k); err != nil || !ok {
				b.Fatal(ok, err)
			}
		}
	})
}

// BenchmarkGetAbsent reads keys that are nowhere.
func BenchmarkGetAbsent(b *testing.B) {
	benchSets(b, KeyValue, func(b *testing.B, set *Set) {
		fill(b, set)
		kv := kvOf(b, set, "s")
		rng := rand.New(rand.NewPCG(1, 1))
		var k []byte
		for b.Loop() {
			k = benchKey(k, benchKeys+rng.IntN(benchKeys))
			if _, ok, err := kv.Get(k); err != nil || ok {
				b.Fatal(ok, err)
			}
		}
	})
}

// BenchmarkReadModifyWrite is the life of an aggregate: get, put, a unit each 1,000 records, a flush each 30 units.
func BenchmarkReadModifyWrite(b *testing.B) {
	for _, keys := range []int{1_000, benchKeys} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			benchSets(b, KeyValue, func(b *testing.B, set *Set) {
				kv := kvOf(b, set, "s")
				rng := rand.New(rand.NewPCG(1, 1))
				var k []byte
				value := make([]byte, 16)
				for n := 0; b.Loop(); n++ {
					k = benchKey(k, rng.IntN(keys))
					v, _, err := kv.Get(k)
					if err != nil {
						b.Fatal(err)
					}
					copy(value, v)
					value[0]++
					if err := kv.Put(k, value); err != nil {
						b.Fatal(err)
					}
					benchUnit(b, set, n)
				}
			})
		})
	}
}

func benchUnit(b *testing.B, set *Set, n int) {
	if n%1_000 != 999 {
		return
	}
	if err := set.Seal(set.HandOver(), map[string]Position{"s": {Offset: int64(n)}}); err != nil {
		b.Fatal(err)
	}
	if n%30_000 == 29_999 {
		if err := set.Flush(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWindowReadModifyWrite is the life of a windowed aggregate: 1,000 keys, time moves by a millisecond a record.
func BenchmarkWindowReadModifyWrite(b *testing.B) {
	benchSets(b, Window, func(b *testing.B, set *Set) {
		w := windowOf(b, set, "s")
		rng := rand.New(rand.NewPCG(1, 1))
		var k []byte
		value := make([]byte, 16)
		for n := 0; b.Loop(); n++ {
			k = benchKey(k, rng.IntN(1000))
			start := int64(n) / 60_000 * 60_000
			v, _, err := w.Get(k, start, 0)
			if err != nil {
				b.Fatal(err)
			}
			copy(value, v)
			value[0]++
			if _, err := w.Put(k, start, 0, value); err != nil {
				b.Fatal(err)
			}
			benchUnit(b, set, n)
		}
	})
}

// BenchmarkJoinFetch puts a row and fetches those of the last ten seconds of another key: a stream-stream join.
func BenchmarkJoinFetch(b *testing.B) {
	benchSets(b, Window, func(b *testing.B, set *Set) {
		w := windowOf(b, set, "s")
		rng := rand.New(rand.NewPCG(1, 1))
		var k []byte
		value := make([]byte, 16)
		rows := 0
		for n := 0; b.Loop(); n++ {
			now := int64(n)
			k = benchKey(k, rng.IntN(1000))
			if _, err := w.Put(k, now, uint32(n), value); err != nil {
				b.Fatal(err)
			}
			k = benchKey(k, rng.IntN(1000))
			it, err := w.Fetch(k, now-10_000, now+10_000, false)
			if err != nil {
				b.Fatal(err)
			}
			for it.Next() {
				rows++
			}
			if err := it.Close(); err != nil {
				b.Fatal(err)
			}
			benchUnit(b, set, n)
		}
		b.ReportMetric(float64(rows)/float64(b.N), "rows/op")
	})
}

// BenchmarkUnit writes 1,000 keys, hands them over and seals them: one operation is one such unit.
func BenchmarkUnit(b *testing.B) {
	benchSets(b, KeyValue, func(b *testing.B, set *Set) {
		kv := kvOf(b, set, "s")
		var k []byte
		value := make([]byte, 16)
		for n := 0; b.Loop(); n++ {
			for i := range 1000 {
				k = benchKey(k, i)
				if err := kv.Put(k, value); err != nil {
					b.Fatal(err)
				}
			}
			if err := set.Seal(set.HandOver(), map[string]Position{"s": {Offset: int64(n)}}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkFlush seals 30,000 random keys and writes them to Pebble: one operation is one such flush.
func BenchmarkFlush(b *testing.B) {
	set, err := benchDB(b).OpenSet("0_0", []Spec{kvSpec("s")}, nil)
	must(b, err)
	kv := kvOf(b, set, "s")
	rng := rand.New(rand.NewPCG(1, 1))
	var k []byte
	value := make([]byte, 16)
	for n := 0; b.Loop(); n++ {
		b.StopTimer()
		for range 30_000 {
			k = benchKey(k, rng.IntN(1_000_000))
			must(b, kv.Put(k, value))
		}
		must(b, set.Seal(set.HandOver(), map[string]Position{"s": {Offset: int64(n)}}))
		b.StartTimer()
		must(b, set.Flush())
	}
}

// BenchmarkRestore replays a changelog of random keys, in batches of 1,000 records: one operation is one record.
func BenchmarkRestore(b *testing.B) {
	for _, keys := range []int{benchKeys, 1_000_000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			benchSets(b, KeyValue, func(b *testing.B, set *Set) {
				r, err := set.BeginRestore("s")
				must(b, err)
				rng := rand.New(rand.NewPCG(1, 1))
				batch := make([]RestoreRecord, 0, 1000)
				store := make([][]byte, 1000)
				n := int64(0)
				for b.Loop() {
					i := len(batch)
					store[i] = benchKey(store[i], rng.IntN(keys))
					batch = append(batch, RestoreRecord{Key: store[i], Value: []byte("1234567812345678"), TimestampMs: n})
					if n++; len(batch) == cap(batch) {
						must(b, r.Apply(batch, Position{Offset: n}))
						batch = batch[:0]
					}
				}
				_, err = r.Finish(Position{Offset: n})
				must(b, err)
			})
		})
	}
}

// BenchmarkRange walks 100,000 rows: one operation is one row.
func BenchmarkRange(b *testing.B) {
	benchSets(b, KeyValue, func(b *testing.B, set *Set) {
		fill(b, set)
		kv := kvOf(b, set, "s")
		var it *Iterator
		for b.Loop() {
			if it == nil || !it.Next() {
				if it != nil {
					must(b, it.Close())
				}
				var err error
				it, err = kv.Range(nil, nil, false)
				must(b, err)
			}
		}
		must(b, it.Close())
	})
}
