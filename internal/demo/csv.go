package demo

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// table reads a CSV file by the names of its columns. The first error sticks: later calls return zero values, so a row is
// read field by field and judged once.
type table struct {
	file    string // for errors
	r       *csv.Reader
	columns []string
	row     []string
	texts   map[string]string // one copy of each text: there are few carriers, airports and planes
	err     error
}

// newTable reads the header line and checks that it names the columns needed.
func newTable(file string, r io.Reader, needed ...string) (*table, error) {
	t := &table{file: file, r: csv.NewReader(r), texts: map[string]string{}}
	t.r.ReuseRecord = true
	header, err := t.r.Read()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("millrace: demo: %s is empty; its first line must name the columns %s", file,
			strings.Join(needed, ","))
	}
	if err != nil {
		return nil, t.readError(err)
	}
	t.columns = slices.Clone(header)
	t.columns[0] = strings.TrimPrefix(t.columns[0], "\uFEFF") // a byte order mark, as spreadsheets write it
	for _, n := range needed {
		if !slices.Contains(t.columns, n) {
			return nil, fmt.Errorf("millrace: demo: %s has no column %s; its first line is %q", file, n,
				strings.Join(t.columns, ","))
		}
	}
	return t, nil
}

// next goes to the next row; it is false at the end and after an error.
func (t *table) next() bool {
	if t.err != nil {
		return false
	}
	row, err := t.r.Read()
	switch {
	case errors.Is(err, io.EOF):
		return false
	case err != nil:
		t.err = t.readError(err)
		return false
	}
	t.row = row
	return true
}

// readError says where reading failed. A csv.ParseError has the line; what is below it (gzip, the disk) has not.
func (t *table) readError(err error) error {
	var p *csv.ParseError
	if errors.As(err, &p) {
		return fmt.Errorf("millrace: demo: %s line %d: %w; repair or remove the line", t.file, p.Line, p.Err)
	}
	line, _ := t.r.FieldPos(0)
	return fmt.Errorf("millrace: demo: cannot read %s after line %d: %w; get a complete copy of the file", t.file, line, err)
}

// fail records that a column of this row holds a value that is not wanted.
func (t *table) fail(column, value, want string) {
	if t.err != nil {
		return
	}
	line, _ := t.r.FieldPos(slices.Index(t.columns, column))
	t.err = fmt.Errorf("millrace: demo: %s line %d, column %s: %q is not %s; repair or remove the line", t.file, line, column,
		value, want)
}

// raw returns a field; ok is false where the file has none (NA or nothing).
func (t *table) raw(column string) (v string, ok bool) {
	if t.err != nil {
		return "", false
	}
	v = t.row[slices.Index(t.columns, column)]
	return v, v != "" && v != "NA"
}

// text returns a field that may be missing.
func (t *table) text(column string) *string {
	v, ok := t.raw(column)
	if !ok {
		return nil
	}
	v = t.keep(v)
	return &v
}

// keep returns a copy of a field that does not keep its whole row alive.
func (t *table) keep(v string) string {
	if known, ok := t.texts[v]; ok {
		return known
	}
	v = strings.Clone(v)
	t.texts[v] = v
	return v
}

// needText returns a field that must be there.
func (t *table) needText(column string) string {
	v, ok := t.raw(column)
	if !ok {
		t.fail(column, v, "a value, and one is needed here")
		return ""
	}
	return t.keep(v)
}

// whole returns a number that may be missing.
func (t *table) whole(column string) *int {
	v, ok := t.raw(column)
	if !ok {
		return nil
	}
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil {
		t.fail(column, v, "a whole number")
		return nil
	}
	i := int(n)
	return &i
}

// number returns a number with a fraction that may be missing.
func (t *table) number(column string) *float64 {
	v, ok := t.raw(column)
	if !ok {
		return nil
	}
	f, err := strconv.ParseFloat(v, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		t.fail(column, v, "a number")
		return nil
	}
	return &f
}

// needWhole returns a number that must be there and lie in a range.
func (t *table) needWhole(column string, lowest, highest int) int {
	v, _ := t.raw(column)
	n := t.whole(column)
	if n == nil || *n < lowest || *n > highest {
		t.fail(column, v, fmt.Sprintf("a whole number from %d to %d", lowest, highest))
		return 0
	}
	return *n
}

// needTime returns a time that must be there.
func (t *table) needTime(column string) time.Time {
	v, _ := t.raw(column)
	at, err := time.Parse(time.RFC3339, v)
	if err != nil {
		t.fail(column, v, "a time such as 2013-01-01T10:00:00Z")
		return time.Time{}
	}
	return at.UTC()
}
