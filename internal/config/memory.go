package config

import "fmt"

// MinMemoryLimit is the smallest MemoryLimit: below it the parts are too small to work.
const MinMemoryLimit = 64 << 20

// Budgets is how a MemoryLimit is divided. All sizes are bytes. They sum up to the limit with Headroom, which is left to
// records in process, user code and garbage that is not collected yet.
type Budgets struct {
	Fetch       int64 // fetched by the clients and not polled yet, all of them together
	Queues      int64 // input queues of all partitions together
	Private     int64 // writes and outputs of tasks that are not committed, pending units included
	Sealed      int64 // committed state that is not in the store engine yet
	RecordCache int64 // the deduplicating cache: Config.CacheBytes
	ReadCache   int64 // decoded values kept for speed
	Memtables   int64 // store engine: not flushed
	BlockCache  int64 // store engine: blocks of files
	Producer    int64 // waiting to be sent or acknowledged
	Headroom    int64

	PartitionQueue int64 // high-water mark of one partition's queue
	FetchRequest   int64 // bound of one fetch request
	FetchPartition int64 // bound of one partition in it
	GoMemoryLimit  int64 // for debug.SetMemoryLimit
}

const (
	minPartitionQueue = 64 << 10
	maxPartitionQueue = 8 << 20
	maxFetchPartition = 1 << 20 // a larger record is still fetched, alone
)

// Budgets divides MemoryLimit for an App that may be given that many input partitions. Settings that fix a part
// (statestore.cache.max.bytes, buffer.memory, fetch.max.bytes, max.partition.fetch.bytes,
// millrace.buffered.bytes.per.partition) are kept as they are. It is an error if what remains does not give each partition
// its minimum: better to say so at the start than to thrash.
func (c *Config) Budgets(partitions int) (Budgets, error) {
	limit := c.MemoryLimit
	fail := func(reason string, args ...any) (Budgets, error) {
		return Budgets{}, &SettingError{Name: "millrace.memory.limit.bytes", Value: fmt.Sprint(limit), Reason: fmt.Sprintf(reason, args...),
			Hint: "raise it, or run more instances"}
	}
	if limit < MinMemoryLimit {
		return fail("must be at least %d", MinMemoryLimit)
	}
	b := Budgets{RecordCache: c.CacheBytes, Producer: c.Producer.BufferBytes, GoMemoryLimit: limit / 100 * 95}
	if fixed := b.RecordCache + b.Producer; fixed > limit/2 {
		return fail("is too small: the record cache (statestore.cache.max.bytes = %d) and the producer (buffer.memory = %d) take more than half of it",
			b.RecordCache, b.Producer)
	}
	rest := limit - b.RecordCache - b.Producer
	share := func(percent int64) int64 { return rest / 100 * percent }
	if b.Producer == 0 {
		b.Producer = share(10)
	}
	b.Fetch = share(12)
	b.Queues = share(14)
	b.Private = share(10)
	b.Sealed = share(8)
	b.ReadCache = share(6)
	b.Memtables = min(share(10), 64<<20)
	b.BlockCache = share(8)
	b.Headroom = limit - b.RecordCache - b.Producer - b.Fetch - b.Queues - b.Private - b.Sealed - b.ReadCache - b.Memtables - b.BlockCache

	n := int64(max(partitions, 1))
	if b.PartitionQueue = c.BufferedBytes; b.PartitionQueue == 0 {
		if b.Queues/n < minPartitionQueue {
			return fail("is too small: %d input partitions need %d bytes each in their queues, and %d bytes are left for all", n, minPartitionQueue, b.Queues)
		}
		b.PartitionQueue = min(b.Queues/n, maxPartitionQueue)
	} else if b.PartitionQueue*n > limit/2 {
		return fail("is too small: the queues of %d input partitions of millrace.buffered.bytes.per.partition = %d take more than half of it", n, b.PartitionQueue)
	}
	// Two requests of a client may be there at a time: one under way and one not polled yet.
	if b.FetchRequest = c.Main.FetchMaxBytes; b.FetchRequest == 0 {
		b.FetchRequest = b.Fetch / 2
	}
	if b.FetchPartition = c.Main.MaxPartitionFetchBytes; b.FetchPartition == 0 {
		b.FetchPartition = min(b.FetchRequest, b.PartitionQueue, maxFetchPartition)
	}
	return b, nil
}
