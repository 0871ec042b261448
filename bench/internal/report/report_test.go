package report

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/bench/internal/measure"
	"github.com/millrace-io/millrace/bench/internal/side"
)

func results(rates ...float64) []measure.Result {
	var out []measure.Result
	for _, r := range rates {
		out = append(out, measure.Result{
			RecordsPerSecond: r, CPUSecondsPerMillion: 1e6 / r, PeakRSSBytes: 100, ChangelogBytes: 50, FirstRecord: time.Second,
		})
	}
	return out
}

func work(guarantee string) measure.Work {
	return measure.Work{Scenario: side.Count, Guarantee: guarantee, ValueBytes: 100}
}

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 100}, 3}} {
		if got := median(tt.values); got != tt.want {
			t.Errorf("median of %v is %v, want %v", tt.values, got, tt.want)
		}
	}
}

func TestRatiosAreOfNeighbours(t *testing.T) {
	// The machine was twice as slow in the second repeat: the ratio of the medians would be 7, that of neighbours is 5.
	runs := Runs{Work: work(side.AtLeastOnce), Records: 10, Sides: map[string][]measure.Result{
		Millrace: results(1000, 500, 700), Java: results(200, 100, 100),
	}}
	row := Summarise(Machine{}, []Runs{runs}, Trials{}).Rows[0]
	if *row.RatioToJava != 5 {
		t.Errorf("ratio to Java is %v, want 5", *row.RatioToJava)
	}
	if row.RatioToBare != nil || row.Bare != nil {
		t.Error("a side that was not measured has a figure")
	}
	if row.Java.RecordsPerSecond != 100 || row.Millrace.RecordsPerSecond != 700 {
		t.Errorf("medians %v and %v", row.Java.RecordsPerSecond, row.Millrace.RecordsPerSecond)
	}
	if row.Spread != 1 { // Java's: (200 - 100) / 100
		t.Errorf("spread %v, want 1", row.Spread)
	}
}

func TestGoals(t *testing.T) {
	figure := func(r Report, prefix string) Figure {
		t.Helper()
		i := slices.IndexFunc(r.Figures, func(f Figure) bool { return strings.HasPrefix(f.Name, prefix) })
		if i < 0 {
			t.Fatalf("no figure %q", prefix)
		}
		return r.Figures[i]
	}
	summarise := func(millrace, java, bare float64) Report {
		return Summarise(Machine{}, []Runs{{Work: work(side.AtLeastOnce), Sides: map[string][]measure.Result{
			Millrace: results(millrace), Java: results(java), Bare: results(bare),
		}}}, Trials{})
	}
	if f := figure(summarise(499, 100, 10_000), "throughput"); *f.Target != 500 || *f.Met {
		t.Errorf("five times Java: target %v, met %v", *f.Target, *f.Met)
	}
	if f := figure(summarise(421, 100, 600), "throughput"); *f.Target != 420 || !*f.Met {
		t.Errorf("0.7 of bare: target %v, met %v", *f.Target, *f.Met)
	}
	if f := figure(summarise(499, 100, 1), "CPU"); f.Better != lower || *f.Met {
		t.Errorf("more than a fifth of Java's CPU: %+v", f)
	}
	if f := figure(summarise(501, 100, 1), "CPU"); !*f.Met {
		t.Errorf("less than a fifth of Java's CPU: %+v", f)
	}
	if f := figure(summarise(1, 1, 1), "start"); *f.Met || *f.Java != 1 {
		t.Errorf("start: %+v", f)
	}
}

func TestExactlyOnceAgainstAtLeastOnce(t *testing.T) {
	r := Summarise(Machine{}, []Runs{
		{Work: work(side.AtLeastOnce), Sides: map[string][]measure.Result{Millrace: results(1000), Java: results(100)}},
		{Work: work(side.ExactlyOnce), Sides: map[string][]measure.Result{Millrace: results(800), Java: results(50)}},
	}, Trials{})
	i := slices.IndexFunc(r.Figures, func(f Figure) bool { return strings.HasPrefix(f.Name, "CPU of exactly once") })
	if i < 0 {
		t.Fatal("no figure")
	}
	if f := r.Figures[i]; *f.Millrace != 1.25 || *f.Java != 2 || *f.Met {
		t.Errorf("millrace %v, Java %v, met %v", *f.Millrace, *f.Java, *f.Met)
	}
}

