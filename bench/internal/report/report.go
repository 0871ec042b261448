// Package report sums up the runs of a benchmark: medians, ratios, and whether the goals are met.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/millrace-io/millrace/bench/internal/measure"
)

// The names of the sides.
const (
	Millrace = "millrace"
	Java     = "java"
	Bare     = "bare"
)

// Report is the benchmark's JSON.
type Report struct {
	Machine Machine  `json:"machine"`
	Rows    []Row    `json:"rows"`
	Figures []Figure `json:"figures"`
}

// Row is one kind of work. A side that was not measured is null, and so is a ratio to it.
type Row struct {
	Scenario    string   `json:"scenario"`
	Guarantee   string   `json:"guarantee"`
	ValueBytes  int      `json:"value_bytes"`
	Records     int64    `json:"records"` // of one pass over the data
	Millrace    *Side    `json:"millrace"`
	Java        *Side    `json:"java"`
	Bare        *Side    `json:"bare"`
	RatioToJava *float64 `json:"ratio_to_java"` // records per second, median of the repeats' ratios
	RatioToBare *float64 `json:"ratio_to_bare"`
	Spread      float64  `json:"spread"` // (highest - lowest) / median of records per second, of the side that varied most
}

// Side is the medians of a side's runs.
type Side struct {
	RecordsPerSecond     float64 `json:"records_per_second"`
	CPUSecondsPerMillion float64 `json:"cpu_seconds_per_million"`
	PeakRSSBytes         int64   `json:"peak_rss_bytes"`
	ChangelogBytes       int64   `json:"changelog_bytes"` // written for one pass over the data; of a join's table the whole
}

// Figure is a number with a goal. Millrace and Met are null in a build without millrace's side.
type Figure struct {
	Name     string   `json:"name"`
	Unit     string   `json:"unit"`
	Better   string   `json:"better"` // lower or higher
	Millrace *float64 `json:"millrace"`
	Java     *float64 `json:"java"`
	Target   *float64 `json:"target"`
	Met      *bool    `json:"met"`
	// Runs are what millrace's figure is the median of, in order, where they are not in a row.
	Runs []float64 `json:"runs,omitempty"`
}

// Runs are the repeats of one kind of work: for each side its results, in order. Results with the same index ran one
// after the other.
type Runs struct {
	Work    measure.Work
	Records int64
	Sides   map[string][]measure.Result
}

// Summarise makes the report.
func Summarise(machine Machine, all []Runs, trials Trials) Report {
	r := Report{Machine: machine, Rows: []Row{}, Figures: []Figure{}}
	for _, runs := range all {
		row := runs.row()
		r.Rows = append(r.Rows, row)
		r.Figures = append(r.Figures, goals(row)...)
	}
	r.Figures = append(r.Figures, exactlyOnce(r.Rows)...)
	r.Figures = append(r.Figures, firstRecord(all)...)
	r.Figures = append(r.Figures, trials.figures()...)
	return r
}

func (r Runs) row() Row {
	row := Row{
		Scenario: string(r.Work.Scenario), Guarantee: r.Work.Guarantee, ValueBytes: r.Work.ValueBytes, Records: r.Records,
		Millrace: summary(r.Sides[Millrace]), Java: summary(r.Sides[Java]), Bare: summary(r.Sides[Bare]),
		RatioToJava: ratio(r.Sides[Millrace], r.Sides[Java]), RatioToBare: ratio(r.Sides[Millrace], r.Sides[Bare]),
	}
	for _, results := range r.Sides {
		row.Spread = max(row.Spread, spread(rates(results)))
	}
	return row
}

func summary(results []measure.Result) *Side {
	if len(results) == 0 {
		return nil
	}
	return &Side{
		RecordsPerSecond:     median(rates(results)),
		CPUSecondsPerMillion: median(column(results, func(r measure.Result) float64 { return r.CPUSecondsPerMillion })),
		PeakRSSBytes:         int64(median(column(results, func(r measure.Result) float64 { return float64(r.PeakRSSBytes) }))),
		ChangelogBytes:       int64(median(column(results, func(r measure.Result) float64 { return float64(r.ChangelogBytes) }))),
	}
}

// ratio is the median of what one side made of the other's rate in the same repeat: machines drift, neighbours less.
func ratio(a, b []measure.Result) *float64 {
	n := min(len(a), len(b))
	if n == 0 {
		return nil
	}
	var ratios []float64
	for i := range n {
		ratios = append(ratios, a[i].RecordsPerSecond/b[i].RecordsPerSecond)
	}
	return new(median(ratios))
}

func rates(results []measure.Result) []float64 {
	return column(results, func(r measure.Result) float64 { return r.RecordsPerSecond })
}

func column(results []measure.Result, of func(measure.Result) float64) []float64 {
	var out []float64
	for _, r := range results {
		out = append(out, of(r))
	}
	return out
}

// median of nothing is 0.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	mid := len(s) / 2
	if len(s)%2 == 1 {
		return s[mid]
	}
	return (s[mid-1] + s[mid]) / 2
}

func spread(values []float64) float64 {
	if m := median(values); m > 0 {
		return (slices.Max(values) - slices.Min(values)) / m
	}
	return 0
}

// WriteJSON writes the report as one indented JSON document.
func (r Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("bench: report: %w", err)
	}
	return nil
}

// WriteText writes the report as tables.
func (r Report) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "scenario\tguarantee\tbytes\tside\trecords/s\tCPU us/record\tpeak MB\tchangelog MB\tto java\tto bare\tspread")
	for _, row := range r.Rows {
		for _, s := range []struct {
			name string
			side *Side
		}{{Millrace, row.Millrace}, {Java, row.Java}, {Bare, row.Bare}} {
			if s.side == nil {
				continue
			}
			toJava, toBare := "", ""
			if s.name == Millrace {
				toJava, toBare = number(row.RatioToJava, "%.2f"), number(row.RatioToBare, "%.2f")
			}
			fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%.0f\t%.2f\t%d\t%d\t%s\t%s\t%.0f %%\n", row.Scenario, row.Guarantee, row.ValueBytes,
				s.name, s.side.RecordsPerSecond, s.side.CPUSecondsPerMillion, s.side.PeakRSSBytes>>20, s.side.ChangelogBytes>>20,
				toJava, toBare, row.Spread*100)
		}
	}
	fmt.Fprintln(t, "\nfigure\tunit\tbetter\tmillrace\tjava\ttarget\tmet")
	for _, f := range r.Figures {
		met := ""
		if f.Met != nil {
			met = fmt.Sprint(*f.Met)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", f.Name, f.Unit, f.Better,
			number(f.Millrace, "%.4g"), number(f.Java, "%.4g"), number(f.Target, "%.4g"), met)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("bench: report: %w", err)
	}
	return nil
}

func number(v *float64, format string) string {
	if v == nil {
		return ""
	}
	return fmt.Sprintf(format, *v)
}
