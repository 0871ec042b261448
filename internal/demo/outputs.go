package demo

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Output is one record of a derived topic.
type Output struct {
	Topic     string
	Partition int32
	Offset    int64
	Key       *string   // nil: null
	Start     time.Time // of the window or session; zero where the topic has none
	End       time.Time // of the window, exclusive, or of the session, inclusive
	Value     []byte    // JSON; nil: a deletion
	Time      time.Time
}

// Windowed says that the output's key has a window or a session.
func (o Output) Windowed() bool { return !o.Start.IsZero() }

// decodeOutput reads a record of a derived topic. A windowed key is the key's bytes and the window's start in milliseconds,
// eight bytes, most significant first, as Kafka Streams writes it; that of a session has its end before its start.
func decodeOutput(d Derived, r *kgo.Record) (Output, error) {
	o := Output{Topic: d.Name, Partition: r.Partition, Offset: r.Offset, Value: r.Value, Time: r.Timestamp.UTC()}
	bad := func(format string, args ...any) (Output, error) {
		return Output{}, fmt.Errorf("millrace: demo: topic %s, partition %d, offset %d: %s; another program wrote to this topic: "+
			"delete it, or use another cluster", d.Name, r.Partition, r.Offset, fmt.Sprintf(format, args...))
	}
	if r.Value != nil && !json.Valid(r.Value) {
		return bad("value %q is not JSON", r.Value)
	}
	key := r.Key
	const timeBytes = 8
	times := int(d.Keys) // of an hour its start, of a session its end and its start
	n := len(key) - times*timeBytes
	if n < 0 {
		return bad("key of %d bytes holds no window", len(key))
	}
	at := func(i int) time.Time {
		return time.UnixMilli(int64(binary.BigEndian.Uint64(key[n+i*timeBytes:]))).UTC()
	}
	switch d.Keys {
	case HourKeys:
		o.Start = at(0)
		o.End = o.Start.Add(WindowSize)
	case SessionKeys:
		o.End, o.Start = at(0), at(1)
	}
	if times > 0 {
		key = key[:n]
	}
	if key != nil {
		s := string(key)
		o.Key = &s
	}
	return o, nil
}

// decodeValue reads an output's value.
func decodeValue[T any](o Output) (T, error) {
	var v T
	if err := json.Unmarshal(o.Value, &v); err != nil {
		return v, fmt.Errorf("millrace: demo: topic %s, partition %d, offset %d: value %s: %w", o.Topic, o.Partition, o.Offset,
			o.Value, err)
	}
	return v, nil
}

// line is an output as it stands in a .jsonl file, in this order of fields.
type line struct {
	Key         *string         `json:"key"`
	WindowStart *time.Time      `json:"window_start,omitempty"`
	WindowEnd   *time.Time      `json:"window_end,omitempty"`
	Value       json.RawMessage `json:"value"`
	Timestamp   time.Time       `json:"timestamp"`
}

func (o Output) line() line {
	l := line{Key: o.Key, Value: o.Value, Timestamp: o.Time} // a nil RawMessage is null
	if o.Windowed() {
		l.WindowStart, l.WindowEnd = &o.Start, &o.End
	}
	return l
}

// readTopic reads a derived topic from its start to the end that it has now, partition by partition.
func readTopic(ctx context.Context, client *kgo.Client, brokers []string, d Derived, fn func(Output) error) error {
	admin := kadm.NewClient(client)
	starts, err := admin.ListStartOffsets(ctx, d.Name)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return fmt.Errorf("millrace: demo: cannot read the start offsets of %s: %w", d.Name, err)
	}
	ends, err := admin.ListCommittedOffsets(ctx, d.Name)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("millrace: demo: cannot read the end offsets of %s: %w", d.Name, err)
	}
	for p := int32(0); ; p++ {
		end, ok := ends.Lookup(d.Name, p)
		if !ok {
			return nil
		}
		start, _ := starts.Lookup(d.Name, p)
		err := readFrom(ctx, brokers, d.Name, p, start.Offset, end.Offset, func(r *kgo.Record) error {
			o, err := decodeOutput(d, r)
			if err != nil {
				return err
			}
			return fn(o)
		})
		if err != nil {
			return err
		}
	}
}

// Totals is what the derived topics hold.
type Totals struct {
	Records map[string]int64 // by topic
	Counted int64            // sum of the last counts of departures-by-hour
	Late    int64            // records in departures-late
}

// ReadOutputs reads the derived topics from their starts to their present ends and, if dir is not empty, writes each to
// dir/TOPIC.jsonl: one record a line, by partition and then offset. A file appears when it is whole.
func ReadOutputs(ctx context.Context, client *kgo.Client, brokers []string, dir string) (Totals, error) {
	totals := Totals{Records: map[string]int64{}}
	if dir != "" {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return totals, fmt.Errorf("millrace: demo: cannot make the output directory: %w; check --out", err)
		}
	}
	type window struct {
		key   string
		start time.Time
	}
	counts := map[window]int64{}
	for _, d := range DerivedTopics() {
		totals.Records[d.Name] = 0
		write := func(line) error { return nil }
		var file *outFile
		if dir != "" {
			var err error
			if file, err = newOutFile(filepath.Join(dir, d.Name+".jsonl")); err != nil {
				return totals, err
			}
			write = file.write
		}
		err := readTopic(ctx, client, brokers, d, func(o Output) error {
			totals.Records[d.Name]++
			switch {
			case d.Name == DeparturesLateTopic:
				totals.Late++
			case d.Name == DeparturesByHourTopic && o.Key != nil:
				w := window{*o.Key, o.Start}
				if o.Value == nil {
					delete(counts, w)
					break
				}
				v, err := decodeValue[HourStats](o)
				if err != nil {
					return err
				}
				counts[w] = v.Count
			}
			return write(o.line())
		})
		if file != nil {
			err = file.finish(err)
		}
		if err != nil {
			return totals, err
		}
	}
	for _, n := range counts {
		totals.Counted += n
	}
	return totals, nil
}

// outFile is a file of JSON lines that gets its name when it is whole.
type outFile struct {
	path string
	f    *os.File
	w    *bufio.Writer
	enc  *json.Encoder
}

func newOutFile(path string) (*outFile, error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return nil, fmt.Errorf("millrace: demo: cannot write %s: %w", path, err)
	}
	o := &outFile{path: path, f: f, w: bufio.NewWriterSize(f, 1<<16)}
	o.enc = newEncoder(o.w)
	return o, nil
}

func newEncoder(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc
}

func (o *outFile) write(v line) error {
	if err := o.enc.Encode(v); err != nil {
		return fmt.Errorf("millrace: demo: cannot write %s: %w", o.path, err)
	}
	return nil
}

// finish names the file if err is nil and removes it otherwise.
func (o *outFile) finish(err error) error {
	failed := err != nil
	if !failed {
		err = errors.Join(o.w.Flush(), o.f.Chmod(0o644))
	}
	err = errors.Join(err, o.f.Close())
	if err == nil {
		err = os.Rename(o.f.Name(), o.path)
	}
	if err != nil {
		_ = os.Remove(o.f.Name()) // the first error is the one to tell
		if !failed {
			err = fmt.Errorf("millrace: demo: cannot write %s: %w", o.path, err)
		}
	}
	return err
}
