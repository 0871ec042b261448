package state_test

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/state"
	"github.com/millrace-io/millrace/internal/task"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

const (
	retentionMs = 3_600_000
	windowMs    = retentionMs / 4
	retentions  = 10
	// The bounds of the memory that is set: caches of the task and of the database, what is sealed, and Pebble's memory,
	// of which there may be three.
	taskCacheBytes = 4 << 20
	readCacheBytes = 1 << 20
	blockBytes     = 4 << 20
	sealedBytes    = 2 << 20
	memTableBytes  = 2 << 20
	memoryBound    = taskCacheBytes + readCacheBytes + blockBytes + sealedBytes + 3*memTableBytes + 8<<20
)

// TestWindowedStateLeavesTheDisk counts in windows for ten times as long as they are kept. After the third time neither the
// state directory nor the memory grows any more. MILLRACE_WINDOWED_KEYS sets how many keys there are.
func TestWindowedStateLeavesTheDisk(t *testing.T) {
	keys := 100_000
	if testing.Short() {
		keys = 10_000
	}
	if v := os.Getenv("MILLRACE_WINDOWED_KEYS"); v != "" {
		var err error
		if keys, err = strconv.Atoi(v); err != nil || keys <= 0 {
			t.Fatalf("MILLRACE_WINDOWED_KEYS=%q is no number of keys", v)
		}
	}
	disk, memory := countFor(t, keys, retentionMs*time.Millisecond)
	t.Logf("%d keys: bytes on disk after each retention %v, on the heap %v", keys, disk, memory)
	if outside := growth(disk); outside != "" {
		t.Error(outside)
	}
	for i, n := range memory {
		if n > memoryBound {
			t.Errorf("after %d retentions the heap holds %d bytes, the bounds that are set allow %d", i+1, n, memoryBound)
		}
	}
	if rows := int64(keys) * 20; disk[len(disk)-1] < rows {
		t.Errorf("%d bytes on disk are too few for a row of each of %d keys", disk[len(disk)-1], keys)
	}
}

// The check above finds rows that stay.
func TestWindowedStateLeavesTheDisk_findsRowsThatStay(t *testing.T) {
	disk, _ := countFor(t, 2000, 100*retentionMs*time.Millisecond)
	if growth(disk) == "" {
		t.Errorf("bytes on disk after each retention %v: nothing is found", disk)
	}
}

// growth compares the sizes after the third retention with their mean.
func growth(sizes []int64) string {
	late := sizes[3:]
	var sum int64
	for _, n := range late {
		sum += n
	}
	mean := float64(sum) / float64(len(late))
	for i, n := range late {
		if float64(n) > 1.3*mean || 1.3*float64(n) < mean {
			return fmt.Sprintf("after %d retentions there are %d bytes on disk, which is not within 1.3 times the mean %.0f of %v", i+4, n, mean, late)
		}
	}
	return ""
}

// countFor counts each key once in each retention, in one window of four, and measures after each retention.
func countFor(t *testing.T, keys int, retain time.Duration) (disk, memory []int64) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute+time.Duration(keys)*2*time.Millisecond)
	defer cancel()
	b := millrace.NewBuilder()
	text := millrace.NewTopic("in", serde.String, serde.String)
	counts, _ := millrace.CountWindows(millrace.From(b, text).GroupByKey().WindowBy(window.Tumbling(windowMs*time.Millisecond)),
		millrace.As("counts"), millrace.Retain(retain))
	counts.ToStream().To(millrace.NewTopic("out", serde.Windowed(serde.String, windowMs*time.Millisecond), serde.Int64))
	built, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	run := newWindowedTask(ctx, t, built)
	start := run.heap()
	for range retentions {
		for quarter := range 4 {
			for i := quarter; i < keys; i += 4 {
				run.pipe(key(i), run.tsMs+int64(i)*windowMs/int64(keys))
			}
			run.tsMs += windowMs
		}
		run.commit()
		if err := run.set.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := run.db.Settle(ctx); err != nil {
			t.Fatal(err)
		}
		disk, memory = append(disk, folderBytes(t, run.db.Dir())), append(memory, run.heap()-start)
	}
	if run.outputs < retentions*keys {
		t.Errorf("%d results for %d records", run.outputs, retentions*keys)
	}
	return disk, memory
}

