package millrace_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// The records of the null tests: each combination of a key and a value that are there or null.
const nullInput = "k=v ~=v k=~ ~=~"

// numberAsText is a number as its digits, so that what comes out can be read.
var numberAsText = serde.Func(
	func(dst []byte, n int64) ([]byte, error) { return strconv.AppendInt(dst, n, 10), nil },
	func(src []byte) (int64, error) { return strconv.ParseInt(string(src), 10, 64) },
)

// nullRun pipes the null tests' records into a topology and returns what comes out, the records apart, as "key=value" with
// "~" for null and "-" where nothing came.
func nullRun[K, V any](t *testing.T, key serde.Serde[K], value serde.Serde[V], declare func(s millrace.Stream[K, V]), opts ...milltest.Option) (string, *milltest.Driver) {
	t.Helper()
	d := milltest.New(t, built(t, func(b *millrace.Builder) { declare(millrace.From(b, millrace.NewTopic("in", key, value))) }), opts...)
	var all []string
	for i, record := range strings.Fields(nullInput) {
		k, v, _ := strings.Cut(record, "=")
		if err := d.PipeRaw("in", 0, textOrNull(k), textOrNull(v), nil, ms*time.Duration(10*i)); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range d.ReadRaw("out") {
			got = append(got, fmt.Sprintf("%s=%s", orTilde(r.Key), orTilde(r.Value)))
		}
		if got == nil {
			got = []string{"-"}
		}
		all = append(all, strings.Join(got, "+"))
	}
	return strings.Join(all, " "), d
}

func textOrNull(s string) []byte {
	if s == "~" {
		return nil
	}
	return []byte(s)
}

func orTilde(b []byte) string {
	if b == nil {
		return "~"
	}
	return string(b)
}

// given collects what user functions were given.
type given struct{ calls []string }

func (g *given) note(args ...any) {
	var out []string
	for _, a := range args {
		if p, ok := a.(*string); ok {
			a = any("nil")
			if p != nil {
				a = *p
			}
		}
		out = append(out, fmt.Sprintf("%v", a))
	}
	g.calls = append(g.calls, strings.Join(out, ","))
}

// nullCase is one step over text, which has no nil, and over pointers to text.
type nullCase struct {
	name    string
	text    func(s text, g *given) text
	pointer func(s pointers, g *given) pointers
	// what comes out, and what the function was given, for each record of nullInput
	textOut, textGiven, pointerOut, pointerGiven string
}

type pointers = millrace.Stream[*string, *string]

