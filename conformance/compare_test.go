package conformance

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/serde"
)

// compare holds what came out against what Java, or the judge of a difference, says, and returns what is not equal.
func (s *scenario) compare(want, got *vector) []string {
	if s.judge != nil {
		return s.compareJudged(want, got)
	}
	var diffs []string
	if d := gocmp.Diff(want.describe, got.describe); d != "" {
		diffs = append(diffs, "description (-java +millrace):\n"+d)
	}
	if d := diffInternal(want.internal, got.internal); d != "" {
		diffs = append(diffs, "internal topics (-java +millrace):\n"+d)
	}
	buffers := make(map[string]bool)
	for _, t := range want.internal {
		if t.buffer {
			buffers[t.name] = true
		}
	}
	wantTopics, gotTopics := byTopic(want.output), byTopic(got.output)
	for _, topic := range keys(wantTopics, gotTopics) {
		w, g := wantTopics[topic], gotTopics[topic]
		if buffers[topic] {
			w, g = looselyOrdered(w), looselyOrdered(g)
		}
		if strings.Contains(strings.ToLower(topic), responseTopic) {
			g = withoutHeader(g, absentHeader)
		}
		if d := diffTopic(topic, "java", w, g, want.input); d != "" {
			diffs = append(diffs, d)
		}
	}
	if (want.failure == "") != (got.failure == "") {
		diffs = append(diffs, fmt.Sprintf("failure: java %q, millrace %q", want.failure, got.failure))
	}
	if len(diffs) == 0 { // offsets tell nothing new where outputs differ
		if d := gocmp.Diff(progressText(want), progressText(got)); d != "" {
			diffs = append(diffs, "metadata of committed offsets (-java +millrace):\n"+d)
		}
	}
	return diffs
}

func (s *scenario) compareJudged(want, got *vector) []string {
	var diffs []string
	gotTopics := byTopic(got.output)
	for topic, records := range s.judge.model(want.input) {
		if d := diffTopic(topic, "the model of "+s.judge.rule, records, gotTopics[topic], want.input); d != "" {
			diffs = append(diffs, d)
		}
	}
	if got.failure != "" {
		diffs = append(diffs, "failure: "+got.failure)
	}
	return diffs
}

func byTopic(records []record) map[string][]record {
	m := make(map[string][]record)
	for _, r := range records {
		m[r.topic] = append(m[r.topic], r)
	}
	return m
}

func keys[V any](a, b map[string]V) []string {
	all := slices.Collect(maps.Keys(a))
	for k := range b {
		if _, ok := a[k]; !ok {
			all = append(all, k)
		}
	}
	slices.Sort(all)
	return all
}

// looselyOrdered takes out of the changelog of a buffer what Java takes from a hash set and the clock of its producer: the
// order between keys within a commit, and the timestamps.
func looselyOrdered(records []record) []record {
	records = slices.Clone(records)
	for i := range records {
		records[i].tsMs = 0
	}
	slices.SortStableFunc(records, func(a, b record) int {
		return cmp.Or(cmp.Compare(a.step, b.step), bytes.Compare(a.key, b.key))
	})
	return records
}

// The answers without a right row of inner foreign-key joins have a header that Java's have not: see the list of deliberate
// differences. It is read by the left side, and must be on no other topic.
const (
	absentHeader  = "millrace.absent-foreign-key"
	responseTopic = "-subscription-response-" // named or numbered
)

func withoutHeader(records []record, key string) []record {
	records = slices.Clone(records)
	for i := range records {
		if _, ok := records[i].headers.Last(key); ok {
			records[i].headers = records[i].headers.Without(key)
		}
	}
	return records
}

