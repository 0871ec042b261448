package reset

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/config"
)

// Kind is a way to name offsets.
type Kind uint8

// Ways to name offsets. Those out of the log's range become the nearest one in it.
const (
	ToEarliest Kind = iota // the first offset in the log
	ToLatest               // its end
	ToOffset               // Target.Offset, the same one for every partition
	ShiftBy                // Target.Offset added to the committed offset, to the end where there is none
	ToTime                 // the first record with a timestamp at or after Target.TimeMs, the end where there is none
	FromFile               // Target.File
)

// Target is where offsets go. The zero value is the beginning of the log.
type Target struct {
	Kind   Kind
	Offset int64
	TimeMs int64
	File   map[broker.TopicPartition]int64
}

// of is where one partition goes, and what has to be said about it.
func (t Target) of(tp broker.TopicPartition, committed, start, end, at int64) (to int64, note string) {
	switch t.Kind {
	case ToLatest:
		return end, ""
	case ToOffset:
		return t.Offset, ""
	case ShiftBy:
		if committed < 0 {
			return shifted(end, t.Offset), "no offset is committed: shifted from the end of the log"
		}
		return shifted(committed, t.Offset), ""
	case ToTime:
		if at >= end {
			return end, "no record is that late"
		}
		return at, ""
	case FromFile:
		return t.File[tp], ""
	}
	return start, ""
}

// shifted adds without running over.
func shifted(offset, by int64) int64 {
	if sum := offset + by; by < 0 || sum >= offset {
		return sum
	}
	return 1<<63 - 1
}

// covers refuses a file that does not fit the partitions.
func (t Target) covers(tps []broker.TopicPartition) error {
	if t.Kind != FromFile {
		return nil
	}
	var without, strange []string
	for _, tp := range tps {
		if _, ok := t.File[tp]; !ok {
			without = append(without, fmt.Sprintf("%s-%d", tp.Topic, tp.Partition))
		}
	}
	for tp := range t.File {
		if !slices.Contains(tps, tp) {
			strange = append(strange, fmt.Sprintf("%s-%d", tp.Topic, tp.Partition))
		}
	}
	slices.Sort(strange)
	switch {
	case len(strange) > 0:
		return fmt.Errorf("millrace: reset: the file of offsets names %s, which is no partition of an input topic; name the topic with --input-topics, or take the line out", strings.Join(strange, ", "))
	case len(without) > 0:
		return fmt.Errorf("millrace: reset: the file of offsets has no line for %s", strings.Join(without, ", "))
	}
	return nil
}

// ParseFile reads offsets, one "topic,partition,offset" a line, as kafka-consumer-groups.sh exports them for one group. Blank
// lines are skipped.
func ParseFile(r io.Reader) (map[broker.TopicPartition]int64, error) {
	out := make(map[broker.TopicPartition]int64)
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" {
			continue
		}
		f := strings.Split(line, ",")
		for i := range f {
			f[i] = strings.Trim(strings.TrimSpace(f[i]), `"`)
		}
		if len(f) != 3 || f[0] == "" {
			return nil, fmt.Errorf("line %d, %q: topic,partition,offset is needed", n, line)
		}
		p, err := strconv.ParseInt(f[1], 10, 32)
		if err != nil || p < 0 {
			return nil, fmt.Errorf("line %d, %q: %q is no partition", n, line, f[1])
		}
		o, err := strconv.ParseInt(f[2], 10, 64)
		if err != nil || o < 0 {
			return nil, fmt.Errorf("line %d, %q: %q is no offset", n, line, f[2])
		}
		tp := broker.TopicPartition{Topic: f[0], Partition: int32(p)}
		if _, ok := out[tp]; ok {
			return nil, fmt.Errorf("line %d: %s-%d is there twice", n, tp.Topic, tp.Partition)
		}
		out[tp] = o
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("it holds no line topic,partition,offset")
	}
	return out, nil
}

// ParseTime reads a time as Kafka's tools write it, 2026-11-01T08:30:00.000, in UTC if it has no zone (Z, +02, +0200,
// +02:00). Seconds, and their fraction, may be left out.
func ParseTime(s string) (time.Time, error) {
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04"} {
		for _, zone := range []string{"", "Z07:00", "Z0700", "Z07"} {
			if t, err := time.Parse(layout+zone, s); err == nil {
				return t, nil
			}
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time such as 2026-11-01T08:30:00.000 (UTC) or 2026-11-01T08:30:00+01:00", s)
}

// ParseSpan reads how far back in time to go, as ISO 8601 (PT1H30M, P2D) or as Go writes it (1h30m).
func ParseSpan(s string) (time.Duration, error) {
	d, err := config.ParseISODuration(s)
	if err != nil {
		if d, err = time.ParseDuration(s); err != nil {
			return 0, fmt.Errorf("%q is no span such as PT1H30M, P2D or 90m", s)
		}
	}
	if d < 0 {
		return 0, fmt.Errorf("%q: a span of 0 or more is needed, which is gone back from now", s)
	}
	return d, nil
}
