package serde_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

type order struct {
	ID    string          `json:"id"`
	Cents int64           `json:"cents"`
	At    time.Time       `json:"at,omitzero"`
	Tags  []string        `json:"tags,omitempty"`
	Raw   json.RawMessage `json:"raw,omitempty"`
}

func TestJSON_text(t *testing.T) {
	check := func(name, got, want string, err error) {
		t.Helper()
		if err != nil || got != "dst"+want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
	dst := func() []byte { return []byte("dst") }
	b, err := serde.JSON[order]().Append(dst(), order{ID: "<a&b>", Cents: 5, Raw: json.RawMessage(`{"x": "<"}`)})
	check("struct", string(b), `{"id":"<a&b>","cents":5,"raw":{"x":"<"}}`, err)
	b, err = serde.JSON[string]().Append(dst(), "line\n")
	check("string", string(b), `"line\n"`, err)
	b, err = serde.JSON[int]().Append(dst(), 42)
	check("int", string(b), `42`, err)
	b, err = serde.JSON[[]int]().Append(dst(), []int{})
	check("slice", string(b), `[]`, err)
	b, err = serde.JSON[any]().Append(dst(), map[string]any{"b": 1, "a": nil})
	check("any", string(b), `{"a":null,"b":1}`, err)
	b, err = serde.JSON[*order]().Append(dst(), &order{ID: "x"})
	check("pointer", string(b), `{"id":"x","cents":0}`, err)
	b, err = serde.JSON[upper]().Append(dst(), upper("x"))
	check("method of the pointer", string(b), `"X"`, err)
}

// upper has its methods on the pointer, which encoding/json finds only where a value has an address.
type upper string

func (u *upper) MarshalJSON() ([]byte, error) { return json.Marshal(strings.ToUpper(string(*u))) }

func TestJSON_roundTrip(t *testing.T) {
	s := serde.JSON[order]()
	in := order{ID: "a", Cents: math.MaxInt64, At: time.Date(2026, 7, 14, 22, 30, 0, 1, time.UTC), Tags: []string{"x", "y"}, Raw: json.RawMessage("[1]")}
	b, err := s.Append(nil, in)
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		b[i] = '#' // what was decoded keeps no part of it
	}
	if d := cmp.Diff(in, out); d != "" {
		t.Error(d)
	}
}

func TestJSON_nullIsTheZeroValue(t *testing.T) {
	if got, err := serde.JSON[*order]().Decode([]byte("null")); err != nil || got != nil {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := serde.JSON[int]().Decode([]byte(" null ")); err != nil || got != 0 {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := serde.JSON[[]int]().Decode([]byte("[]")); err != nil || got == nil {
		t.Errorf("%v, %v", got, err)
	}
}

func TestJSON_refused(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"", "unexpected end of JSON input"},
		{`{"id":"a"} x`, "after top-level value (at byte 12 of 12)"},
		{`{"id":"a"}{}`, "after top-level value"},
		{`{"id":`, "unexpected end of JSON input (at byte 6 of 6)"},
		{`{"id":1}`, "cannot unmarshal number into Go struct field order.id of type string (at byte 7 of 8)"},
		{"\x00\x00\x00\x00\x2a{}", "schema registry"},
	} {
		refused(t, "JSON", serde.JSON[order](), []byte(c.src), c.want)
		refused(t, "JSON", serde.JSON[order](), []byte(c.src), "serde: JSON into serde_test.order: ")
	}
	var mismatch *json.UnmarshalTypeError
	if got, err := serde.JSON[order]().Decode([]byte(`{"cents":5,"id":1}`)); !errors.As(err, &mismatch) || got.Cents != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestJSON_failsToEncode(t *testing.T) {
	s := serde.JSON[float64]()
	out, err := s.Append([]byte("dst"), math.NaN())
	var unsupported *json.UnsupportedValueError
	if !errors.As(err, &unsupported) || string(out) != "dst" || !strings.Contains(err.Error(), "JSON of float64") {
		t.Errorf("%q, %v", out, err)
	}
	// The encoder goes back to the pool and must not remember the failure.
	if out, err := s.Append([]byte("dst"), 1.5); err != nil || string(out) != "dst1.5" {
		t.Errorf("%q, %v", out, err)
	}
}

// The form of a topic of late records.
func TestJSON_lateRecord(t *testing.T) {
	late := serde.JSON[window.Late[int]]()
	in := window.Late[int]{Value: 7, ObservedTimeMs: 15, Missed: []window.Window{{StartMs: 0, EndMs: 10}}, Accepted: true}
	b, err := late.Append(nil, in)
	if want := `{"value":7,"observed_time_ms":15,"missed":[{"start_ms":0,"end_ms":10}],"accepted":true}`; err != nil || string(b) != want {
		t.Errorf("%s, %v, want %s", b, err, want)
	}
	if out, err := late.Decode(b); err != nil || !cmp.Equal(out, in) {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestJSON_concurrent(t *testing.T) {
	s := serde.JSON[order]()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			var buf []byte
			for i := range 200 {
				in := order{ID: fmt.Sprint(g, "-", i), Cents: int64(i)}
				var err error
				if buf, err = s.Append(buf[:0], in); err != nil {
					t.Error(err)
					return
				}
				if out, err := s.Decode(buf); err != nil || !cmp.Equal(out, in) {
					t.Errorf("%+v, %v, want %+v", out, err, in)
					return
				}
			}
		})
	}
	wg.Wait()
}