func TestNull_statelessSteps(t *testing.T) {
	for _, c := range []nullCase{
		{name: "Filter",
			text: func(s text, g *given) text { return s.Filter(func(k, v string) bool { g.note(k, v); return true }) },
			pointer: func(s pointers, g *given) pointers {
				return s.Filter(func(k, v *string) bool { g.note(k, v); return true })
			},
			textOut: "k=v ~=v k=~ ~=~", textGiven: "k,v ,v k, ,",
			pointerOut: "k=v ~=v k=~ ~=~", pointerGiven: "k,v nil,v k,nil nil,nil"},
		{name: "Peek",
			text:    func(s text, g *given) text { return s.Peek(func(k, v string) { g.note(k, v) }) },
			pointer: func(s pointers, g *given) pointers { return s.Peek(func(k, v *string) { g.note(k, v) }) },
			textOut: "k=v ~=v k=~ ~=~", textGiven: "k,v ,v k, ,",
			pointerOut: "k=v ~=v k=~ ~=~", pointerGiven: "k,v nil,v k,nil nil,nil"},
		{name: "Map",
			text: func(s text, g *given) text {
				return millrace.Map(s, func(k, v string) (string, string) { g.note(k, v); return k, v })
			},
			pointer: func(s pointers, g *given) pointers {
				return millrace.Map(s, func(k, v *string) (*string, *string) { g.note(k, v); return k, v })
			},
			textOut: "k=v =v k= =", textGiven: "k,v ,v k, ,",
			pointerOut: "k=v ~=v k=~ ~=~", pointerGiven: "k,v nil,v k,nil nil,nil"},
		{name: "MapValues",
			text: func(s text, g *given) text {
				return millrace.MapValues(s, func(v string) string { g.note(v); return v })
			},
			pointer: func(s pointers, g *given) pointers {
				return millrace.MapValues(s, func(v *string) *string { g.note(v); return v })
			},
			textOut: "k=v ~=v k=~ ~=~", textGiven: "v v - -",
			pointerOut: "k=v ~=v k=~ ~=~", pointerGiven: "v v nil nil"},
		{name: "MapValues makes null",
			text: func(s text, g *given) text {
				// By way of a type with a nil and back again.
				p := millrace.MapValues(s, func(string) *string { g.note("call"); return nil })
				return millrace.MapValues(p, func(v *string) string {
					g.note(v)
					if v == nil {
						return "was null"
					}
					return *v
				})
			},
			pointer: func(s pointers, g *given) pointers {
				return millrace.MapValues(s, func(v *string) *string { g.note(v); return nil })
			},
			textOut: "k=was null ~=was null k=was null ~=was null", textGiven: "call+nil call+nil nil nil",
			pointerOut: "k=~ ~=~ k=~ ~=~", pointerGiven: "v v nil nil"},
		{name: "MapValuesWithKey",
			text: func(s text, g *given) text {
				return millrace.MapValuesWithKey(s, func(k, v string) string { g.note(k, v); return v })
			},
			pointer: func(s pointers, g *given) pointers {
				return millrace.MapValuesWithKey(s, func(k, v *string) *string { g.note(k, v); return v })
			},
			textOut: "k=v ~=v k=~ ~=~", textGiven: "k,v ,v - -",
			pointerOut: "k=v ~=v k=~ ~=~", pointerGiven: "k,v nil,v k,nil nil,nil"},
		{name: "FlatMap",
			text: func(s text, g *given) text {
				return millrace.FlatMap(s, func(k, v string, emit func(string, string)) { g.note(k, v); emit(k, v) })
			},
			pointer: func(s pointers, g *given) pointers {
				return millrace.FlatMap(s, func(k, v *string, emit func(*string, *string)) { g.note(k, v); emit(k, v); emit(nil, v) })
			},
			textOut: "k=v =v k= =", textGiven: "k,v ,v k, ,",
			pointerOut: "k=v+~=v ~=v+~=v k=~+~=~ ~=~+~=~", pointerGiven: "k,v nil,v k,nil nil,nil"},
		{name: "FlatMapValues",
			text: func(s text, g *given) text {
				return millrace.FlatMapValues(s, func(v string, emit func(string)) { g.note(v); emit(v); emit(v) })
			},
			pointer: func(s pointers, g *given) pointers {
				return millrace.FlatMapValues(s, func(v *string, emit func(*string)) { g.note(v); emit(v); emit(nil) })
			},
			textOut: "k=v+k=v ~=v+~=v k=~ ~=~", textGiven: "v v - -",
			pointerOut: "k=v+k=~ ~=v+~=~ k=~+k=~ ~=~+~=~", pointerGiven: "v v nil nil"},
		{name: "SelectKey",
			text: func(s text, g *given) text {
				return millrace.SelectKey(s, func(k, v string) string { g.note(k, v); return k })
			},
			pointer: func(s pointers, g *given) pointers {
				return millrace.SelectKey(s, func(k, v *string) *string { g.note(k, v); return v })
			},
			textOut: "k=v =v k=~ =~", textGiven: "k,v ,v k, ,",
			pointerOut: "v=v v=v ~=~ ~=~", pointerGiven: "k,v nil,v k,nil nil,nil"},
		{name: "Branch",
			text: func(s text, g *given) text {
				split := s.Split()
				split.Branch(func(k, v string) bool { g.note(k, v); return false })
				return split.Default()
			},
			pointer: func(s pointers, g *given) pointers {
				split := s.Split()
				split.Branch(func(k, v *string) bool { g.note(k, v); return false })
				return split.Default()
			},
			textOut: "k=v ~=v k=~ ~=~", textGiven: "k,v ,v k, ,",
			pointerOut: "k=v ~=v k=~ ~=~", pointerGiven: "k,v nil,v k,nil nil,nil"},
		{name: "Merge",
			text: func(s text, _ *given) text { return s.Merge(s.Filter(func(string, string) bool { return false })) },
			pointer: func(s pointers, _ *given) pointers {
				return s.Merge(s.Filter(func(_, _ *string) bool { return false }))
			},
			textOut:    "k=v ~=v k=~ ~=~",
			pointerOut: "k=v ~=v k=~ ~=~"},
		{name: "Repartition",
			text: func(s text, _ *given) text { return s.Repartition(millrace.As("r")) },
			pointer: func(s pointers, _ *given) pointers {
				return s.Repartition(millrace.As("r"))
			},
			textOut: "k=v - k=~ -", pointerOut: "k=v - k=~ -"},
		{name: "Process",
			text: func(s text, g *given) text {
				return millrace.Process(s, func() *noting[string] { return &noting[string]{given: g} })
			},
			pointer: func(s pointers, g *given) pointers {
				return millrace.Process(s, func() *noting[*string] { return &noting[*string]{given: g} })
			},
			textOut: "k=v ~=v k=~ ~=~", textGiven: "k,v,false,false ,v,true,false k,,false,true ,,true,true",
			pointerOut: "k=v ~=v k=~ ~=~", pointerGiven: "k,v,false,false nil,v,true,false k,nil,false,true nil,nil,true,true"},
		{name: "ProcessValues",
			text: func(s text, g *given) text {
				return millrace.ProcessValues(s, func() *notingValues[string] { return &notingValues[string]{given: g} })
			},
			pointer: func(s pointers, g *given) pointers {
				return millrace.ProcessValues(s, func() *notingValues[*string] { return &notingValues[*string]{given: g} })
			},
			textOut: "k=v ~=v k= ~=", textGiven: "k,v,false,false ,v,true,false k,,false,true ,,true,true",
			pointerOut: "k=v ~=v k=~ ~=~", pointerGiven: "k,v,false,false nil,v,true,false k,nil,false,true nil,nil,true,true"},
		{name: "ToTable",
			text:       func(s text, _ *given) text { return s.ToTable(millrace.As("t")).ToStream() },
			pointer:    func(s pointers, _ *given) pointers { return s.ToTable(millrace.As("t")).ToStream() },
			textOut:    "k=v - k=~ -",
			pointerOut: "k=v - k=~ -"},
		{name: "Table.Filter",
			text: func(s text, g *given) text {
				return s.ToTable().Filter(func(k, v string) bool { g.note(k, v); return true }).ToStream()
			},
			pointer: func(s pointers, g *given) pointers {
				return s.ToTable().Filter(func(k, v *string) bool { g.note(k, v); return true }).ToStream()
			},
			textOut: "k=v - k=~ -", textGiven: "k,v - - -",
			pointerOut: "k=v - k=~ -", pointerGiven: "k,v - - -"},
		{name: "MapTableValues",
			text: func(s text, g *given) text {
				return millrace.MapTableValues(s.ToTable(), func(v string) string { g.note(v); return v }).ToStream()
			},
			pointer: func(s pointers, g *given) pointers {
				return millrace.MapTableValues(s.ToTable(), func(v *string) *string { g.note(v); return nil }).ToStream()
			},
			textOut: "k=v - k=~ -", textGiven: "v - - -",
			pointerOut: "k=~ - k=~ -", pointerGiven: "v - - -"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := new(given)
			at := make([]int, 0, 4)
			out, _ := nullRun(t, serde.String, serde.String, func(s text) {
				s = s.Peek(func(string, string) { at = append(at, len(g.calls)) })
				c.text(s, g).To(topicOf("out"))
			}, milltest.CacheBytes(0))
			checkNull(t, "text", out, c.textOut, g, at, c.textGiven)

			p := serde.Nullable(serde.String)
			g, at = new(given), at[:0]
			out, _ = nullRun(t, p, p, func(s pointers) {
				s = s.Peek(func(*string, *string) { at = append(at, len(g.calls)) })
				c.pointer(s, g).To(millrace.NewTopic("out", p, p))
			}, milltest.CacheBytes(0))
			checkNull(t, "pointers", out, c.pointerOut, g, at, c.pointerGiven)
		})
	}
}

