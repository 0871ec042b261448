package serde_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/serde"
)

func TestHeaders(t *testing.T) {
	h := serde.Headers{{Key: "a", Value: []byte("1")}, {Key: "b"}, {Key: "a", Value: []byte("2")}}
	before := h.Clone()
	if v, ok := h.Last("a"); !ok || string(v) != "2" {
		t.Errorf("%q, %v", v, ok)
	}
	if v, ok := h.Last("b"); !ok || v != nil {
		t.Errorf("%q, %v", v, ok)
	}
	if _, ok := h.Last("c"); ok {
		t.Error("found c")
	}
	if got := h.Without("a"); len(got) != 1 || got[0].Key != "b" {
		t.Errorf("%v", got)
	}
	// Two branches add a header to the same headers: neither sees the other's.
	left, right := h.With("l", nil), h.With("r", nil)
	if left[3].Key != "l" || right[3].Key != "r" {
		t.Errorf("%v, %v", left, right)
	}
	left[0].Value = []byte("changed")
	if !cmp.Equal(h, before) {
		t.Errorf("the headers became %v", h)
	}
	c := h.Clone()
	c[0].Value[0] = 'X'
	if !cmp.Equal(h, before) || serde.Headers(nil).Clone() != nil {
		t.Errorf("the headers became %v", h)
	}
}
