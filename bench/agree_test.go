// Package bench_test checks that the sides of the benchmark do the same work: what they write must be what a plain model
// of the scenario gives, before it makes sense to ask which of them is faster.
package bench_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-io/millrace/bench/internal/bare"
	"github.com/millrace-io/millrace/bench/internal/data"
	"github.com/millrace-io/millrace/bench/internal/side"
	"github.com/millrace-io/millrace/bench/java"
	"github.com/millrace-io/millrace/bench/millraceside"
	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

func TestMain(m *testing.M) { kafkatest.Main(m) }

// Enough records that every key is counted several times and that three windows come and go: the set's keys are few, and
// the input is thinned out so that it spans minutes.
const (
	records = 3000
	thinned = 200
	keys    = 50
	cache   = 10 << 20
)

func input() []*kgo.Record {
	set := data.Set{Keys: keys, ValueBytes: 20}
	var out []*kgo.Record
	for i := range int64(records) {
		out = append(out, set.Record(i*thinned))
	}
	return out
}

func table() []*kgo.Record {
	return slices.Collect(data.Set{Keys: keys, ValueBytes: 20}.Table())
}

// runner starts a side and returns when it runs; the test's end ends it.
type runner func(t *testing.T, c side.Config)

// inProcess runs a side that is written in Go.
func inProcess(s side.Side) runner {
	return func(t *testing.T, c side.Config) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		var p side.Progress
		go func() { done <- s.Run(ctx, c, &p) }()
		t.Cleanup(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			if got := p.Total(); got != records {
				t.Errorf("%d records were counted, want %d", got, records)
			}
		})
	}
}

func asJava(t *testing.T, c side.Config) {
	command, err := java.Command(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var stderr, stdout bytes.Buffer
	cmd := exec.Command(command[0], append(command[1:], c.Args()...)...)
	cmd.Stderr, cmd.Stdout = &stderr, &stdout
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close() // ends it
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v\n%s", err, stderr.String())
		}
		lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
		if r, ok := side.ParseReading(lines[len(lines)-1]); !ok || r.Records != records {
			t.Errorf("last line of progress %q, want %d records", lines[len(lines)-1], records)
		}
	})
}

func TestSidesDoTheSameWork(t *testing.T) {
	sides := map[string]runner{"bare": inProcess(bare.Side{})}
	if s := millraceside.New(); s != nil {
		sides["millrace"] = inProcess(s)
	}
	t.Run("embedded", func(t *testing.T) {
		b := kafkatest.Embedded(t)
		for name, run := range sides {
			t.Run(name, func(t *testing.T) { agree(t, b, name, run) })
		}
	})
	t.Run("kafka", func(t *testing.T) {
		b := kafkatest.Shared(t)
		sides["java"] = asJava
		for name, run := range sides {
			t.Run(name, func(t *testing.T) { agree(t, b, name, run) })
		}
	})
}

// agree runs every scenario under both guarantees.
func agree(t *testing.T, b kafkatest.Broker, name string, run runner) {
	in := kafkatest.CreateTopic(t, b, name+"-input", 2)
	rows := kafkatest.CreateTopic(t, b, name+"-table", 2)
	kafkatest.Load(t, b, in, input()...)
	kafkatest.Load(t, b, rows, table()...)
	for _, scenario := range side.Scenarios() {
		for _, guarantee := range []string{side.AtLeastOnce, side.ExactlyOnce} {
			if name == "java" && guarantee == side.ExactlyOnce && scenario != side.Count {
				continue // one is enough to see that the setting arrives: each costs a start of a JVM
			}
			t.Run(string(scenario)+"/"+guarantee, func(t *testing.T) {
				c := side.Config{
					Scenario: scenario, Guarantee: guarantee, Brokers: b.Bootstrap(), AppID: b.Name(name + "-" + string(scenario) + "-" + guarantee),
					Input: in, Table: rows, CommitInterval: 100 * time.Millisecond, CacheBytes: cache, Threads: 2, StateDir: t.TempDir(),
				}
				if scenario == side.CountNoCache {
					c.CacheBytes = 0
				}
				c.Output = kafkatest.CreateTopic(t, b, name+"-"+string(scenario)+"-"+guarantee+"-output", 2)
				run(t, c)
				check(t, b, c)
			})
		}
	}
}

