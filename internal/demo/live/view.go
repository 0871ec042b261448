package live

import (
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/lipgloss"

	"github.com/millrace-io/millrace/internal/demo"
)

// styles are the view's colours. On a terminal without them the text stands by itself.
type styles struct {
	title, head, dim, bar, warn lipgloss.Style
}

func newStyles(r *lipgloss.Renderer) styles {
	return styles{
		title: r.NewStyle().Bold(true).Foreground(lipgloss.AdaptiveColor{Light: "25", Dark: "81"}),
		head:  r.NewStyle().Bold(true),
		dim:   r.NewStyle().Faint(true),
		bar:   r.NewStyle().Foreground(lipgloss.AdaptiveColor{Light: "29", Dark: "78"}),
		warn:  r.NewStyle().Foreground(lipgloss.AdaptiveColor{Light: "130", Dark: "215"}),
	}
}

// screen is what one frame is drawn from.
type screen struct {
	where         string // the broker
	status        string // said at the bottom
	progress      demo.Progress
	board         Snapshot
	width, height int
	styles        styles
}

// Sizes of the view in characters and lines.
const (
	smallest    = 40 // narrower terminals are drawn for this width
	widest      = 120
	labelWidth  = 12
	columnWidth = 22

	fewestHourLines = 7 // of which three are hours
)

// render draws a frame of at most height lines of at most width characters.
func (s screen) render() string {
	s.width = min(max(s.width, smallest), widest)
	top := s.top()
	bottom := []string{"", s.styles.dim.Render(s.status)}
	left := max(s.height-len(top)-len(bottom), 0)

	// Parts of a fixed size are shown while the hours keep enough lines, which get all that is left.
	var fixed []string
	for _, part := range [][]string{s.seats(), s.flights()} {
		if left-len(fixed)-len(part) >= fewestHourLines {
			fixed = append(fixed, part...)
		}
	}
	lines := top
	if left >= fewestHourLines {
		lines = append(lines, s.hours(left-len(fixed))...)
	}
	lines = append(append(lines, fixed...), bottom...)
	cut := lipgloss.NewStyle().MaxWidth(s.width)
	for i, l := range lines {
		lines[i] = cut.Render(l)
	}
	return strings.Join(lines, "\n")
}

func (s screen) top() []string {
	p := s.progress
	done := 0.0
	if p.Total > 0 {
		done = float64(p.Processed) / float64(p.Total)
	}
	reached := "none yet"
	if !p.EventTime.IsZero() {
		reached = p.EventTime.UTC().Format("2006-01-02 15:04 UTC")
	}
	late := "late " + demo.Thousands(s.board.Late)
	if s.board.Late > 0 {
		late = s.styles.warn.Render(late)
	}
	return []string{
		s.styles.title.Render("millrace demo") + s.styles.dim.Render("  flights out of New York, "+s.where),
		fmt.Sprintf("%s %3.0f %%  %s of %s flights, %s a second", s.bar(done, min(s.width/3, 30)), 100*done,
			demo.Thousands(p.Processed), demo.Thousands(p.Total), demo.Thousands(int64(p.Rate))),
		fmt.Sprintf("event time %s   lag %s records   %s", s.styles.head.Render(reached), demo.Thousands(p.Lag), late),
		"",
	}
}

func (s screen) bar(part float64, width int) string {
	full := min(max(int(part*float64(width)), 0), width)
	return s.styles.bar.Render(strings.Repeat("█", full)) + s.styles.dim.Render(strings.Repeat("░", width-full))
}