// key is the key of a number: bytes that do not compress.
func key(i int) []byte {
	h := fnv.New128a()
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(i)))
	return hex.AppendEncode(nil, h.Sum(nil))
}

// windowedTask is a task with its stores in a directory, and the loop around it.
type windowedTask struct {
	*testing.T
	db      *state.DB
	set     *state.Set
	task    *task.Task
	nowMs   int64
	tsMs    int64
	offset  int64
	logEnd  int64 // of the changelog
	outputs int
	records []broker.Record
}

var windowedInput = broker.TopicPartition{Topic: "in"}

func newWindowedTask(ctx context.Context, t *testing.T, built *millrace.Topology) *windowedTask {
	x := &windowedTask{T: t, nowMs: 1}
	var err error
	x.db, err = state.OpenDB(state.Options{
		Dir: t.TempDir(), ClusterID: "cluster", ApplicationID: "app", Now: func() int64 { return x.nowMs },
		CacheBytes: blockBytes, MemTableBytes: memTableBytes, SealedBytes: sealedBytes, MinFreeBytes: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	sub := built.Internal().Subtopologies()[0]
	specs, err := task.StoreSpecs(sub)
	if err == nil {
		x.set, err = x.db.OpenSet("0_0", specs, nil)
	}
	if err == nil {
		x.task, err = task.New(task.Config{
			Sub: sub, Inputs: []broker.TopicPartition{windowedInput}, Set: x.set, Ctx: ctx, NowMs: func() int64 { return x.nowMs },
			Metrics: metrics.New(), Partitions: func(string) (int32, error) { return 1, nil },
			TopicName:  func(name string) string { return topology.DecoratedTopic("app", name) },
			CacheBytes: taskCacheBytes, ReadCacheBytes: readCacheBytes,
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	x.task.SetPosition(windowedInput, 0, 0)
	t.Cleanup(func() {
		if err := x.task.Close(); err != nil {
			t.Error(err)
		}
		if err := x.db.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

// pipe takes a record: it is processed with the batch that it fills, and a batch in eight is committed.
func (x *windowedTask) pipe(key []byte, tsMs int64) {
	x.records = append(x.records, broker.Record{Offset: x.offset, Key: key, Value: []byte("v"), TimestampMs: tsMs})
	if x.offset++; len(x.records) == 500 {
		x.process()
		if x.offset%4000 == 0 {
			x.commit()
		}
	}
}

func (x *windowedTask) process() {
	if len(x.records) == 0 {
		return
	}
	batch := broker.Batch{TopicPartition: windowedInput, Records: x.records, Position: x.offset, HighWater: x.offset, StableEnd: x.offset}
	if err := x.task.Add(batch); err != nil {
		x.Fatal(err)
	}
	if _, err := x.task.Process(len(x.records)); err != nil {
		x.Fatal(err)
	}
	x.records = nil
	out := x.task.TakeOutputs()
	x.sent(out)
	x.task.ReuseOutputs(out)
}

func (x *windowedTask) sent(out []op.Output) {
	for i := range out {
		if out[i].Store != "" {
			x.logEnd++
		} else {
			x.outputs++
		}
	}
}

// commit goes the way of an application: what is due is flushed, and time moves on.
func (x *windowedTask) commit() {
	x.process()
	u, err := x.task.HandOver()
	if err != nil {
		x.Fatal(err)
	}
	if u != nil {
		x.sent(u.Outputs)
		if err := x.task.Sealed(u, map[string]state.Position{"counts": {Offset: x.logEnd, Epoch: -1}}); err != nil {
			x.Fatal(err)
		}
	}
	x.nowMs += 100
	if x.set.FlushDue(x.nowMs) {
		if err := x.set.Flush(); err != nil {
			x.Fatal(err)
		}
	}
	if err := x.db.Maintain(); err != nil {
		x.Fatal(err)
	}
}

// heap is what is in use.
func (x *windowedTask) heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func folderBytes(t *testing.T, dir string) (n int64) {
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