// checkNull compares what came out and what was given, record by record; at says how many calls there were before each.
func checkNull(t *testing.T, what, out, wantOut string, g *given, at []int, wantGiven string) {
	t.Helper()
	if out != wantOut {
		t.Errorf("%s: out %q, want %q", what, out, wantOut)
	}
	if wantGiven == "" {
		return
	}
	var got []string
	for i := range at {
		end := len(g.calls)
		if i+1 < len(at) {
			end = at[i+1]
		}
		calls := strings.Join(g.calls[at[i]:end], "+")
		if calls == "" {
			calls = "-"
		}
		got = append(got, calls)
	}
	if s := strings.Join(got, " "); s != wantGiven {
		t.Errorf("%s: the function was given %q, want %q", what, s, wantGiven)
	}
}

// noting is a processor that notes and forwards what it gets.
type noting[T any] struct {
	*given
	ctx processor.Context[T, T]
}

func (p *noting[T]) Init(ctx processor.Context[T, T]) error {
	p.ctx = ctx
	return nil
}

func (p *noting[T]) Process(r processor.Record[T, T]) error {
	p.note(r.Key, r.Value, r.NullKey, r.NullValue)
	return p.ctx.Forward(r)
}

func (p *noting[T]) Close() error { return nil }

type notingValues[T any] struct {
	*given
	ctx processor.ValueContext[T]
}

