package demo

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
)

// What follows from arrivals, weather and the tables, by the plain pass. atLeast allows for records that were processed twice:
// counts may be too high and records may come again, but nothing may be missing.

// session is a row of aircraft-sessions.
type session struct {
	flights     int
	first, last any
}

// sessions finds the sessions of each aircraft, by tail number, start and end.
func (o *oracle) sessions(t *testing.T) map[string]session {
	t.Helper()
	byTail := map[string][]landedRow{}
	for _, f := range o.data.landed {
		if tail := f.row["tailnum"]; isThere(tail) && isThere(f.row["dep_time"]) && isThere(f.row["air_time"]) {
			byTail[tail] = append(byTail[tail], f)
		}
	}
	found := map[string]session{}
	for tail, flights := range byTail {
		for len(flights) > 0 {
			n := 1
			for n < len(flights) && flights[n].landing-flights[n-1].landing <= 6*60 {
				n++
			}
			key := tail + " " + minute(flights[0].landing) + " " + minute(flights[n-1].landing)
			found[key] = session{n, flights[0].row["origin"], str(flights[n-1].row["dest"])}
			flights = flights[n:]
		}
	}
	return found
}

func (o *oracle) checkSessions(t *testing.T, lines []outputLine, atLeast bool) {
	t.Helper()
	rows := map[string]map[string]any{}
	for _, l := range lines {
		if l.Key == nil {
			t.Fatal("aircraft-sessions holds a null key")
		}
		key := *l.Key + " " + l.WindowStart + " " + l.WindowEnd
		if l.Value == nil {
			delete(rows, key)
			continue
		}
		rows[key] = l.Value
	}
	want := o.sessions(t)
	if len(rows) != len(want) {
		t.Errorf("aircraft-sessions has %d sessions, want %d", len(rows), len(want))
	}
	for key, w := range want {
		row := rows[key]
		if !counted(row["flights"], w.flights, atLeast) || row["first_origin"] != w.first || row["last_destination"] != w.last ||
			len(row) != 3 {
			t.Errorf("aircraft-sessions %s is %v, want %v", key, row, w)
		}
	}
}

// counted compares a count.
func counted(got any, want int, atLeast bool) bool {
	n, ok := got.(float64)
	return ok && (int(n) == want || atLeast && int(n) > want)
}

func (o *oracle) checkWeather(t *testing.T, lines []outputLine, atLeast bool) {
	t.Helper()
	// Departures of the last day whose reading is missing wait for a record that never comes, or just comes: left out.
	open := minute(o.data.last - 25*60)
	want, got := map[string]int{}, map[string]int{}
	for _, f := range o.data.landed {
		if !isThere(f.row["dep_time"]) {
			continue
		}
		value := flightValue(t, f.row)
		value["weather"] = nil
		if w, ok := o.data.weather[f.row["origin"]+" "+minute(f.event-f.event%60)]; ok {
			value["weather"] = w
		}
		if value["weather"] != nil || value["departure"].(string) <= open {
			want[canonical(t, value)]++
		}
	}
	for _, l := range lines {
		if l.Key == nil || *l.Key != l.Value["origin"] || l.Timestamp != l.Value["departure"] {
			t.Fatalf("departures-weather holds %+v: its key is not the origin, or its time not the departure", l)
		}
		if l.Value["weather"] != nil || l.Value["departure"].(string) <= open {
			got[canonical(t, l.Value)]++
		}
	}
	missing, extra := less(want, got), less(got, want)
	if atLeast {
		extra = slices.DeleteFunc(extra, func(v string) bool { return want[v] > 0 })
	}
	if len(missing)+len(extra) > 0 {
		t.Errorf("departures-weather lacks %d records and has %d that it should not: lacks %.1000q, has %.1000q", len(missing),
			len(extra), missing, extra)
	}
}

func (o *oracle) checkMakers(t *testing.T, files map[string][]outputLine, atLeast bool) {
	t.Helper()
	makers := map[string][2]int{} // planes, seats
	for _, p := range o.data.planes {
		if maker, ok := p["manufacturer"].(string); ok {
			m := makers[maker]
			m[0]++
			if p["seats"] != nil {
				m[1] += int(p["seats"].(float64))
			}
			makers[maker] = m
		}
	}
	want := map[string]map[string]any{}
	for _, f := range o.data.landed {
		value := flightValue(t, f.row)
		at := scheduled(t, f.row)
		key := fmt.Sprintf("%s %v %s %s", f.row["carrier"], cmp.Or(f.row["flight"], "0"), f.row["origin"], minute(at-at%60))
		plane, ok := o.data.planes[f.row["tailnum"]]
		if !ok || plane["manufacturer"] == nil {
			delete(want, key) // the last flight of a key counts
			continue
		}
		m := makers[plane["manufacturer"].(string)]
		want[key] = map[string]any{
			"carrier": value["carrier"], "flight": value["flight"], "origin": value["origin"],
			"scheduled_departure": value["scheduled_departure"], "tail_number": plane["tail_number"],
			"manufacturer": plane["manufacturer"], "planes": m[0], "seats": m[1],
		}
	}
	got := lastRows(t, FlightsByMakerTopic, files)
	if len(got) != len(want) {
		t.Errorf("flights-by-maker has %d rows, want %d", len(got), len(want))
	}
	for key, w := range want {
		row := got[key]
		same := len(row) == len(w) && counted(row["planes"], w["planes"].(int), atLeast) && counted(row["seats"], w["seats"].(int), atLeast)
		for _, field := range []string{"carrier", "flight", "origin", "scheduled_departure", "tail_number", "manufacturer"} {
			same = same && row[field] == w[field]
		}
		if !same {
			t.Errorf("flights-by-maker %s is %v, want %v", key, row, w)
		}
	}
}
