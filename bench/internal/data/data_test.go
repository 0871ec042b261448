package data

import (
	"bytes"
	"testing"
	"time"
)

func TestSameRecordsEveryTime(t *testing.T) {
	s := Set{Keys: 1000, ValueBytes: 100}
	keys := make(map[string]int)
	var last time.Time
	var n int64
	for r := range s.Input(0, 20_000) {
		again := s.Record(n)
		if !bytes.Equal(r.Key, again.Key) || !bytes.Equal(r.Value, again.Value) || !r.Timestamp.Equal(again.Timestamp) {
			t.Fatalf("record %d differs", n)
		}
		if len(r.Key) != KeyBytes || len(r.Value) != 100 {
			t.Fatalf("record %d has a key of %d and a value of %d bytes", n, len(r.Key), len(r.Value))
		}
		if r.Timestamp.Before(last) {
			t.Fatalf("record %d goes back in time", n)
		}
		last = r.Timestamp
		keys[string(r.Key)]++
		n++
	}
	if n != 20_000 {
		t.Errorf("%d records", n)
	}
	if len(keys) != 1000 {
		t.Errorf("%d of 1,000 keys are used", len(keys))
	}
	if got := s.Record(20_000).Timestamp.Sub(s.Record(0).Timestamp); got != 4*time.Second {
		t.Errorf("20,000 records span %v, want 4s", got)
	}
}

func TestTableHasEveryKeyOnceAndBeforeTheInput(t *testing.T) {
	s := Set{Keys: 500, ValueBytes: 20}
	first := s.Record(0).Timestamp
	seen := make(map[string]bool)
	for r := range s.Table() {
		if seen[string(r.Key)] {
			t.Fatalf("key %s twice", r.Key)
		}
		seen[string(r.Key)] = true
		if !r.Timestamp.Before(first) || len(r.Value) != 20 {
			t.Fatalf("%s: %v, %d bytes", r.Key, r.Timestamp, len(r.Value))
		}
	}
	for r := range s.Input(0, 5000) {
		if !seen[string(r.Key)] {
			t.Fatalf("input key %s is not in the table", r.Key)
		}
	}
}
