package state

import "testing"

// TestC079_RestoreFindsTheHighestSequenceNumber: what a restore reads raises the number, rows that have expired and deletions
// included, and a lower one never lowers it.
func TestC079_RestoreFindsTheHighestSequenceNumber(t *testing.T) {
	engines(t, func(t *testing.T, open func(Spec) *Set) {
		set := open(Spec{Name: "w", Kind: Window, RetentionMs: 100, SegmentMs: 10})
		want := func(seq int64) {
			t.Helper()
			if got, ok := set.Meta("w", SeqMeta); got != seq || ok != (seq > 0) {
				t.Fatalf("the highest number is %d, want %d", got, seq)
			}
		}
		want(0)
		restore(t, set, "w", 1, []RestoreRecord{{Key: windowKey("k", 60, 0), Value: []byte("no number")}})
		want(0)
		restore(t, set, "w", 3, []RestoreRecord{{Key: windowKey("k", 60, 2), Value: []byte("a")}, {Key: windowKey("k", 60, 1), Value: []byte("b")}})
		want(2)
		restore(t, set, "w", 5, []RestoreRecord{{Key: windowKey("k", 600, 3), Value: []byte("c")}, {Key: windowKey("k", 60, 7), Value: []byte("expired")}})
		want(7)
		must(t, set.SetMeta("w", SeqMeta, 9))
		must(t, set.Seal(set.HandOver(), nil))
		restore(t, set, "w", 6, []RestoreRecord{{Key: windowKey("k", 700, 8), Value: nil}})
		want(9)
		restore(t, set, "w", 7, []RestoreRecord{{Key: windowKey("k", 700, 10), Value: nil}})
		want(10)
	})
}
