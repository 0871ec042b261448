package milltest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/store"
	"github.com/millrace-io/millrace/window"
)

var seenStore = millrace.NewKeyValueStore("seen", serde.String, serde.Int64)

// counting gives each row the number of its updates beside its value, from a store; a deletion makes a row too, as long as
// the row is new.
type counting struct {
	ctx  processor.TableContext
	seen store.KeyValue[string, int64]
}

func newCounting() *counting { return new(counting) }

func (c *counting) Init(ctx processor.TableContext) (err error) {
	c.ctx = ctx
	c.seen, err = seenStore.From(ctx)
	return err
}

func (c *counting) Value(k, v string, ok bool) (string, bool, error) {
	n, _, err := c.seen.Get(k)
	if err != nil {
		return "", false, err
	}
	n++
	ts, headers := c.ctx.Row()
	if err := c.seen.Put(k, n); err != nil {
		return "", false, err
	}
	return fmt.Sprintf("%s%d:%d:%d", v, n, ts, len(headers)), ok || n == 1, nil
}

func (c *counting) Close() error { return nil }

func TestProcessTableValues_withAStore(t *testing.T) {
	b := millrace.NewBuilder()
	counted := millrace.ProcessTableValues(textTable(b, "A"), newCounting, millrace.As("counted"), textValue, millrace.WithStores(seenStore))
	history(groupTexts(counted, func(_, v string) (string, string) { return "g", v }), millrace.As("history")).ToStream().To(outTopic)
	d := milltest.New(t, build(t, b), milltest.CacheBytes(0))
	steps{
		{"A", "k=~@1", "g=+1:1:0@1"}, // asked for deletions too
		{"A", "k=a@2", "g=+1:1:0-1:1:0+a2:2:0@2"},
		{"A", "k=b@3", "g=+1:1:0-1:1:0+a2:2:0-a2:2:0+b3:3:0@3"},
		{"A", "k=~@4", "g=+1:1:0-1:1:0+a2:2:0-a2:2:0+b3:3:0-b3:3:0@4"},
		{"A", "k=~@5", ""},
	}.run(t, d, reader(d, outTopic))
	if v, ok, err := milltest.KeyValue[string, int64](d, "seen", 0).Get("k"); err != nil || !ok || v != 5 {
		t.Errorf("the store holds %d, %v, %v, want 5: the old value comes from the table's store", v, ok, err)
	}
}

// shouting is a processor without state; it makes a row where there is none.
type shouting struct{ ctx processor.TableContext }

func (s *shouting) Init(ctx processor.TableContext) error { s.ctx = ctx; return nil }
func (s *shouting) Value(k, v string, ok bool) (string, bool, error) {
	if !ok {
		return "nobody", k == "k", nil
	}
	return strings.ToUpper(v), true, nil
}
func (s *shouting) Close() error { return nil }

func TestProcessTableValues_isComputedForEachReader(t *testing.T) {
	b := millrace.NewBuilder()
	loud := millrace.ProcessTableValues(textTable(b, "A"), func() *shouting { return new(shouting) })
	pairTables.join(loud, textTable(b, "B")).ToStream().To(outTopic)
	d := milltest.New(t, build(t, b), milltest.CacheBytes(0))
	steps{
		{"B", "k=x@1", "k=(nobody,x)@1"},
		{"A", "k=a@2", "k=(A,x)@2"},
		{"B", "k=y@1", "k=(A,y)@2"},
		{"A", "k=~@3", "k=(nobody,y)@3"},
		{"B", "j=z@4", ""},
	}.run(t, d, reader(d, outTopic))
}

// A row of a table of windows meets the other's row of the same window.
func TestTableJoin_ofWindows(t *testing.T) {
	b := millrace.NewBuilder()
	out := millrace.NewTopic("out", serde.Windowed(serde.String, 10*ms), serde.String)
	l, _ := millrace.CountWindows(millrace.From(b, strTopic).GroupByKey().WindowBy(window.Tumbling(10*ms)), millrace.As("l"))
	r, _ := millrace.CountWindows(millrace.From(b, millrace.NewTopic("R", serde.String, serde.String)).GroupByKey().WindowBy(window.Tumbling(10*ms)), millrace.As("r"))
	millrace.JoinTables(l, r, func(l, r int64) string { return fmt.Sprint(l, "/", r) }, millrace.As("join"), textValue).ToStream().To(out)
	d := milltest.New(t, build(t, b), milltest.CacheBytes(0))
	steps{
		{"in", "k=a@1", ""},
		{"R", "k=a@12", ""},
		{"R", "k=a@3", ""},
		{"in", "k=a@15", "k[10,20)=1/1@15"},
		{"in", "k=a@11", "k[10,20)=2/1@15"},
	}.run(t, d, reader(d, out))
}

// With versions the table is joined as of the time of a record, and an update out of order changes the past alone.
func TestProcessTableValues_versioned(t *testing.T) {
	everywhere(t, func(t *testing.T, opts []millrace.StepOption, driver ...milltest.Option) {
		b := millrace.NewBuilder()
		loud := millrace.ProcessTableValues(textTable(b, "T"), func() *exclaiming { return new(exclaiming) },
			append(opts, millrace.As("loud"), textValue, millrace.Versioned(100*ms))...)
		s := millrace.From(b, millrace.NewTopic("S", serde.String, serde.String))
		millrace.LeftJoinTable(s, loud, func(l, r string, ok bool) string { return l + "-" + orText(r, ok) }).To(outTopic)
		d := milltest.New(t, build(t, b), driver...)
		steps{
			{"T", "k=a@0", ""}, {"T", "k=b@30", ""}, {"S", "k=s@40", "k=s-b!@40"}, {"S", "k=s@20", "k=s-a!@20"},
			{"T", "k=c@10", ""}, {"S", "k=s@20", "k=s-c!@20"}, {"S", "k=s@50", "k=s-b!@50"},
			{"T", "k=~@60", ""}, {"S", "k=s@70", "k=s-null@70"}, {"S", "k=s@59", "k=s-b!@59"},
		}.run(t, d, reader(d, outTopic))
	})
}

// exclaiming puts a mark behind each value.
type exclaiming struct{}

func (*exclaiming) Init(processor.TableContext) error { return nil }
func (*exclaiming) Value(_, v string, ok bool) (string, bool, error) {
	return v + "!", ok, nil
}
func (*exclaiming) Close() error { return nil }
