package serde_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// tagged is a serde that tells everything: it binds to a topic, decodes with headers and clones.
type tagged struct{ topic string }

func (s tagged) Append(dst []byte, v string) ([]byte, error) {
	return append(append(dst, s.topic...), v...), nil
}

func (s tagged) Decode(src []byte) (string, error) {
	return strings.TrimPrefix(string(src), s.topic), nil
}

func (s tagged) DecodeWithHeaders(src []byte, h *serde.Headers) (string, error) {
	v, err := s.Decode(src)
	*h = h.With("seen", []byte(v))
	return v + "+h", err
}

var errNoSubject = errors.New("no subject")

func (s tagged) ForTopic(topic string, key bool) (serde.Serde[string], error) {
	if topic == "unknown" {
		return nil, errNoSubject
	}
	return tagged{topic: topic}, nil
}

// bound checks that binding a serde binds the one inside it, which then writes the topic's name, and that headers reach it.
func bound[T any](t *testing.T, name string, s serde.Serde[T], v, withHeaders T, encoded string, seen int) {
	t.Helper()
	b, ok := s.(serde.TopicBinder[T])
	if !ok {
		t.Fatalf("%s: does not bind", name)
	}
	if _, err := b.ForTopic("unknown", true); !errors.Is(err, errNoSubject) {
		t.Errorf("%s: error of binding %v", name, err)
	}
	forTopic, err := b.ForTopic("T:", true)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	out, err := forTopic.Append(nil, v)
	if err != nil || string(out) != encoded {
		t.Errorf("%s: %q, %v, want %q", name, out, err, encoded)
	}
	if got, err := forTopic.Decode(out); err != nil || !cmp.Equal(got, v) {
		t.Errorf("%s: %v, %v, want %v", name, got, err, v)
	}
	var h serde.Headers
	d, ok := forTopic.(serde.HeaderDecoder[T])
	if !ok {
		t.Fatalf("%s: does not decode with headers", name)
	}
	if got, err := d.DecodeWithHeaders(out, &h); err != nil || !cmp.Equal(got, withHeaders) || len(h) != seen {
		t.Errorf("%s: %v, %v with headers %v, want %v", name, got, err, h, withHeaders)
	}
}

func TestWrappers_bindAndPassHeaders(t *testing.T) {
	in := window.Window{StartMs: 1, EndMs: 2}
	bound(t, "Nullable", serde.Nullable[string](tagged{}), ptr("v"), ptr("v+h"), "T:v", 1)
	bound(t, "List", serde.List[string](tagged{}), []string{"v", "w"}, []string{"v+h", "w+h"},
		"\x01\x00\x00\x00\x02\x00\x00\x00\x03T:v\x00\x00\x00\x03T:w", 2)
	bound(t, "Windowed", serde.Windowed[string](tagged{}, time.Millisecond), window.Key[string]{Key: "v", Window: in},
		window.Key[string]{Key: "v+h", Window: in}, "T:v\x00\x00\x00\x00\x00\x00\x00\x01", 1)
	bound(t, "List of Nullable", serde.List(serde.Nullable[string](tagged{})), []*string{nil, ptr("v")}, []*string{nil, ptr("v+h")},
		"\x01\x00\x00\x00\x02\xff\xff\xff\xff\x00\x00\x00\x03T:v", 1)
}

// A wrapper of a serde that does not look at headers must not make the engine copy them for it.
func TestWrappers_doNotAskForHeaders(t *testing.T) {
	for name, s := range map[string]any{
		"Nullable": serde.Nullable(serde.String), "List": serde.List(serde.String), "Windowed": serde.Windowed(serde.String, 0),
	} {
		switch s.(type) {
		case serde.HeaderDecoder[*string], serde.HeaderDecoder[[]string], serde.HeaderDecoder[window.Key[string]]:
			t.Errorf("%s decodes with headers", name)
		}
	}
	b, err := serde.List(serde.String).(serde.TopicBinder[[]string]).ForTopic("t", false)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := b.(serde.Cloner[[]string]); !ok {
		t.Error("a bound list does not clone any more")
	}
}

