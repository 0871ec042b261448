package integration_test

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/processor"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// With both topics filled before the start, the record with the smallest timestamp goes first, whichever topic was filled
// first.
func TestC042_SmallestTimestampFirst(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		for run := range 20 {
			tableFirst := run%2 == 0
			t.Run(fmt.Sprintf("run %d, table first %v", run/2, tableFirst), func(t *testing.T) {
				t.Parallel()
				topic := func(base string) string {
					return kafkatest.CreateTopic(t, b, fmt.Sprint(base, "-", run), 1)
				}
				stream, table, out := topic("s"), topic("t"), topic("out")
				var s, rows []*kgo.Record
				for ts := int64(10); ts <= 50; ts += 10 {
					s = append(s, at("k", fmt.Sprint("s", ts), ts))
					rows = append(rows, at("k", fmt.Sprint("t", ts-5), ts-5))
				}
				if tableFirst {
					kafkatest.Load(t, b, table, rows...)
				}
				kafkatest.Load(t, b, stream, s...)
				if !tableFirst {
					kafkatest.Load(t, b, table, rows...)
				}
				bld := millrace.NewBuilder()
				tab := millrace.TableFrom(bld, texts(table), millrace.As("table"))
				millrace.JoinTable(millrace.From(bld, texts(stream)), tab, func(s, r string) string { return s + "," + r }).To(texts(out))
				r := start(t, b, b.Name(fmt.Sprint("c042-", run)), buildTopology(t, bld))
				got := readN(t, b, out, 5)
				r.stop()
				equal(t, "joined", shown(got), "k=s10,t5 k=s20,t15 k=s30,t25 k=s40,t35 k=s50,t45")
			})
		}
	})
}

// A window that has closed stays closed, under both guarantees: after a clean stop, with the state or without, after a SIGKILL,
// and when its task moves. Which time a late record is held against is a matter of what has been committed.
func TestC013_AClosedWindowStaysClosed(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		for _, c := range []struct {
			name     string
			end      func(*c013)
			keepsDir bool
		}{
			{"stopped", (*c013).stopped, true},
			{"stopped, state lost", (*c013).stopped, false},
			{"killed", (*c013).killed, true},
			{"killed, state lost", (*c013).killed, false},
			{"moved", (*c013).moved, false},
		} {
			t.Run(c.name, func(t *testing.T) {
				underBoth(t, b, func(t *testing.T, b kafkatest.Broker, _ millrace.AppOption, exactly bool) {
					w := &c013{t: t, b: b, app: b.Name("c013"), dir: filepath.Join(t.TempDir(), "state")}
					w.topics = childTopics{In: kafkatest.CreateTopic(t, b, "in", 1), Out: kafkatest.CreateTopic(t, b, "out", 1), Late: kafkatest.CreateTopic(t, b, "late", 1)}
					// The place of a killed process is kept for a short time only, and the old windows in the changelog.
					w.settings = c013Settings()
					if exactly {
						w.settings["processing.guarantee"] = "exactly_once_v2"
					}
					kafkatest.Load(t, b, w.topics.In, at("a", "x", 1), at("b", "x", 100))
					c.end(w)
					if !c.keepsDir {
						w.dir = filepath.Join(t.TempDir(), "other")
					}
					late := func() {
						kafkatest.Load(t, b, w.topics.In, at("a", "late 2", 2), at("b", "x", 101), at("a", "late 3", 3))
					}
					if w.first == nil {
						late()
					}
					r := w.start()
					if w.first != nil {
						w.first.stop()
						r.until("the task has moved", func() bool { return runningTasks(r.app) == 1 })
						late()
					}
					awaitCommitted(t, b, w.app, w.topics.In, 5)
					r.stop()
					equal(t, "counts", shownWindows(kafkatest.ReadStable(t, b, w.topics.Out)), "a=1 b=1 b=2")
					equal(t, "late", shown(kafkatest.ReadStable(t, b, w.topics.Late)), "a=late 2 a=late 3")
					equal(t, "drops", drops(r), "counts late 2")
					if m := kafkatest.GroupOffsets(t, b, w.app)[w.topics.In][0].Metadata; !strings.HasPrefix(m, "AgAAAAAAAABl") {
						t.Errorf("the committed metadata %q does not say 101", m)
					}
				})
			})
		}
	})
}

// c013 is an application that counts in windows.
type c013 struct {
	t        *testing.T
	b        kafkatest.Broker
	app, dir string
	topics   childTopics
	settings map[string]string
	first    *running // it runs on, for its task to move
}

func (w *c013) start() *running {
	w.t.Helper()
	return startKind(w.t, w.b, w.app, "window", w.topics, millrace.StateDir(w.dir), millrace.FromProperties(w.settings))
}

// stopped has two records processed and committed, and stops.
func (w *c013) stopped() {
	r := w.start()
	awaitCommitted(w.t, w.b, w.app, w.topics.In, 2)
	r.stop()
}

