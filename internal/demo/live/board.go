// Package live shows a demo run on a terminal: how far it is, and some of the derived topics as they fill.
package live

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/millrace-io/millrace/internal/demo"
)

// Board keeps what the view shows of the derived topics: the last value of each key that may still be seen. It may be used
// by several goroutines.
type Board struct {
	mu      sync.Mutex
	hours   map[time.Time]map[string]Cell // by window and origin
	origins map[string]bool
	seats   map[string]demo.CarrierSeats
	late    int64
	lates   []demo.LateFlight // the newest, newest last
	flights []demo.EnrichedFlight
}

// Cell is one origin's hour.
type Cell struct {
	Stats  demo.HourStats
	Planes int64
}

// How much a board keeps: enough for a tall terminal.
const (
	keepHours   = 48
	keepFlights = 20
)

// NewBoard returns an empty board.
func NewBoard() *Board {
	return &Board{hours: map[time.Time]map[string]Cell{}, origins: map[string]bool{}, seats: map[string]demo.CarrierSeats{}}
}

// Add takes in one record of a derived topic. What it cannot read it leaves out: the view must not end a run.
func (b *Board) Add(o demo.Output) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch o.Topic {
	case demo.DeparturesByHourTopic:
		var v demo.HourStats
		if cell := b.cell(o); cell != nil && json.Unmarshal(o.Value, &v) == nil {
			cell.Stats = v
			b.hours[o.Start][*o.Key] = *cell
		}
	case demo.PlanesByHourTopic:
		var v demo.UniquePlanes
		if cell := b.cell(o); cell != nil && json.Unmarshal(o.Value, &v) == nil {
			cell.Planes = v.Unique
			b.hours[o.Start][*o.Key] = *cell
		}
	case demo.DeparturesLateTopic:
		var v demo.LateFlight
		if json.Unmarshal(o.Value, &v) == nil {
			b.late++
			b.lates = newest(b.lates, v)
		}
	case demo.FlightsEnrichedTopic:
		var v demo.EnrichedFlight
		if json.Unmarshal(o.Value, &v) == nil {
			b.flights = newest(b.flights, v)
		}
	case demo.SeatsByCarrierTopic:
		var v demo.CarrierSeats
		if o.Key != nil && json.Unmarshal(o.Value, &v) == nil {
			b.seats[*o.Key] = v
		}
	}
}

// cell returns the present cell of a windowed record, nil if the record has no place on the board.
func (b *Board) cell(o demo.Output) *Cell {
	if o.Key == nil {
		return nil
	}
	b.origins[*o.Key] = true
	row := b.hours[o.Start]
	if row == nil {
		row = map[string]Cell{}
		b.hours[o.Start] = row
		if len(b.hours) > keepHours {
			oldest := slices.MinFunc(slices.Collect(maps.Keys(b.hours)), time.Time.Compare)
			delete(b.hours, oldest)
			if oldest.Equal(o.Start) {
				return nil
			}
		}
	}
	cell := row[*o.Key]
	return &cell
}

func newest[T any](s []T, v T) []T {
	if len(s) == keepFlights {
		s = append(s[:0], s[1:]...)
	}
	return append(s, v)
}

// Snapshot is a board at one moment.
type Snapshot struct {
	Origins []string // in order
	Hours   []Hour   // newest first
	Seats   []Seats  // most flights first
	Late    int64
	Lates   []demo.LateFlight     // newest first
	Flights []demo.EnrichedFlight // newest first
}

// Hour is one window and its cells by origin.
type Hour struct {
	Start time.Time
	Cells map[string]Cell
}

// Seats is one carrier's row.
type Seats struct {
	Carrier string
	demo.CarrierSeats
}

// Snapshot copies what the board holds.
func (b *Board) Snapshot() Snapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := Snapshot{
		Origins: slices.Sorted(maps.Keys(b.origins)),
		Late:    b.late,
		Lates:   slices.Clone(b.lates),
		Flights: slices.Clone(b.flights),
	}
	slices.Reverse(s.Lates)
	slices.Reverse(s.Flights)
	for start, cells := range b.hours {
		s.Hours = append(s.Hours, Hour{start, maps.Clone(cells)})
	}
	slices.SortFunc(s.Hours, func(a, b Hour) int { return b.Start.Compare(a.Start) })
	for carrier, v := range b.seats {
		s.Seats = append(s.Seats, Seats{carrier, v})
	}
	slices.SortFunc(s.Seats, func(a, b Seats) int {
		return cmp.Or(cmp.Compare(b.Flights, a.Flights), cmp.Compare(a.Carrier, b.Carrier))
	})
	return s
}