func (p *notingValues[T]) Init(ctx processor.ValueContext[T]) error {
	p.ctx = ctx
	return nil
}

func (p *notingValues[T]) Process(r processor.Record[T, T]) error {
	p.note(r.Key, r.Value, r.NullKey, r.NullValue)
	return p.ctx.Forward(r.Value)
}

func (p *notingValues[T]) Close() error { return nil }

func TestNull_statefulSteps(t *testing.T) {
	number := millrace.NewTopic("out", serde.String, numberAsText)
	for _, c := range []struct {
		name    string
		declare func(s text)
		want    string
		drops   map[millrace.DropReason]int64 // at the step "step"
	}{
		{"Count", func(s text) { millrace.Count(s.GroupByKey(), step).ToStream().To(number) },
			"k=1 - - -", map[millrace.DropReason]int64{millrace.DroppedNullKey: 2, millrace.DroppedNullValue: 1}},
		{"Reduce", func(s text) { s.GroupByKey().Reduce(last, step).ToStream().To(topicOf("out")) },
			"k=v - - -", map[millrace.DropReason]int64{millrace.DroppedNullKey: 2, millrace.DroppedNullValue: 1}},
		{"Aggregate", func(s text) {
			millrace.Aggregate(s.GroupByKey(), noText, glue, serde.String, step).ToStream().To(topicOf("out"))
		}, "k=v - - -", map[millrace.DropReason]int64{millrace.DroppedNullKey: 2, millrace.DroppedNullValue: 1}},
		{"Sum", func(s text) {
			millrace.Sum(s.GroupByKey(), func(v string) int64 { return int64(len(v)) }, numberAsText, step).ToStream().To(number)
		}, "k=1 - - -", map[millrace.DropReason]int64{millrace.DroppedNullKey: 2, millrace.DroppedNullValue: 1}},
		{"CountWindows", func(s text) {
			w := s.GroupByKey().WindowBy(window.Tumbling(100 * ms))
			c := table(millrace.CountWindows(w, step)).ToStream()
			millrace.SelectKey(c, func(k windowKey, _ int64) string { return k.Key }).To(number)
		}, "k=1 - k=2 -", map[millrace.DropReason]int64{millrace.DroppedNullKey: 2}},
		{"JoinTable", func(s text) {
			millrace.JoinTable(s, s.ToTable(millrace.As("t")), first, step).To(topicOf("out"))
		}, "k=v - - -", map[millrace.DropReason]int64{millrace.DroppedNullKey: 1, millrace.DroppedNullValue: 2}},
		{"LeftJoinTable", func(s text) {
			millrace.LeftJoinTable(s, s.ToTable(millrace.As("t")), func(v, row string, ok bool) string { return fmt.Sprint(v, row, ok) }, step).To(topicOf("out"))
		}, "k=vvtrue ~=vfalse - -", map[millrace.DropReason]int64{millrace.DroppedNullKey: 0, millrace.DroppedNullValue: 2}},
		{"GroupBy", func(s text) {
			p := serde.Nullable(serde.String)
			g := millrace.GroupBy(s, func(k, _ string) *string {
				if k == "" {
					return nil
				}
				return &k
			}, millrace.WithKey(p), millrace.RepartitionName("g"))
			c := millrace.Count(g, step).ToStream()
			millrace.SelectKey(c, func(k *string, _ int64) string { return *k }).To(number)
		}, "k=1 - - -", map[millrace.DropReason]int64{millrace.DroppedNullKey: 0, millrace.DroppedNullValue: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, d := nullRun(t, serde.String, serde.String, c.declare)
			if out != c.want {
				t.Errorf("out %q, want %q", out, c.want)
			}
			for reason, want := range c.drops {
				if n := d.Dropped("step", reason); n != want {
					t.Errorf("%d records dropped for %s, want %d", n, reason, want)
				}
			}
			if c.name == "GroupBy" {
				if n := d.Dropped("g-repartition-filter", millrace.DroppedNullKey); n != 2 {
					t.Errorf("%d null keys dropped before the repartition topic, want 2", n)
				}
			}
		})
	}
}

