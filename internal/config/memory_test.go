package config

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func (b Budgets) sum() int64 {
	return b.Fetch + b.Queues + b.Private + b.Sealed + b.RecordCache + b.ReadCache + b.Memtables + b.BlockCache + b.Producer + b.Headroom
}

func TestBudgets_divideTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Default()
		cfg.MemoryLimit = rapid.Int64Range(MinMemoryLimit, 64<<30).Draw(t, "limit")
		cfg.CacheBytes = rapid.Int64Range(0, 64<<20).Draw(t, "cache")
		cfg.Producer.BufferBytes = rapid.SampledFrom([]int64{0, 1 << 20, 32 << 20}).Draw(t, "producer")
		partitions := rapid.IntRange(0, 5000).Draw(t, "partitions")
		b, err := cfg.Budgets(partitions)
		if err != nil {
			if !strings.Contains(err.Error(), "is too small") {
				t.Fatalf("%v", err)
			}
			return
		}
		if b.sum() != cfg.MemoryLimit {
			t.Fatalf("the parts sum up to %d of %d", b.sum(), cfg.MemoryLimit)
		}
		for name, v := range map[string]int64{
			"Fetch": b.Fetch, "Queues": b.Queues, "Private": b.Private, "Sealed": b.Sealed, "ReadCache": b.ReadCache, "Memtables": b.Memtables,
			"BlockCache": b.BlockCache, "Producer": b.Producer, "FetchRequest": b.FetchRequest, "FetchPartition": b.FetchPartition,
		} {
			if v <= 0 {
				t.Fatalf("%s is %d", name, v)
			}
		}
		if b.Headroom < cfg.MemoryLimit/10 || b.GoMemoryLimit > cfg.MemoryLimit {
			t.Fatalf("headroom %d and Go's limit %d of %d", b.Headroom, b.GoMemoryLimit, cfg.MemoryLimit)
		}
		if b.PartitionQueue < minPartitionQueue || b.PartitionQueue*int64(max(partitions, 1)) > b.Queues {
			t.Fatalf("%d partitions with %d bytes each, %d in all", partitions, b.PartitionQueue, b.Queues)
		}
	})
}

func TestBudgets_refuse(t *testing.T) {
	for _, tc := range []struct {
		name       string
		change     func(*Config)
		partitions int
		want       string
	}{
		{"too many partitions", func(c *Config) { c.MemoryLimit = MinMemoryLimit }, 1000, "1000 input partitions need 65536 bytes each"},
		{"a cache of half the memory", func(c *Config) { c.CacheBytes = DefaultMemoryLimit }, 1, "statestore.cache.max.bytes = 536870912"},
		{"queues of half the memory", func(c *Config) { c.BufferedBytes = 100 << 20 }, 3, "millrace.buffered.bytes.per.partition = 104857600"},
		{"a limit below the least", func(c *Config) { c.MemoryLimit = 1 << 20 }, 1, "must be at least"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := Default()
			tc.change(&cfg)
			if _, err := cfg.Budgets(tc.partitions); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestBudgets_keepWhatIsSet(t *testing.T) {
	cfg := Default()
	cfg.BufferedBytes, cfg.Main.FetchMaxBytes, cfg.Main.MaxPartitionFetchBytes, cfg.Producer.BufferBytes = 1<<20, 2<<20, 3<<20, 4<<20
	b, err := cfg.Budgets(4)
	if err != nil {
		t.Fatal(err)
	}
	if b.PartitionQueue != 1<<20 || b.FetchRequest != 2<<20 || b.FetchPartition != 3<<20 || b.Producer != 4<<20 || b.RecordCache != cfg.CacheBytes {
		t.Errorf("%+v", b)
	}
}