// hours draws departures-by-hour and planes-by-hour in at most height lines, newest hour first; delays are means in minutes.
func (s screen) hours(height int) []string {
	origins := s.board.Origins
	if fit := max((s.width-labelWidth)/columnWidth, 1); len(origins) > fit {
		origins = origins[:fit]
	}
	head := demo.DeparturesByHourTopic + " and " + demo.PlanesByHourTopic
	if len(origins) == 0 {
		return []string{s.styles.head.Render(head), s.styles.dim.Render("  nothing yet"), ""}
	}
	names := pad("", labelWidth)
	columns := pad("hour (UTC)", labelWidth)
	for _, o := range origins {
		names += s.styles.head.Render(fmt.Sprintf("%7s%*s", o, columnWidth-7, ""))
		columns += fmt.Sprintf("%7s %6s %6s ", "flights", "planes", "delay")
	}
	lines := []string{s.styles.head.Render(head), names, s.styles.dim.Render(columns)}
	for _, h := range s.board.Hours {
		if len(lines) >= height-1 {
			break
		}
		row := pad(h.Start.Format("01-02 15:04"), labelWidth)
		for _, o := range origins {
			c, ok := h.Cells[o]
			if !ok {
				row += pad("", columnWidth)
				continue
			}
			row += fmt.Sprintf("%7d %6d %+6.1f ", c.Stats.Count, c.Planes, c.Stats.MeanDelayMinutes)
		}
		lines = append(lines, row)
	}
	return append(lines, "")
}

// seats draws seats-by-carrier, the carriers with most flights.
func (s screen) seats() []string {
	const rows = 5
	lines := []string{s.styles.head.Render(demo.SeatsByCarrierTopic)}
	if len(s.board.Seats) == 0 {
		return append(lines, s.styles.dim.Render("  nothing yet"), "")
	}
	most := max(s.board.Seats[0].Flights, 1)
	for i, c := range s.board.Seats {
		if i == rows {
			break
		}
		lines = append(lines, fmt.Sprintf("  %-3s %8s flights %11s seats  %s", c.Carrier, demo.Thousands(c.Flights),
			demo.Thousands(c.Seats), s.bar(float64(c.Flights)/float64(most), min(s.width/4, 24))))
	}
	return append(lines, "")
}

// flights draws the newest of flights-enriched and departures-late.
func (s screen) flights() []string {
	const rows = 3
	lines := []string{s.styles.head.Render(demo.FlightsEnrichedTopic)}
	if len(s.board.Flights) == 0 {
		return append(lines, s.styles.dim.Render("  nothing yet"))
	}
	for i, f := range s.board.Flights {
		if i == rows {
			break
		}
		lines = append(lines, "  "+flightText(f))
	}
	if len(s.board.Lates) > 0 {
		l := s.board.Lates[0]
		lines = append(lines, s.styles.head.Render(demo.DeparturesLateTopic), s.styles.warn.Render(fmt.Sprintf(
			"  %s left %s at %s and landed after its hour had closed", name(l.Flight), l.Origin,
			l.EventTime().UTC().Format("01-02 15:04"))))
	}
	return lines
}

// flightText is an enriched flight in one line.
func flightText(f demo.EnrichedFlight) string {
	when := "cancelled       "
	if f.Departed() {
		when = "left " + f.Departure.UTC().Format("01-02 15:04")
	}
	to := "?"
	if f.Destination != nil {
		to = *f.Destination
	}
	text := fmt.Sprintf("%-8s %s to %-4s %s  ", name(f.Flight), f.Origin, to, when)
	if f.Airline != nil {
		text += *f.Airline + "  "
	}
	if f.Plane != nil && f.Plane.Manufacturer != nil && f.Plane.Model != nil {
		text += strings.ToLower(*f.Plane.Manufacturer) + " " + *f.Plane.Model
	}
	return text
}

// name is a flight's number as passengers know it.
func name(f demo.Flight) string {
	if f.Number == nil {
		return f.Carrier
	}
	return fmt.Sprintf("%s %d", f.Carrier, *f.Number)
}

func pad(s string, width int) string {
	return fmt.Sprintf("%-*s", width, s)
}

// refresh is the time between two frames.
const refresh = 100 * time.Millisecond