func TestWithoutMillraceNothingIsClaimed(t *testing.T) {
	r := Summarise(Machine{}, []Runs{{Work: work(side.AtLeastOnce), Sides: map[string][]measure.Result{
		Java: results(100), Bare: results(1000),
	}}}, Trials{})
	for _, f := range r.Figures {
		if f.Millrace != nil || f.Met != nil {
			t.Errorf("%s: %v, %v", f.Name, f.Millrace, f.Met)
		}
	}
}

// TestJSONKeys pins the form that other programs read.
func TestJSONKeys(t *testing.T) {
	r := Summarise(Machine{}, []Runs{{Work: work(side.AtLeastOnce), Sides: map[string][]measure.Result{
		Millrace: results(10), Java: results(100),
	}}}, Trials{})
	var text bytes.Buffer
	if err := r.WriteJSON(&text); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Machine map[string]any
		Rows    []map[string]any
		Figures []map[string]any
	}
	if err := json.Unmarshal(text.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	keys := func(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
	row := got.Rows[0]
	for _, tt := range []struct {
		what string
		got  []string
		want string
	}{
		{"row", keys(row), "bare guarantee java millrace ratio_to_bare ratio_to_java records scenario spread value_bytes"},
		{"side", keys(row["java"].(map[string]any)), "changelog_bytes cpu_seconds_per_million peak_rss_bytes records_per_second"},
		{"figure", keys(got.Figures[0]), "better java met millrace name target unit"},
	} {
		want := strings.Fields(tt.want)
		if diff := cmp.Diff(want, tt.got); diff != "" {
			t.Errorf("%s: %s", tt.what, diff)
		}
	}
	if row["bare"] != nil || row["ratio_to_bare"] != nil {
		t.Error("a side that was not measured is not null")
	}
	if err := r.WriteText(&text); err != nil {
		t.Error(err)
	}
}

func TestTrials(t *testing.T) {
	trials := Trials{
		Keys: 10, Guarantee: side.ExactlyOnce,
		Restarts: map[string][]float64{Millrace: {1, 9, 1.5}, Java: {4}},
		Restores: map[string][]float64{Millrace: {400_000}},
		Costs:    map[string][]float64{Java: {0.5}},
	}
	figures := Summarise(Machine{}, nil, trials).Figures
	if len(figures) != 3 {
		t.Fatalf("%d figures, want 3", len(figures))
	}
	restart, restore, cost := figures[0], figures[1], figures[2]
	if *restart.Millrace != 1.5 || *restart.Java != 4 || *restart.Target != 2 || !*restart.Met || len(restart.Runs) != 3 {
		t.Errorf("restart: %+v", restart)
	}
	if *restore.Millrace != 400_000 || restore.Java != nil || *restore.Met {
		t.Errorf("restore: %+v", restore)
	}
	if cost.Millrace != nil || cost.Met != nil || *cost.Java != 0.5 {
		t.Errorf("cost: %+v", cost)
	}
	if figures := Summarise(Machine{}, nil, Trials{}).Figures; len(figures) != 0 {
		t.Errorf("figures of nothing: %v", figures)
	}
}

func TestFleets(t *testing.T) {
	fleets := NewFleets()
	if figures := (Trials{Fleets: fleets}).figures(); len(figures) != 0 {
		t.Errorf("figures of nothing: %v", figures)
	}
	fleets.Warm[Millrace] = []measure.Failure{{Took: 6 * time.Second}, {Took: 9 * time.Second}, {Took: 7 * time.Second}}
	fleets.Cold[Millrace] = []measure.Failure{{Took: 11 * time.Second, Changelog: 1_000_000}}
	fleets.Joins[Millrace] = []measure.Joining{{Away: 2 * time.Second, Silent: 150 * time.Millisecond}}
	fleets.Rolls[Millrace] = []measure.Rolled{{Away: time.Second, Rebalances: 1}}
	want := []struct {
		name             string
		millrace, target float64
		met              bool
	}{
		{"failover with", 7, 8.5, true},
		{"failover without", 11, 10.5, false},
		{"join: a task that moves", 2, 1, false},
		{"join: a task that stays", 0.05, 0.1, true},
		{"rolling restart: a task", 1, 3, true},
		{"rolling restart: rebalances", 1, 0, false},
	}
	figures := (Trials{Fleets: fleets}).figures()
	if len(figures) != len(want) {
		t.Fatalf("%d figures, want %d", len(figures), len(want))
	}
	for i, w := range want {
		f := figures[i]
		if !strings.HasPrefix(f.Name, w.name) || *f.Millrace != w.millrace || *f.Target != w.target || *f.Met != w.met {
			t.Errorf("%q: %v of %v, met %v; want %+v", f.Name, *f.Millrace, *f.Target, *f.Met, w)
		}
	}
}
