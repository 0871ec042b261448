package codec

import (
	"encoding/base64"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func encodeMetadata(t *testing.T, m OffsetMetadata) string {
	t.Helper()
	out, leftOut := AppendOffsetMetadata(nil, m)
	if leftOut != 0 {
		t.Errorf("%+v: %d entries left out", m, leftOut)
	}
	return string(out)
}

func TestC131_metadataOfCommittedOffsets(t *testing.T) {
	for _, c := range []struct {
		timeMs int64
		text   string
	}{
		{5, "AgAAAAAAAAAF"}, {100, "AgAAAAAAAABk"},
	} {
		m := OffsetMetadata{PartitionTimeMs: c.timeMs, StreamTimeMs: c.timeMs}
		if got := encodeMetadata(t, m); got != c.text {
			t.Errorf("time %d: %s, want %s", c.timeMs, got, c.text)
		}
		if got, ok := ParseOffsetMetadata(c.text); !ok || !cmp.Equal(got, m) {
			t.Errorf("%s: %+v, %v", c.text, got, ok)
		}
	}
	// Version 3 does not exist yet.
	got, ok := ParseOffsetMetadata("AwAAAAAAAAAF")
	if want := (OffsetMetadata{PartitionTimeMs: NoTime, StreamTimeMs: NoTime}); ok || !cmp.Equal(got, want) {
		t.Errorf("an unknown version: %+v, %v", got, ok)
	}
}

// Written and read by TopicPartitionMetadata of Kafka Streams 4.4.0, entries in ascending order of their names.
func TestOffsetMetadata_javaVectors(t *testing.T) {
	for _, c := range []struct {
		m    OffsetMetadata
		text string
	}{
		{OffsetMetadata{PartitionTimeMs: NoTime, StreamTimeMs: NoTime}, "Av//////////"},
		{OffsetMetadata{PartitionTimeMs: 0, StreamTimeMs: 0}, "AgAAAAAAAAAA"},
		{OffsetMetadata{PartitionTimeMs: 1784074200000, StreamTimeMs: 1784074200000}, "AgAAAZ9jG+PA"},
		{OffsetMetadata{PartitionTimeMs: math.MaxInt64, StreamTimeMs: math.MaxInt64}, "An//////////"},
		{OffsetMetadata{PartitionTimeMs: 5, StreamTimeMs: 5, Processor: map[string]int64{"store": 7}},
			"AgAAAAAAAAAFAAAAAQAAAAVzdG9yZQAAAAAAAAAH"},
		{OffsetMetadata{PartitionTimeMs: 5, StreamTimeMs: 5,
			Processor: map[string]int64{"clicks-per-minute": 1784074260000, "b": -1}},
			"AgAAAAAAAAAFAAAAAgAAAAFi//////////8AAAARY2xpY2tzLXBlci1taW51dGUAAAGfYxzOIA=="},
		{OffsetMetadata{PartitionTimeMs: 5, StreamTimeMs: 9, Processor: map[string]int64{"store": 7},
			Observed: map[string]int64{"clicks": 8}},
			"AgAAAAAAAAAFAAAAAwAAAAVzdG9yZQAAAAAAAAAHAAAAAX4AAAAAAAAACQAAAAd+Y2xpY2tzAAAAAAAAAAg="},
	} {
		if got := encodeMetadata(t, c.m); got != c.text {
			t.Errorf("%+v: %s, want %s", c.m, got, c.text)
		}
		if got, ok := ParseOffsetMetadata(c.text); !ok || !cmp.Equal(got, c.m) {
			t.Errorf("%s: %v: %s", c.text, ok, cmp.Diff(got, c.m))
		}
	}
}

// What Kafka Streams 4.4.0 makes of broken metadata: no time at all, or the partition's time without entries.
func TestParseOffsetMetadata_broken(t *testing.T) {
	for _, c := range []struct {
		text   string
		timeMs int64
		ok     bool
	}{
		{"AQAAAAAAAAAF", 5, true},          // version 1
		{"", NoTime, false},                // nothing
		{"!", NoTime, false},               // not base64
		{"AgAA", NoTime, false},            // short
		{"some text of a user", -1, false}, // of another program
		{"AgAAAAAAAAAFAAA=", 5, true},      // a part of the count
		{"AgAAAAAAAAAFAAAAAQ==", 5, true},  // an entry is missing
		{"AgAAAAAAAAAFAAAAAQ", 5, true},    // the same without padding
		{"AgAAAAAAAAAFAAAAAA==", 5, true},  // a count of 0
		{"AgAAAAAAAAAF/////w==", 5, true},  // a count of -1
		{base64.StdEncoding.EncodeToString([]byte("\x02\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x01\x7f\xff\xff\xff")), 5, true},
		{base64.StdEncoding.EncodeToString([]byte("\x02\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x01\xff\xff\xff\xff12345678")), 5, true},
	} {
		got, ok := ParseOffsetMetadata(c.text)
		if want := (OffsetMetadata{PartitionTimeMs: c.timeMs, StreamTimeMs: c.timeMs}); ok != c.ok || !cmp.Equal(got, want) {
			t.Errorf("%q: %+v, %v", c.text, got, ok)
		}
	}
}

// The second of two entries is cut off: the first does not count either.
func TestParseOffsetMetadata_takesAllEntriesOrNone(t *testing.T) {
	whole := encodeMetadata(t, OffsetMetadata{PartitionTimeMs: 5, StreamTimeMs: 9, Processor: map[string]int64{"a": 1, "b": 2}})
	raw, err := base64.StdEncoding.DecodeString(whole)
	if err != nil {
		t.Fatal(err)
	}
	got, ok := ParseOffsetMetadata(base64.StdEncoding.EncodeToString(raw[:len(raw)-1]))
	if want := (OffsetMetadata{PartitionTimeMs: 5, StreamTimeMs: 5}); !ok || !cmp.Equal(got, want) {
		t.Errorf("%+v, %v", got, ok)
	}
}

func TestOffsetMetadata_ownEntriesStayBelowTheLimit(t *testing.T) {
	m := OffsetMetadata{PartitionTimeMs: 5, StreamTimeMs: 6, Processor: map[string]int64{"store": 7}, Observed: map[string]int64{}}
	for i := range 100 {
		m.Observed[fmt.Sprintf("a-step-with-quite-a-long-name-%03d", i)] = int64(i)
	}
	m.Observed["z"] = 1000 // short: fits where the long ones do not any more
	out, leftOut := AppendOffsetMetadata(nil, m)
	if len(out) > OffsetMetadataLimit || len(out) < OffsetMetadataLimit-100 {
		t.Errorf("%d bytes", len(out))
	}
	got, ok := ParseOffsetMetadata(string(out))
	if !ok || got.StreamTimeMs != 6 || got.Processor["store"] != 7 {
		t.Errorf("%+v, %v", got, ok)
	}
	if leftOut == 0 || len(got.Observed)+leftOut != len(m.Observed) {
		t.Errorf("%d of %d entries written, %d left out", len(got.Observed), len(m.Observed), leftOut)
	}
	for name, value := range got.Observed {
		if m.Observed[name] != value {
			t.Errorf("%s: %d, want %d", name, value, m.Observed[name])
		}
	}
	if _, ok := got.Observed["z"]; !ok {
		t.Error("the short entry was left out")
	}
}

// What Kafka Streams writes too is written at any length, and ours are left out then.
func TestOffsetMetadata_javaEntriesAreNeverLeftOut(t *testing.T) {
	m := OffsetMetadata{PartitionTimeMs: 5, StreamTimeMs: 6, Processor: map[string]int64{}, Observed: map[string]int64{"z": 1}}
	for i := range 300 {
		m.Processor[fmt.Sprintf("store-%03d", i)] = int64(i)
	}
	out, leftOut := AppendOffsetMetadata(nil, m)
	if leftOut != 2 {
		t.Errorf("%d left out, want the stream time and the observed time", leftOut)
	}
	got, ok := ParseOffsetMetadata(string(out))
	if !ok || !cmp.Equal(got.Processor, m.Processor) || got.StreamTimeMs != 5 || got.Observed != nil {
		t.Errorf("%v: %+v", ok, got)
	}
}

func TestAppendOffsetMetadata_deterministic(t *testing.T) {
	build := func() OffsetMetadata {
		m := OffsetMetadata{PartitionTimeMs: 5, StreamTimeMs: 6, Processor: map[string]int64{}, Observed: map[string]int64{}}
		for i := range 40 {
			m.Processor[fmt.Sprint("store", i)] = int64(i)
			m.Observed[fmt.Sprint("step", i)] = int64(i)
		}
		return m
	}
	first := encodeMetadata(t, build())
	for range 20 {
		if again := encodeMetadata(t, build()); again != first {
			t.Fatalf("two encodings of the same metadata:\n%s\n%s", first, again)
		}
	}
}

func TestAppendOffsetMetadata_doesNotAllocate(t *testing.T) {
	m := OffsetMetadata{PartitionTimeMs: 5, StreamTimeMs: 6, Processor: map[string]int64{"store": 1}, Observed: map[string]int64{"step": 2}}
	dst := make([]byte, 0, 256)
	if n := testing.AllocsPerRun(100, func() { dst, _ = AppendOffsetMetadata(dst[:0], m) }); n != 0 {
		t.Errorf("%v allocations for each call", n)
	}
}

func TestOffsetMetadata_Merge(t *testing.T) {
	m := OffsetMetadata{PartitionTimeMs: 5, StreamTimeMs: 5, Processor: map[string]int64{"a": 1, "b": 9}}
	m.Merge(OffsetMetadata{PartitionTimeMs: 8, StreamTimeMs: 8, Processor: map[string]int64{"a": 2, "b": 3, "c": 4},
		Observed: map[string]int64{"s": -7}})
	want := OffsetMetadata{PartitionTimeMs: 5, StreamTimeMs: 8, Processor: map[string]int64{"a": 2, "b": 9, "c": 4},
		Observed: map[string]int64{"s": -7}}
	if !cmp.Equal(m, want) {
		t.Error(cmp.Diff(m, want))
	}
	m.Merge(OffsetMetadata{PartitionTimeMs: NoTime, StreamTimeMs: NoTime})
	if !cmp.Equal(m, want) {
		t.Error(cmp.Diff(m, want))
	}
}

func FuzzParseOffsetMetadata(f *testing.F) {
	for _, s := range []string{"", "!", "AgAA", "AQAAAAAAAAAF", "AgAAAAAAAAAF", "AwAAAAAAAAAF", "AgAAAAAAAAAFAAAAAQAAAAVzdG9yZQAAAAAAAAAH",
		"AgAAAAAAAAAFAAAAAwAAAAVzdG9yZQAAAAAAAAAHAAAAAX4AAAAAAAAACQAAAAd+Y2xpY2tzAAAAAAAAAAg=", "AgAAAAAAAAAF/////w=="} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, ok := ParseOffsetMetadata(text)
		if !ok {
			if m.PartitionTimeMs != NoTime || m.StreamTimeMs != NoTime || m.Processor != nil || m.Observed != nil {
				t.Fatalf("%q: not ok, but %+v", text, m)
			}
			return
		}
		if m.StreamTimeMs < m.PartitionTimeMs {
			t.Fatalf("%q: stream time below partition time: %+v", text, m)
		}
		out, leftOut := AppendOffsetMetadata(nil, m)
		if leftOut > 0 {
			return
		}
		again, ok := ParseOffsetMetadata(string(out))
		if !ok || !cmp.Equal(again, m) {
			t.Fatalf("%q: %s", text, cmp.Diff(again, m))
		}
		if strings.ContainsAny(string(out), "\r\n") {
			t.Fatalf("%q: line breaks in %q", text, out)
		}
	})
}
