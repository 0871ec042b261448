package milltest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// countIn counts the records of the topic in by key and window, into the store counts, the topic out and the topic late.
func countIn(t *testing.T, w window.Windows, stepOpts []millrace.StepOption, opts ...milltest.Option) (d *milltest.Driver, out, late func() string) {
	t.Helper()
	b := millrace.NewBuilder()
	counts, missed := millrace.CountWindows(millrace.From(b, strTopic).GroupByKey().WindowBy(w), append(stepOpts, millrace.As("counts"))...)
	outTopic := millrace.NewTopic("out", serde.WindowedBy(serde.String, w), serde.Int64)
	counts.ToStream().To(outTopic)
	lateTopic := millrace.NewTopic("late", serde.String, serde.JSON[window.Late[string]]())
	missed.To(lateTopic)
	d = milltest.New(t, build(t, b), opts...)
	lateOut := milltest.Output(d, lateTopic)
	return d, reader(d, outTopic), func() string {
		var text []string
		for _, r := range lateOut.ReadAll() {
			text = append(text, fmt.Sprintf("%s=%s@%d observed=%d missed=%v accepted=%v", r.Key, r.Value.Value, r.TimestampMs, r.Value.ObservedTimeMs, r.Value.Missed, r.Value.Accepted))
		}
		return strings.Join(text, "; ")
	}
}

// everyStore runs a test over stores in memory and on disk, with and without a changelog.
func everyStore(t *testing.T, test func(t *testing.T, stepOpts []millrace.StepOption, opts ...milltest.Option)) {
	for _, c := range []struct {
		name string
		step []millrace.StepOption
		opts []milltest.Option
	}{
		{"driver", nil, nil},
		{"on disk", nil, []milltest.Option{milltest.OnDisk()}},
		{"in memory", []millrace.StepOption{millrace.InMemory()}, []milltest.Option{milltest.OnDisk()}},
		{"without a changelog", []millrace.StepOption{millrace.WithoutLog()}, []milltest.Option{milltest.OnDisk()}},
		{"without a read cache", nil, []milltest.Option{milltest.OnDisk(), milltest.ReadCacheBytes(0)}},
	} {
		t.Run(c.name, func(t *testing.T) { test(t, c.step, c.opts...) })
	}
}

func TestC004_SlidingWindowForEarlyRecords(t *testing.T) {
	everyStore(t, func(t *testing.T, stepOpts []millrace.StepOption, opts ...milltest.Option) {
		d, out, _ := countIn(t, window.Sliding(10*ms).Grace(100*ms), stepOpts, opts...)
		steps{
			{"in", "s=a@3", "s[0,10)=1@3"},
			{"in", "s=a@8", "s[4,14)=1@8 s[0,10)=2@8"},
			{"in", "s=a@12", "s[4,14)=2@12 s[9,19)=1@12 s[2,12)=3@12"},
			{"in", "s=a@25", "s[15,25)=1@25"},
		}.run(t, d, out)
	})
}

func TestC012_SlidingWindowsSkipNullValues(t *testing.T) {
	d, out, _ := countIn(t, window.Sliding(5*ms).Grace(100*ms), nil)
	steps{
		{"in", "k=a@1", "k[0,5)=1@1"},
		{"in", "k=~@3", ""},
		{"in", "~=b@3", ""},
		{"in", "k=c@40", "k[35,40)=1@40"},
	}.run(t, d, out)
	wantDropped(t, d, "counts", millrace.DroppedNullValue, 1)
	wantDropped(t, d, "counts", millrace.DroppedNullKey, 1)
}

func TestSliding_orderAndLateRecords(t *testing.T) {
	everyStore(t, func(t *testing.T, stepOpts []millrace.StepOption, opts ...milltest.Option) {
		d, out, late := countIn(t, window.Sliding(5*ms), stepOpts, opts...)
		steps{
			{"in", "k=a@10", "k[5,10)=1@10"},
			{"in", "k=b@12", "k[11,16)=1@12 k[7,12)=2@12"},
			{"in", "k=c@11", "k[11,16)=2@12 k[7,12)=3@12 k[12,17)=1@12"},
			{"in", "k=d@20", "k[15,20)=1@20"},
			{"in", "k=e@13", ""},
		}.run(t, d, out)
		wantText(t, "late", late(), "k=c@11 observed=12 missed=[{6 11}] accepted=true; k=e@13 observed=20 missed=[{8 13}] accepted=false")
		wantDropped(t, d, "counts", millrace.DroppedLate, 2)
	})
}

// A window of a difference of 0 that ends just the grace before the latest record is still open: it is not hidden by its store,
// and its result comes when it closes.
func TestSliding_noDifference(t *testing.T) {
	everyStore(t, func(t *testing.T, stepOpts []millrace.StepOption, opts ...milltest.Option) {
		for _, c := range []struct {
			grace int64
			steps steps
			close bool
		}{
			{5, steps{
				{"in", "k=a@10", "k[10,10)=1@10"},
				{"in", "k=b@15", "k[15,15)=1@15"},
				{"in", "k=c@10", "k[10,10)=2@10"},
				{"in", "k=d@11", "k[11,11)=1@11"},
				{"in", "k=e@16", "k[16,16)=1@16"},
				{"in", "k=f@10", ""},
			}, false},
			{5, steps{
				{"in", "k=a@10", ""}, {"in", "k=b@15", ""}, {"in", "k=c@10", ""},
				{"in", "k=e@16", "k[10,10)=2@10"},
				{"in", "k=f@10", ""},
				{"in", "k=g@21", "k[15,15)=1@15"},
			}, true},
			{0, steps{{"in", "k=a@10", ""}, {"in", "k=b@10", ""}, {"in", "k=c@11", "k[10,10)=2@10"}, {"in", "k=d@30", "k[11,11)=1@11"}}, true},
		} {
			own := stepOpts
			if c.close {
				own = append(slices.Clone(stepOpts), millrace.EmitOnClose())
			}
			d, out, _ := countIn(t, window.Sliding(0).Grace(time.Duration(c.grace)*ms), own, opts...)
			c.steps.run(t, d, out)
		}
	})
}
