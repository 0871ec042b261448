package milltest_test

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/store"
)

func skipBad(processor.Failure) processor.Response {
	return processor.Response{Action: processor.Continue}
}

func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// A record that was skipped when it came in stays skipped when the table is restored from the topic, or read anew.
func TestC074_badBytesInATopicThatIsTheChangelogToo(t *testing.T) {
	text := func(l string, r int64, ok bool) string {
		if !ok {
			return "(" + l + ",null)"
		}
		return "(" + l + "," + string(rune('0'+r)) + ")"
	}
	for _, c := range []struct {
		name   string
		driver []milltest.Option
		global bool
	}{
		{"memory", nil, false}, {"disk", []milltest.Option{milltest.OnDisk()}, false}, {"global", nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := millrace.NewBuilder(millrace.Optimize(millrace.ReuseSourceTopics))
			tt := millrace.NewTopic("t", serde.String, serde.Int64)
			s := millrace.From(b, millrace.NewTopic("s", serde.String, serde.String))
			if c.global {
				g := millrace.GlobalTableFrom(b, tt, millrace.As("table"))
				millrace.LeftJoinGlobal(s, g, func(k, _ string) string { return k }, text).To(outTopic)
			} else {
				millrace.LeftJoinTable(s, millrace.TableFrom(b, tt, millrace.As("table")), text).To(outTopic)
			}
			d := milltest.New(t, build(t, b), append(c.driver, milltest.OnDeserializationError(skipBad))...)
			out := reader(d, outTopic)
			raw := func(key string, value []byte, at time.Duration) {
				t.Helper()
				if err := d.PipeRaw("t", 0, []byte(key), value, nil, at*ms); err != nil {
					t.Fatal(err)
				}
			}
			raw("k", number(7), 1)
			raw("k", []byte{9, 9}, 2)
			raw("gone", number(1), 3)
			raw("gone", nil, 4)
			pipe(t, d, "s", "k=live@5")
			wantText(t, "before", out(), "k=(live,7)@5")
			d.Commit()
			restart(t, d)
			pipe(t, d, "s", "k=afterRestore@6")
			pipe(t, d, "s", "gone=x@7")
			wantText(t, "after", out(), "k=(afterRestore,7)@6 gone=(x,null)@7")
			for _, name := range d.Topics() {
				if strings.HasSuffix(name, "-changelog") {
					t.Errorf("there is a changelog topic %s", name)
				}
			}
		})
	}
}

// finder looks up what each record names, in a read-only store.
type finder struct {
	from  func(processor.StoreContext) (store.KeyValue[string, string], error)
	rows  store.KeyValue[string, string]
	write bool
	ctx   processor.Context[string, string]
}

func (p *finder) Init(ctx processor.Context[string, string]) (err error) {
	p.ctx = ctx
	p.rows, err = p.from(ctx)
	return err
}

func (p *finder) Process(r processor.Record[string, string]) error {
	if p.write {
		return p.rows.Put(r.Key, r.Value)
	}
	v, ok, err := p.rows.Get(r.Key)
	if err != nil {
		return err
	}
	r.Value += "-" + orText(v, ok)
	return p.ctx.Forward(r)
}

func (p *finder) Close() error { return nil }

func TestReadOnlyStore(t *testing.T) {
	everywhere(t, func(t *testing.T, opts []millrace.StepOption, driver ...milltest.Option) {
		for _, write := range []bool{false, true} {
			b := millrace.NewBuilder()
			names := millrace.NewKeyValueStore("names", serde.String, serde.String, opts...)
			millrace.AddReadOnlyStore(b, millrace.NewTopic("N", serde.String, serde.String), names)
			in := millrace.From(b, strTopic)
			found := millrace.Process[string, string, string, string](in, func() *finder { return &finder{from: names.From, write: write} }, millrace.WithStores(names))
			found.To(outTopic, millrace.NodeName("sink"))
			d := milltest.New(t, build(t, b), driver...)
			out := reader(d, outTopic)
			if write {
				if err := tryPipe(d, "in", "a=x@1"); err == nil || !strings.Contains(err.Error(), "read-only") {
					t.Errorf("writing a read-only store: %v", err)
				}
				continue
			}
			steps{
				{"in", "a=x@1", "a=x-null@1"}, {"N", "a=Ann@5", ""}, {"N", "b=Bob@6", ""}, {"in", "a=x@2", "a=x-Ann@2"},
				{"N", "a=Anna@3", ""}, {"N", "b=~@7", ""}, {"N", "~=q@8", ""}, {"in", "a=x@9", "a=x-Anna@9"}, {"in", "b=x@10", "b=x-null@10"},
			}.run(t, d, out)
			wantDropped(t, d, "names-updates", millrace.DroppedNullKey, 1)
			d.Commit()
			restart(t, d)
			steps{{"in", "a=y@11", "a=y-Anna@11"}, {"in", "b=y@12", "b=y-null@12"}}.run(t, d, out)
			for _, name := range d.Topics() {
				if strings.HasSuffix(name, "-changelog") {
					t.Errorf("there is a changelog topic %s", name)
				}
			}
		}
	})
}

func TestOptimize_unknown(t *testing.T) {
	_, err := millrace.NewBuilder(millrace.OptimizeProperty("reuse.ktable.source.topics, merge.topics")).Build()
	if err == nil || !strings.Contains(err.Error(), "merge.topics") {
		t.Errorf("an unknown optimisation: %v", err)
	}
	if _, err := millrace.NewBuilder(millrace.OptimizeProperty("none")).Build(); err != nil && strings.Contains(err.Error(), "optimisation") {
		t.Errorf("none: %v", err)
	}
}