// moved is stopped with the end to come when another instance has joined.
func (w *c013) moved() {
	w.first = w.start()
	awaitCommitted(w.t, w.b, w.app, w.topics.In, 2)
}

// killed is stopped with SIGKILL for the end.
func (w *c013) killed() {
	c := startChild(w.t, "killed", childSpec{Topology: "window", Topics: w.topics, Settings: kafkatest.Merge(w.settings, map[string]string{
		"application.id": w.app, "bootstrap.servers": strings.Join(w.b.Bootstrap(), ","), "state.dir": w.dir, "session.timeout.ms": shortSession,
	})})
	awaitCommitted(w.t, w.b, w.app, w.topics.In, 2)
	c.Kill()
}

// A process that dies before it commits leaves a changelog that is ahead of its offsets. What is then processed again is not
// late: observed time stands for an offset.
func TestC013_KilledBeforeACommit(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		for i, keepsDir := range []bool{true, false} {
			t.Run(fmt.Sprint("state kept ", keepsDir), func(t *testing.T) {
				t.Parallel()
				app := b.Name(fmt.Sprint("c013-", i))
				topics := childTopics{
					In:   kafkatest.CreateTopic(t, b, fmt.Sprint("in-", i), 1),
					Out:  kafkatest.CreateTopic(t, b, fmt.Sprint("out-", i), 1),
					Late: kafkatest.CreateTopic(t, b, fmt.Sprint("late-", i), 1),
				}
				dir := filepath.Join(t.TempDir(), "state")
				kafkatest.Load(t, b, topics.In, at("a", "x", 1), at("b", "x", 100))
				c := startChild(t, "killed", childSpec{Topology: "window", Topics: topics, Settings: kafkatest.Merge(c013Settings(), map[string]string{
					"application.id": app, "bootstrap.servers": strings.Join(b.Bootstrap(), ","), "state.dir": dir, "commit.interval.ms": "60000",
					"session.timeout.ms": shortSession,
				})})
				readN(t, b, topics.Out, 2)
				c.Kill()
				if o := kafkatest.GroupOffsets(t, b, app); len(o) != 0 {
					t.Fatalf("committed before the time: %v", o)
				}
				if !keepsDir {
					dir = filepath.Join(t.TempDir(), "other")
				}
				kafkatest.Load(t, b, topics.In, at("a", "late 2", 2), at("b", "x", 101), at("a", "late 3", 3))
				r := startKind(t, b, app, "window", topics, millrace.StateDir(dir), millrace.FromProperties(c013Settings()))
				awaitCommitted(t, b, app, topics.In, 5)
				r.stop()
				// All was counted and nothing committed, so all is counted again.
				equal(t, "counts", shownWindows(kafkatest.ReadAll(t, b, topics.Out, kafkatest.Committed)), "a=1 b=1 a=2 b=2 b=3")
				equal(t, "late", shown(kafkatest.ReadAll(t, b, topics.Late, kafkatest.Committed)), "a=late 2 a=late 3")
			})
		}
	})
}

// shownWindows prints counts of windows by their key, of one character.
func shownWindows(records []*kgo.Record) string {
	var out []string
	for _, r := range records {
		out = append(out, fmt.Sprintf("%s=%d", r.Key[:1], r.Value[7]))
	}
	return strings.Join(out, " ")
}

// c013Settings keep the place of a killed process for a short time only, and the old windows in the changelog.
func c013Settings() map[string]string {
	return map[string]string{
		"session.timeout.ms":                            "2000",
		"windowstore.changelog.additional.retention.ms": fmt.Sprint(int64(1) << 60),
	}
}

// Skipped records move the committed offset, and no time.
func TestC108_InvalidTimestamps(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		app := b.Name("c108")
		in, out := kafkatest.CreateTopic(t, b, "in", 1), kafkatest.CreateTopic(t, b, "out", 1)
		bld := millrace.NewBuilder()
		millrace.From(bld, texts(in), millrace.NodeName("source"), millrace.Timestamps(
			func(r processor.Record[string, string], _ processor.Metadata, _ int64) (int64, error) {
				if r.Value == "bad" {
					return -1, nil
				}
				return r.TimestampMs, nil
			})).To(texts(out))
		kafkatest.Load(t, b, in, at("k", "ok", 5), at("k", "bad", 6), at("k", "bad", 7))
		r := start(t, b, app, buildTopology(t, bld))
		r.untilDone()
		r.stop()
		equal(t, "out", shown(kafkatest.ReadAll(t, b, out, kafkatest.Committed)), "k=ok")
		o := kafkatest.GroupOffsets(t, b, app)[in][0]
		if o.At != 3 {
			t.Errorf("the committed offset is %d, want 3", o.At)
		}
		equal(t, "partition time", o.Metadata, base64.StdEncoding.EncodeToString(append([]byte{2}, bytes8(5)...)))
		equal(t, "drops", drops(r), "source negative-timestamp 2")
	})
}
