package live

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"
	"go.uber.org/goleak"

	"github.com/millrace-io/millrace/internal/demo"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var hour = time.Date(2013, 1, 5, 10, 0, 0, 0, time.UTC)

func output(t *testing.T, topic, key string, start time.Time, v any) demo.Output {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return demo.Output{Topic: topic, Key: &key, Start: start, Value: b, Time: start}
}

func flight(number int, departure time.Time) demo.Flight {
	to, tail := "IAH", "N14228"
	return demo.Flight{Carrier: "UA", Number: &number, TailNumber: &tail, Origin: "EWR", Destination: &to,
		ScheduledDeparture: departure, Departure: &departure}
}

// filled is a board with something of everything, and more hours and flights than it keeps.
func filled(t *testing.T) *Board {
	t.Helper()
	b := NewBoard()
	maker, typ, airline := "BOEING", "737-824", "United Air Lines Inc."
	for i := range 2 * keepHours {
		start := hour.Add(time.Duration(i) * time.Hour)
		for _, origin := range []string{"LGA", "EWR", "JFK"} {
			b.Add(output(t, demo.DeparturesByHourTopic, origin, start, demo.HourStats{Count: int64(i), MeanDelayMinutes: -3.25}))
			b.Add(output(t, demo.PlanesByHourTopic, origin, start, demo.UniquePlanes{Unique: int64(i) / 2}))
		}
		b.Add(output(t, demo.FlightsEnrichedTopic, "N14228", start, demo.EnrichedFlight{
			Flight: flight(i, start), Plane: &demo.Plane{Manufacturer: &maker, Model: &typ}, Airline: &airline}))
		b.Add(output(t, demo.DeparturesLateTopic, "EWR", start, demo.LateFlight{Flight: flight(i, start)}))
	}
	for carrier, n := range map[string]int64{"UA": 4637, "AA": 2794, "B6": 4427, "DL": 3690, "EV": 4171, "MQ": 2271, "AS": 62} {
		b.Add(output(t, demo.SeatsByCarrierTopic, carrier, hour, demo.CarrierSeats{Flights: 1, Seats: 2}))
		b.Add(output(t, demo.SeatsByCarrierTopic, carrier, hour, demo.CarrierSeats{Flights: n, Seats: 100 * n}))
	}
	return b
}

func TestBoard_keepsTheNewest(t *testing.T) {
	b := filled(t)
	// An hour older than all that is kept has no place, and must not drive out a newer one.
	b.Add(output(t, demo.PlanesByHourTopic, "EWR", hour, demo.UniquePlanes{Unique: 7}))
	s := b.Snapshot()
	if len(s.Hours) != keepHours {
		t.Fatalf("%d hours kept, want %d", len(s.Hours), keepHours)
	}
	if first, last := s.Hours[0].Start, s.Hours[keepHours-1].Start; !first.Equal(hour.Add((2*keepHours-1)*time.Hour)) ||
		!last.Equal(hour.Add(keepHours*time.Hour)) {
		t.Errorf("hours from %v to %v", first, last)
	}
	if got := fmt.Sprint(s.Origins); got != "[EWR JFK LGA]" {
		t.Errorf("origins %s", got)
	}
	if c := s.Hours[0].Cells["JFK"]; c.Stats.Count != 2*keepHours-1 || c.Planes != keepHours-1 {
		t.Errorf("newest cell of JFK %+v", c)
	}
	if len(s.Flights) != keepFlights || *s.Flights[0].Number != 2*keepHours-1 {
		t.Errorf("%d flights kept, the newest %v", len(s.Flights), *s.Flights[0].Number)
	}
	if s.Late != 2*keepHours || *s.Lates[0].Number != 2*keepHours-1 {
		t.Errorf("%d late, the newest %v", s.Late, *s.Lates[0].Number)
	}
	if s.Seats[0].Carrier != "UA" || s.Seats[0].Seats != 463700 || len(s.Seats) != 7 {
		t.Errorf("seats %+v", s.Seats)
	}
}

func TestBoard_leavesOutWhatItCannotRead(t *testing.T) {
	b := NewBoard()
	key := "k"
	for _, d := range demo.DerivedTopics() {
		b.Add(demo.Output{Topic: d.Name, Key: &key, Start: hour, Value: []byte("7")})
		b.Add(demo.Output{Topic: d.Name, Key: nil, Start: hour})
	}
	if s := b.Snapshot(); len(s.Seats)+len(s.Flights)+len(s.Lates) != 0 {
		t.Errorf("board shows %+v", s)
	}
}