// check waits for the output that the model gives, and compares the changelog too.
func check(t *testing.T, b kafkatest.Broker, c side.Config) {
	t.Helper()
	var got, want []string
	m := modelOf(c.Scenario)
	kafkatest.ReadUntil(t, b, c.Output, kafkatest.Committed, func(out []*kgo.Record) bool {
		got, want = m.view(out), m.output
		return slices.Equal(got, want) || len(out) > 2*records
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("output (-want +got):\n%s", diff)
	}
	if c.Scenario.StoreName() == "" {
		return
	}
	changelog := c.AppID + "-" + c.Scenario.StoreName() + "-changelog"
	kafkatest.ReadUntil(t, b, changelog, kafkatest.Committed, func(out []*kgo.Record) bool {
		got = latest(out)
		return slices.Equal(got, m.changelog) || len(out) > 2*records
	})
	if diff := cmp.Diff(m.changelog, got); diff != "" {
		t.Errorf("changelog (-want +got):\n%s", diff)
	}
}

// model is what a scenario must give: its output as view shows it, and the newest value of each key of its changelog.
type model struct {
	view      func([]*kgo.Record) []string
	output    []string
	changelog []string
}

func line(key, value []byte) string { return fmt.Sprintf("%q=%q", key, value) }

// all is every record, in an order of its own.
func all(records []*kgo.Record) []string {
	out := make([]string, 0, len(records))
	for _, r := range records {
		out = append(out, line(r.Key, r.Value)+"@"+fmt.Sprint(r.Timestamp.UnixMilli()))
	}
	slices.Sort(out)
	return out
}

// latest is the newest value of each key that is not deleted.
func latest(records []*kgo.Record) []string {
	newest := make(map[string][]byte)
	for _, r := range records {
		newest[string(r.Key)] = r.Value
	}
	out := make([]string, 0, len(newest))
	for k, v := range newest {
		if v != nil {
			out = append(out, line([]byte(k), v))
		}
	}
	slices.Sort(out)
	return out
}

func modelOf(s side.Scenario) model {
	switch s {
	case side.FilterMap:
		var out []*kgo.Record
		for _, r := range input() {
			if r.Key[len(r.Key)-1] != '9' {
				r.Value[0] = 'M'
				out = append(out, r)
			}
		}
		return model{view: all, output: all(out)}
	case side.StreamTableJoin:
		rows := make(map[string][]byte)
		for _, r := range table() {
			rows[string(r.Key)] = r.Value
		}
		var out []*kgo.Record
		for _, r := range input() {
			r.Value = append(slices.Clone(rows[string(r.Key)][:8]), r.Value[8:]...)
			out = append(out, r)
		}
		return model{view: all, output: all(out), changelog: latest(table())}
	case side.CountNoCache:
		// Every single count is there, not only the last.
		counts := make(map[string]uint64)
		var out []*kgo.Record
		newest := make(map[string]int64)
		for _, r := range input() {
			k := string(r.Key)
			counts[k]++
			newest[k] = max(newest[k], r.Timestamp.UnixMilli())
			out = append(out, &kgo.Record{Key: r.Key, Value: number(counts[k]), Timestamp: time.UnixMilli(newest[k])})
		}
		return model{view: all, output: all(out), changelog: latest(out)}
	case side.GroupCount:
		return countModel(func(r *kgo.Record) []byte { return r.Key[:11] })
	case side.TumblingCount:
		return windowModel(time.Minute)
	case side.HoppingCount:
		return windowModel(20 * time.Second)
	case side.SessionCount:
		return sessionModel()
	}
	return countModel(func(r *kgo.Record) []byte { return r.Key })
}

// countModel counts by a key.
func countModel(by func(*kgo.Record) []byte) model {
	counts := make(map[string]uint64)
	var out []*kgo.Record
	for _, r := range input() {
		key := by(r)
		counts[string(key)]++
		out = append(out, &kgo.Record{Key: key, Value: number(counts[string(key)])})
	}
	return model{view: latest, output: latest(out), changelog: latest(out)}
}

// windowModel counts by key and windows of a minute. The input is in order of time, so that nothing is late.
func windowModel(advance time.Duration) model {
	counts := make(map[string]uint64)
	var out, logged []*kgo.Record
	for _, r := range input() {
		for start := r.Timestamp.Truncate(advance); r.Timestamp.Sub(start) < time.Minute; start = start.Add(-advance) {
			key := binary.BigEndian.AppendUint64(slices.Clone(r.Key), uint64(start.UnixMilli()))
			counts[string(key)]++
			value := number(counts[string(key)])
			out = append(out, &kgo.Record{Key: key, Value: value})
			logged = append(logged, &kgo.Record{Key: append(slices.Clone(key), 0, 0, 0, 0), Value: value})
		}
	}
	return model{view: latest, output: latest(out), changelog: latest(logged)}
}

// sessionModel counts by key and session, of which there are several for some keys.
func sessionModel() model {
	type session struct{ start, end, count int64 }
	byKey := make(map[string][]session)
	for _, r := range input() {
		at, of := r.Timestamp.UnixMilli(), byKey[string(r.Key)]
		if n := len(of); n > 0 && at-of[n-1].end <= 10_000 {
			of[n-1].end = at
			of[n-1].count++
		} else {
			of = append(of, session{at, at, 1})
		}
		byKey[string(r.Key)] = of
	}
	var out []*kgo.Record
	for key, of := range byKey {
		for _, s := range of {
			k := binary.BigEndian.AppendUint64([]byte(key), uint64(s.end))
			out = append(out, &kgo.Record{Key: binary.BigEndian.AppendUint64(k, uint64(s.start)), Value: number(uint64(s.count))})
		}
	}
	return model{view: latest, output: latest(out), changelog: latest(out)}
}

func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
