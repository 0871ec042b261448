package kafkatest_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// ledgerKeys is how many keys the workload of ledgerTopology has.
const ledgerKeys = 100

func ledgerKey(i int) string { return fmt.Sprintf("key-%02d", i) }

// entry is the n-th value of a key, counted from 1: small numbers of both signs, in no order, so that minimum and maximum change
// for long, and no two of the following books are the same.
func entry(key string, n int64) int64 {
	seed := int64(key[len(key)-1]) + 10*int64(key[len(key)-2])
	return (n*n*7919+n*104729+seed*7)%2003 - 1000
}

// entryRecord is the record of an entry.
func entryRecord(key string, n int64) *kgo.Record {
	return &kgo.Record{Key: []byte(key), Value: binary.BigEndian.AppendUint64(nil, uint64(entry(key, n)))}
}

// auditor reads the books that ledgerTopology writes, in the order in which a partition holds them, and knows what they have to
// be: the n-th of a key is a function of n.
type auditor struct {
	again bool // the books behind the repartition
	keys  map[string]*audit

	read           int // records
	lost, doubled  int64
	wrong, unknown int64
	findings       []string // the first few
}

// audit is how far the books of a key are right.
type audit struct{ first, second books }

func newAuditor(again bool) *auditor {
	a := &auditor{again: again, keys: make(map[string]*audit)}
	for i := range ledgerKeys {
		a.keys[ledgerKey(i)] = &audit{}
	}
	return a
}

// next moves a key's books on by one entry, and returns what they are then.
func (a *auditor) next(key string) books {
	k := a.keys[key]
	k.first = enter(key, entry(key, k.first.N+1), k.first)
	if !a.again {
		return k.first
	}
	k.second = enter(key, k.first.Sum, k.second)
	return k.second
}

func (a *auditor) find(r *kgo.Record, what string) {
	if len(a.findings) < 20 {
		a.findings = append(a.findings, fmt.Sprintf("%s-%d@%d %s=%s: %s", r.Topic, r.Partition, r.Offset, r.Key, r.Value, what))
	}
}

// take judges the next record of a partition.
func (a *auditor) take(r *kgo.Record) {
	a.read++
	key := string(r.Key)
	if a.again {
		key = strings.TrimPrefix(key, "again-")
	}
	var got books
	if err := json.Unmarshal(r.Value, &got); err != nil || a.keys[key] == nil {
		a.unknown++
		a.find(r, fmt.Sprint("nobody wrote this: ", err))
		return
	}
	at := a.keys[key].first.N
	switch {
	case got.N <= at:
		a.doubled++
		a.find(r, fmt.Sprint("again, after number ", at))
		return
	case got.N > at+1:
		a.lost += got.N - at - 1
		a.find(r, fmt.Sprint("the one before was number ", at))
	}
	var want books
	for range got.N - at {
		want = a.next(key)
	}
	if got != want {
		a.wrong++
		a.find(r, fmt.Sprintf("want %+v", want))
	}
}

// complete tells whether the books of every key are there up to number n.
func (a *auditor) complete(n int64) bool {
	for _, k := range a.keys {
		if k.first.N < n {
			return false
		}
	}
	return true
}

// close counts what is missing up to number n of every key, and what goes on behind it.
func (a *auditor) close(n int64) {
	for _, k := range a.keys {
		a.lost += max(0, n-k.first.N)
		a.unknown += max(0, k.first.N-n)
	}
}

// The audit finds what is missing, what is there twice, what is wrong and what nobody wrote, and nothing else.
func TestAuditor(t *testing.T) {
	for _, again := range []bool{false, true} {
		prefix := ""
		if again {
			prefix = "again-"
		}
		oracle := newAuditor(again)
		record := func(key string, b books) *kgo.Record {
			text, err := json.Marshal(b)
			if err != nil {
				t.Fatal(err)
			}
			return &kgo.Record{Key: []byte(prefix + key), Value: text}
		}
		var right []*kgo.Record
		for range 5 {
			for i := range ledgerKeys {
				right = append(right, record(ledgerKey(i), oracle.next(ledgerKey(i))))
			}
		}
		with := func(i int, change ...*kgo.Record) []*kgo.Record {
			return slices.Concat(right[:i], change, right[i+1:])
		}
		bad := books{N: 3, Sum: 1 << 40}
		for _, c := range []struct {
			name                         string
			records                      []*kgo.Record
			lost, doubled, wrong, strays int64
		}{
			{"right", right, 0, 0, 0, 0},
			{"one is missing", with(250), 1, 0, 0, 0},
			{"the last of a key is missing", with(499), 1, 0, 0, 0},
			{"all is missing", nil, 5 * ledgerKeys, 0, 0, 0},
			{"one is there twice", with(250, right[250], right[250]), 0, 1, 0, 0},
			{"an old one comes again", with(450, right[50], right[450]), 0, 1, 0, 0},
			{"two are in the wrong order", with(150, right[250]), 1, 1, 0, 0},
			{"one is wrong", with(250, record(ledgerKey(50), bad)), 0, 0, 1, 0},
			{"one goes beyond", append(slices.Clone(right), record(ledgerKey(0), oracle.next(ledgerKey(0)))), 0, 0, 0, 1},
			{"one is of no key", with(250, right[250], record("other", bad)), 0, 0, 0, 1},
		} {
			a := newAuditor(again)
			for _, r := range c.records {
				a.take(r)
			}
			a.close(5)
			if a.lost != c.lost || a.doubled != c.doubled || a.wrong != c.wrong || a.unknown != c.strays {
				t.Errorf("%s, again %t: lost %d, doubled %d, wrong %d, unknown %d", c.name, again, a.lost, a.doubled, a.wrong, a.unknown)
			}
		}
	}
}
