package measure

import (
	"testing"
	"time"
)

// at makes arrivals of a producer at seconds after zero.
func at(producer int64, seconds ...float64) []arrival {
	var out []arrival
	for _, s := range seconds {
		out = append(out, arrival{second(s), producer})
	}
	return out
}

var zero = time.Unix(1_000_000, 0)

func second(s float64) time.Time { return zero.Add(time.Duration(s * float64(time.Second))) }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func TestSilence(t *testing.T) {
	p := at(1, 0, 1, 2, 5, 6)
	for _, c := range []struct{ from, to, want float64 }{
		{1, 6, 3},     // between two results
		{0.5, 2, 1},   // the result before the span is its beginning
		{2, 4, 2},     // cut off by the end
		{6, 10, 4},    // nothing comes any more
		{5, 5.5, 0.5}, // short
	} {
		if got := silence(p, second(c.from), second(c.to)); got != seconds(c.want) {
			t.Errorf("from %v to %v: silent for %v, want %v s", c.from, c.to, got, c.want)
		}
	}
}

func TestTakenOver(t *testing.T) {
	a := arrivals{
		append(at(1, 0, 1, 2), at(2, 9, 10)...),   // the killed instance's
		append(at(1, 0, 2.5), at(3, 11, 12)...),   // its last commit came after the kill
		at(2, 0, 1, 2, 3, 4, 9),                   // a survivor's
		append(at(2, 0, 2, 3), at(3, 3.5, 20)...), // it moved from one survivor to another
	}
	took, partitions, err := a.takenOver(second(2), second(3))
	if err != nil || took != seconds(9) || partitions != 2 {
		t.Errorf("took %v over %d partitions, %v; want 9 s over 2", took, partitions, err)
	}
	if _, _, err := (arrivals{at(2, 0, 1, 4)}).takenOver(second(2), second(3)); err == nil {
		t.Error("nobody was killed, and nothing is said of it")
	}
	if _, _, err := (arrivals{at(1, 0, 1)}).takenOver(second(2), second(3)); err == nil {
		t.Error("a partition is silent, and nothing is said of it")
	}
}

func TestMoved(t *testing.T) {
	a := arrivals{
		append(at(1, 0, 1, 2), at(4, 2.5, 3)...),
		append(at(1, 0, 1, 4), at(4, 4.7, 6)...),
		at(2, 0, 1, 2.2, 3, 6),
	}
	away, stayed, partitions := a.moved(second(1), second(6))
	if away != seconds(0.7) || stayed != seconds(3) || partitions != 2 {
		t.Errorf("%d tasks were away for %v, those that stayed silent for %v; want 2, 0.7 s, 3 s", partitions, away, stayed)
	}
}
