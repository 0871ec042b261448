package integration_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// texts is a topic of strings.
func texts(name string) millrace.Topic[string, string] {
	return millrace.NewTopic(name, serde.String, serde.String)
}

// numbers is a topic of numbers by string.
func numbers(name string) millrace.Topic[string, int64] {
	return millrace.NewTopic(name, serde.String, serde.Int64)
}

func record(k, v string, ts time.Time) *kgo.Record {
	return &kgo.Record{Key: []byte(k), Value: []byte(v), Timestamp: ts}
}

// at is record with the timestamp in milliseconds.
func at(k, v string, tsMs int64) *kgo.Record { return record(k, v, time.UnixMilli(tsMs)) }

// bytes8 is a number as its serde writes it.
func bytes8(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// shown prints records as "key=value" with "~" for null, in the order of one partition.
func shown(records []*kgo.Record) string {
	var out []string
	for _, r := range records {
		out = append(out, orNull(r.Key)+"="+orNull(r.Value))
	}
	return strings.Join(out, " ")
}

func orNull(b []byte) string {
	if b == nil {
		return "~"
	}
	return string(b)
}

// shownNumbers prints records as "key=number@timestamp".
func shownNumbers(t *testing.T, records []*kgo.Record) string {
	t.Helper()
	var out []string
	for _, r := range records {
		n, err := serde.Int64.Decode(r.Value)
		if err != nil {
			t.Fatalf("%s-%d@%d: %v", r.Topic, r.Partition, r.Offset, err)
		}
		out = append(out, fmt.Sprintf("%s=%d@%d", r.Key, n, r.Timestamp.UnixMilli()))
	}
	return strings.Join(out, " ")
}

// shownHeaders prints headers in their order.
func shownHeaders(r *kgo.Record) string {
	var out []string
	for _, h := range r.Headers {
		out = append(out, h.Key+"="+orNull(h.Value))
	}
	return strings.Join(out, ",")
}

func headers(pairs ...string) []kgo.RecordHeader {
	var out []kgo.RecordHeader
	for i := 0; i+1 < len(pairs); i += 2 {
		out = append(out, kgo.RecordHeader{Key: pairs[i], Value: []byte(pairs[i+1])})
	}
	return out
}

func equal(t *testing.T, what, got, want string) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// readN reads a topic when it holds n records.
func readN(t *testing.T, b kafkatest.Broker, topic string, n int) []*kgo.Record {
	t.Helper()
	return kafkatest.ReadUntil(t, b, topic, kafkatest.Committed, func(rs []*kgo.Record) bool { return len(rs) >= n })
}

// highest is the highest number of each key.
func highest(t *testing.T, records []*kgo.Record) map[string]int64 {
	t.Helper()
	out := make(map[string]int64)
	for _, r := range records {
		n, err := serde.Int64.Decode(r.Value)
		if err != nil {
			t.Fatal(err)
		}
		out[string(r.Key)] = max(out[string(r.Key)], n)
	}
	return out
}

// drops lists what an App has skipped, late records and dead letters included, by step and reason.
func drops(r *running) string {
	var out []string
	for _, d := range r.app.Metrics().Drops {
		if d.Count != 0 {
			out = append(out, fmt.Sprintf("%s %s %d", d.Step, d.Reason, d.Count))
		}
	}
	return strings.Join(out, ", ")
}
