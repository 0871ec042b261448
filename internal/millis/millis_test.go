package millis

import (
	"math"
	"testing"
)

func TestAdd_stopsAtTheBounds(t *testing.T) {
	for _, c := range []struct{ a, b, want int64 }{
		{1, 2, 3}, {1, -2, -1}, {0, 0, 0},
		{math.MaxInt64, 1, math.MaxInt64}, {math.MaxInt64 - 1, 1, math.MaxInt64}, {1, math.MaxInt64, math.MaxInt64},
		{math.MinInt64, -1, math.MinInt64}, {-1, math.MinInt64, math.MinInt64}, {math.MaxInt64, math.MinInt64, -1},
	} {
		if got := Add(c.a, c.b); got != c.want {
			t.Errorf("Add(%d, %d) is %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