func diffInternal(want, got []internalTopic) string {
	text := func(topics []internalTopic, partitions bool) string {
		var b strings.Builder
		for i, t := range topics {
			fmt.Fprintf(&b, "%s", t.name)
			// A program may leave the number of partitions open, and then Java's driver does not tell it.
			if partitions || i < len(want) && want[i].name == t.name && want[i].partitions > 0 {
				if t.partitions > 0 {
					fmt.Fprintf(&b, " partitions=%d", t.partitions)
				}
			}
			for _, k := range slices.Sorted(maps.Keys(t.configs)) {
				fmt.Fprintf(&b, " %s=%s", k, t.configs[k])
			}
			b.WriteByte('\n')
		}
		return b.String()
	}
	return gocmp.Diff(text(want, true), text(got, false))
}

func progressText(v *vector) string {
	var lines []string
	for _, p := range v.progress {
		lines = append(lines, fmt.Sprintf("after step %05d: %s time=%d entries=%v\n", p.step, p.topic, p.timeMs, p.entries))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func equal(a, b record) bool {
	return a.step == b.step && a.tsMs == b.tsMs && equalBytes(a.key, b.key) && equalBytes(a.value, b.value) &&
		slices.EqualFunc(a.headers, b.headers, func(x, y serde.Header) bool { return x.Key == y.Key && equalBytes(x.Value, y.Value) })
}

func equalBytes(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// around is how many records before and after the first difference are shown.
const around = 3

// diffTopic returns "" if the two sequences are equal, and otherwise the neighbourhood of the first difference, with the
// input that led there.
func diffTopic(topic, judge string, want, got []record, input []step) string {
	at := 0
	for at < len(want) && at < len(got) && equal(want[at], got[at]) {
		at++
	}
	if at == len(want) && at == len(got) {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "topic %s differs at record %d (%s has %d, millrace %d):\n", topic, at, judge, len(want), len(got))
	for i := max(0, at-around); i < at; i++ {
		fmt.Fprintf(&b, "      %d: %s\n", i, want[i].text())
	}
	firstStep := len(input)
	show := func(mark string, records []record) {
		for i := at; i < min(len(records), at+around+1); i++ {
			fmt.Fprintf(&b, "    %s %d: %s\n", mark, i, records[i].text())
			firstStep = min(firstStep, records[i].step)
		}
		if at >= len(records) {
			fmt.Fprintf(&b, "    %s %d: nothing\n", mark, at)
		}
	}
	show("-", want)
	show("+", got)
	fmt.Fprintf(&b, "  - is %s, + is millrace; the input that led there:\n", judge)
	for i := max(0, firstStep-around); i <= firstStep && i < len(input); i++ {
		fmt.Fprintf(&b, "      step %d: %s\n", i, input[i].text())
	}
	return b.String()
}

func (s step) text() string {
	if s.advanceMs > 0 {
		return fmt.Sprintf("the wall clock moves on by %d ms", s.advanceMs)
	}
	r := s.record
	r.step = -1
	return s.topic + " " + r.text()
}

func (r record) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s = %s @%d", readable(r.key), readable(r.value), r.tsMs)
	for _, h := range r.headers {
		fmt.Fprintf(&b, " %s:%s", h.Key, readable(h.Value))
	}
	if r.step >= 0 {
		fmt.Fprintf(&b, " (step %d)", r.step)
	}
	return b.String()
}

// readable shows bytes as text where they are that, as a number where they are eight bytes of one, and as text and rest
// where only the beginning is text, as keys of windows are.
func readable(b []byte) string {
	if b == nil {
		return "null"
	}
	if printable(b) {
		return fmt.Sprintf("%q", b)
	}
	if len(b) == 8 {
		return fmt.Sprint(int64(binary.BigEndian.Uint64(b)))
	}
	n := 0
	for n < len(b) && printable(b[:n+1]) {
		n++
	}
	if n > 0 {
		return fmt.Sprintf("%q+%x", b[:n], b[n:])
	}
	return fmt.Sprintf("%x", b)
}

func printable(b []byte) bool {
	if !utf8.Valid(b) {
		return false
	}
	for _, c := range b {
		if c < ' ' || c == 0x7f {
			return false
		}
	}
	return true
}
