package config

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// ParseISODuration reads what java.time.Duration#parse reads: [+-]P[nD][T[nH][nM][n.nS]], in any case, each number with
// a sign of its own if need be.
func ParseISODuration(s string) (time.Duration, error) {
	const number = `([-+]?[0-9]+)`
	form := regexp.MustCompile(`^([-+])?P(?:` + number + `D)?(T(?:` + number + `H)?(?:` + number + `M)?(?:` + number + `(?:[.,]([0-9]{0,9}))?S)?)?$`)
	m := form.FindStringSubmatch(strings.ToUpper(s))
	if m == nil || m[3] == "T" || m[2] == "" && m[3] == "" {
		return 0, errors.New("must hold an ISO 8601 duration of days, hours, minutes and seconds, such as PT1H30M or P2DT0.5S")
	}
	tooLong := errors.New("must hold a duration of less than 292 years")
	var total time.Duration
	for _, part := range []struct {
		digits string
		unit   time.Duration
	}{{m[2], 24 * time.Hour}, {m[4], time.Hour}, {m[5], time.Minute}, {m[6], time.Second}, {fraction(m[6], m[7]), 1}} {
		if part.digits == "" {
			continue
		}
		n, err := strconv.ParseInt(part.digits, 10, 64)
		d := time.Duration(n) * part.unit
		if err != nil || d/part.unit != time.Duration(n) {
			return 0, tooLong
		}
		sum := total + d
		if d > 0 != (sum > total) && d != 0 {
			return 0, tooLong
		}
		total = sum
	}
	if m[1] == "-" {
		total = -total
	}
	return total, nil
}

// fraction turns the digits behind the seconds' point into nanoseconds with the sign of the seconds.
func fraction(seconds, digits string) string {
	if digits == "" {
		return ""
	}
	sign := ""
	if strings.HasPrefix(seconds, "-") {
		sign = "-"
	}
	return sign + digits + strings.Repeat("0", 9-len(digits))
}

// formatISODuration writes a duration as java.time.Duration#toString does for one that is not negative.
func formatISODuration(d time.Duration) string {
	if d == 0 {
		return "PT0S"
	}
	var b strings.Builder
	b.WriteString("PT")
	if h := d / time.Hour; h > 0 {
		fmt.Fprintf(&b, "%dH", h)
		d -= h * time.Hour
	}
	if m := d / time.Minute; m > 0 {
		fmt.Fprintf(&b, "%dM", m)
		d -= m * time.Minute
	}
	if d > 0 {
		fmt.Fprintf(&b, "%d", d/time.Second)
		if ns := d % time.Second; ns > 0 {
			b.WriteByte('.')
			b.WriteString(strings.TrimRight(fmt.Sprintf("%09d", ns), "0"))
		}
		b.WriteByte('S')
	}
	return b.String()
}