// JSON knows a null of its own. Decoded into a type with a nil it is Kafka's null, as for a Java deserializer that returns
// null.
func TestNull_decodedNil(t *testing.T) {
	type order struct{ Total int }
	in := millrace.NewTopic("in", serde.String, serde.JSON[*order]())
	topology := built(t, func(b *millrace.Builder) {
		millrace.Count(millrace.From(b, in).GroupByKey(), step)
	})
	d := milltest.New(t, topology)
	for _, v := range []string{`{"Total":1}`, `null`} {
		if err := d.PipeRaw("in", 0, []byte("k"), []byte(v), nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	if n := d.Dropped("step", millrace.DroppedNullValue); n != 1 {
		t.Errorf("%d null values dropped, want 1", n)
	}
}

// A user-written step that puts a nil deletes.
func TestNull_putIntoAStore(t *testing.T) {
	p := serde.Nullable(serde.String)
	latest := millrace.NewKeyValueStore("latest", serde.String, p)
	topology := built(t, func(b *millrace.Builder) {
		s := millrace.From(b, millrace.NewTopic("in", serde.String, p))
		millrace.Process(s, func() *putting { return &putting{definition: latest} }, millrace.WithStores(latest))
	})
	d := milltest.New(t, topology)
	for _, v := range [][]byte{[]byte("a"), nil} {
		if err := d.PipeRaw("in", 0, []byte("k"), v, nil, 0); err != nil {
			t.Fatal(err)
		}
		got, ok, err := milltest.KeyValue[string, *string](d, "latest", 0).Get("k")
		if err != nil || ok != (v != nil) || ok && *got != "a" {
			t.Errorf("after %q the store has %v, %v, %v", v, got, ok, err)
		}
	}
	if log := d.ReadRaw("test-latest-changelog"); len(log) != 2 || log[1].Value != nil {
		t.Errorf("changelog %v, want a deletion at the end", log)
	}
}

type putting struct {
	definition *millrace.KeyValueStore[string, *string]
	put        func(k string, v *string) error
}

func (p *putting) Init(ctx processor.Context[string, string]) error {
	s, err := p.definition.From(ctx)
	if err != nil {
		return err
	}
	p.put = s.Put
	return nil
}

func (p *putting) Process(r processor.Record[string, *string]) error { return p.put(r.Key, r.Value) }
func (p *putting) Close() error                                      { return nil }