func TestClone(t *testing.T) {
	b := []byte("abc")
	c := serde.Bytes.Clone(b)
	b[0] = 'X'
	if string(c) != "abc" || serde.Bytes.Clone(nil) != nil || serde.Bytes.Clone([]byte{}) == nil {
		t.Errorf("bytes: %q", c)
	}

	list := serde.List(serde.Bytes).(serde.Cloner[[][]byte])
	l := [][]byte{[]byte("a"), nil, {}}
	lc := list.Clone(l)
	l[0][0] = 'X'
	l[1] = []byte("new")
	if want := [][]byte{[]byte("a"), nil, {}}; !cmp.Equal(lc, want) || list.Clone(nil) != nil {
		t.Errorf("list: %q", lc)
	}

	p := serde.Nullable(serde.Int64).(serde.Cloner[*int64])
	n := int64(5)
	nc := p.Clone(&n)
	n = 6
	if *nc != 5 || p.Clone(nil) != nil {
		t.Errorf("pointer: %d", *nc)
	}

	w := serde.Windowed(serde.Bytes, time.Second).(serde.Cloner[window.Key[[]byte]])
	k := window.Key[[]byte]{Key: []byte("k"), Window: window.Window{StartMs: 1, EndMs: 1001}}
	kc := w.Clone(k)
	k.Key[0] = 'X'
	if string(kc.Key) != "k" || kc.Window != k.Window {
		t.Errorf("windowed: %v", kc)
	}

	if _, ok := serde.List(serde.JSON[map[string]int]()).(serde.Cloner[[]map[string]int]); ok {
		t.Error("a list whose entries cannot be copied says that it clones")
	}
	if _, ok := serde.Nullable(serde.JSON[[]int]()).(serde.Cloner[*[]int]); ok {
		t.Error("a pointer to what cannot be copied says that it clones")
	}
	if _, ok := serde.Windowed(serde.JSON[*int](), 0).(serde.Cloner[window.Key[*int]]); ok {
		t.Error("a windowed key that cannot be copied says that it clones")
	}
	now := time.Now()
	if !serde.Time.Clone(now).Equal(now) {
		t.Error("time")
	}
}

func TestNullable(t *testing.T) {
	s := serde.Nullable(serde.Int32)
	if out, err := s.Append([]byte("dst"), nil); err == nil || string(out) != "dst" {
		t.Errorf("a nil pointer: %q, %v", out, err)
	}
	b, err := s.Append(nil, ptr[int32](7))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Decode(b); err != nil || *got != 7 {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := s.Decode([]byte{1}); err == nil || got != nil {
		t.Errorf("%v, %v", got, err)
	}
}

// A serde made of nothing tells so when it is asked, at whatever depth, and when it is used all the same.
func TestChecker_nilArguments(t *testing.T) {
	var none serde.Serde[string]
	noDecode := serde.Func(func(dst []byte, v string) ([]byte, error) { return dst, nil }, nil)
	for name, s := range map[string]any{
		"Nullable":                     serde.Nullable(none),
		"List":                         serde.List(none),
		"Windowed":                     serde.Windowed(none, time.Second),
		"Func":                         noDecode,
		"List of Nullable":             serde.List(serde.Nullable(none)),
		"Windowed of List":             serde.Windowed(serde.List(noDecode), time.Second),
		"Nullable of a wrong Windowed": serde.Nullable(serde.Windowed(serde.String, -1)),
	} {
		if err := s.(serde.Checker).Check(); err == nil {
			t.Errorf("%s: nothing is wrong", name)
		}
	}
	for name, s := range map[string]any{
		"Nullable": serde.Nullable(serde.String), "List": serde.List(serde.String), "Windowed": serde.Windowed(serde.String, time.Second),
	} {
		if err := s.(serde.Checker).Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := serde.List(none).Append(nil, []string{"a"}); err == nil {
		t.Error("a list of a nil serde writes")
	}
	refused(t, "list of a nil serde", serde.List(none), unhex(t, "01000000010000000161"), "nil serde")
	if _, err := noDecode.Append(nil, ""); err == nil {
		t.Error("half a serde writes")
	}
	refused(t, "half a serde", noDecode, nil, "one of them is nil")
}
