// Package millis is arithmetic on times in milliseconds.
package millis

import "math"

// Add adds without overflow: the sum stops at the bounds of int64.
func Add(a, b int64) int64 {
	switch {
	case b > 0 && a > math.MaxInt64-b:
		return math.MaxInt64
	case b < 0 && a < math.MinInt64-b:
		return math.MinInt64
	}
	return a + b
}
