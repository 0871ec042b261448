package integration_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// One instance meets a record that it cannot process, and its policy stops the application: all three instances end, the two others
// with an error that says who has asked for it and why, and leave the group at once.
func TestStopApplication(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		app := b.Name("stopped")
		in, out := kafkatest.CreateTopic(t, b, "in", 6), kafkatest.CreateTopic(t, b, "out", 6)
		errBad := errors.New("no such customer")
		begin := func() *running {
			bld := millrace.NewBuilder()
			millrace.TryMapValues(millrace.From(bld, texts(in)), func(_ context.Context, v string) (string, error) {
				if v == "bad" {
					return "", errBad
				}
				return v, nil
			}, millrace.As("find")).To(texts(out))
			return start(t, b, app, buildTopology(t, bld), millrace.CommitInterval(50*time.Millisecond), millrace.OnUncaughtError(func(u millrace.UncaughtError) millrace.UncaughtAction {
				if u.Times < 3 {
					return millrace.ReplaceTask
				}
				return millrace.StopApplication
			}))
		}
		var all []*running
		for range 3 {
			all = append(all, begin())
		}
		for i, r := range all {
			r.until(fmt.Sprint("instance ", i, " has its share"), func() bool { return runningTasks(r.app) == 2 })
		}
		kafkatest.Load(t, b, in, numbered("good", 60)...)
		for _, r := range all {
			r.untilDone()
		}
		kafkatest.LoadPartition(t, b, in, 4, record("k", "bad", time.Now()))
		asked := 0
		for i, r := range all {
			err := r.fails()
			switch {
			case errors.Is(err, millrace.ErrApplicationStopped):
				says(t, err, errBad.Error(), "step find", "member ", in+"-4@")
			case errors.Is(err, errBad):
				asked++
			default:
				t.Errorf("instance %d ended with %v", i, err)
			}
			if n := strings.Count(err.Error(), "millrace: "); n != 1 {
				t.Errorf("%d times the prefix: %v", n, err)
			}
		}
		if asked != 1 {
			t.Errorf("%d instances have asked", asked)
		}
		if n := len(kafkatest.ReadAll(t, b, out, kafkatest.Committed)); n != 60 {
			t.Errorf("%d results, want 60", n)
		}
	})
}