func TestView_showsProgressAndTopicsWithinTheTerminal(t *testing.T) {
	m := newModel("broker 127.0.0.1:9092", filled(t), func() {}, lipgloss.NewRenderer(io.Discard))
	var v tea.Model = m
	v, _ = v.Update(progressMsg{Total: 27004, Fed: 14000, Processed: 13502, Lag: 498, Rate: 2000.4, EventTime: hour})
	v, _ = v.Update(frameMsg{})
	for _, size := range []tea.WindowSizeMsg{{Width: 80, Height: 24}, {Width: 100, Height: 50}, {Width: 200, Height: 12}, {Width: 20, Height: 4}} {
		v, _ = v.Update(size)
		text := v.View()
		lines := strings.Split(text, "\n")
		if len(lines) > max(size.Height, 6) {
			t.Errorf("%v: %d lines", size, len(lines))
		}
		for _, l := range lines {
			if w := lipgloss.Width(l); w > max(size.Width, smallest) {
				t.Errorf("%v: a line of %d characters: %q", size, w, l)
			}
		}
		want := []string{"millrace demo", "50 %", "13,502 of"}
		if size.Width >= 80 {
			want = append(want, "127.0.0.1:9092", "27,004 flights, 2,000 a second", "2013-01-05 10:00 UTC", "lag 498", "late 96", "q or Ctrl-C")
		}
		if size.Height >= 24 {
			want = append(want, demo.DeparturesByHourTopic, "EWR", "01-09 09:00", "-3.2", demo.SeatsByCarrierTopic)
		}
		if size.Height >= 50 {
			want = append(want, "463,700 seats", demo.FlightsEnrichedTopic, "boeing 737-824", "UA 95", demo.DeparturesLateTopic)
		}
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%v does not show %q:\n%s", size, w, text)
			}
		}
	}
}

func TestView_beforeAnything(t *testing.T) {
	m := newModel("here", NewBoard(), func() {}, lipgloss.NewRenderer(io.Discard))
	for _, w := range []string{"0 %", "none yet", "nothing yet"} {
		if !strings.Contains(m.View(), w) {
			t.Errorf("does not show %q:\n%s", w, m.View())
		}
	}
}

func TestModel_keysStopTheRun(t *testing.T) {
	for _, key := range []tea.KeyMsg{{Type: tea.KeyRunes, Runes: []rune("q")}, {Type: tea.KeyCtrlC}, {Type: tea.KeyEsc}} {
		stopped := 0
		m, cmd := newModel("here", NewBoard(), func() { stopped++ }, lipgloss.NewRenderer(io.Discard)).Update(key)
		if stopped != 1 || cmd != nil || !strings.Contains(m.View(), "stopping") {
			t.Errorf("%v: stopped %d times, view %q", key, stopped, m.View())
		}
	}
	stopped := false
	newModel("here", NewBoard(), func() { stopped = true }, lipgloss.NewRenderer(io.Discard)).
		Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("x")})
	if stopped {
		t.Error("any key stops the run")
	}
}

func TestRun_returnsWhatTheRunReturned(t *testing.T) {
	failed := errors.New("failed")
	var out bytes.Buffer
	s, err := Run(t.Context(), strings.NewReader(""), &out, "here",
		func(_ context.Context, progress func(demo.Progress), add func(demo.Output)) (demo.Summary, error) {
			progress(demo.Progress{Total: 10, Processed: 5})
			add(output(t, demo.SeatsByCarrierTopic, "UA", hour, demo.CarrierSeats{}))
			return demo.Summary{Fed: 5}, failed
		})
	if s.Fed != 5 || !errors.Is(err, failed) {
		t.Errorf("Run: %+v, %v", s, err)
	}
}

func TestRun_aKeyEndsTheContextOfTheRun(t *testing.T) {
	_, err := Run(t.Context(), strings.NewReader("q"), io.Discard, "here",
		func(ctx context.Context, _ func(demo.Progress), _ func(demo.Output)) (demo.Summary, error) {
			<-ctx.Done()
			return demo.Summary{}, demo.ErrInterrupted
		})
	if !errors.Is(err, demo.ErrInterrupted) {
		t.Errorf("Run: %v", err)
	}
}
