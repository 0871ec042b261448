package demo

import (
	"bufio"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// oracle is what the demo must come to, found by one plain pass over the CSV files. It shares no code with the demo: it reads
// the files itself, counts minutes instead of times, and has its own partitioner.
type oracle struct {
	data *oracleData

	flights, departed int
	late              []map[string]any // the values of departures-late, by partition and then in order
	lateByPartition   [][]map[string]any
	hours             map[string]hourly // last row of departures-by-hour and planes-by-hour, by origin and hour
	seats             map[string][2]int // last row of seats-by-carrier: flights, seats
}

type hourly struct {
	count, delay int
	tails        map[string]bool
}

// oracleData is what stands in the files.
type oracleData struct {
	landed   []landedRow // in the order of landing
	planes   map[string]map[string]any
	airlines map[string]any
	weather  map[string]map[string]any // by origin and hour
	last     int                       // the highest event time of flights and weather
}

type landedRow struct {
	row            map[string]string
	event, landing int // minutes since the epoch
}

// oracleCache keeps the data of each directory read: the tests ask for the same again and again.
var oracleCache = map[string]*oracleData{}

func readOracleData(t *testing.T, dir string) *oracleData {
	t.Helper()
	if d, ok := oracleCache[dir]; ok {
		return d
	}
	d := &oracleData{planes: map[string]map[string]any{}, airlines: map[string]any{}, weather: map[string]map[string]any{}}
	for _, r := range oracleCSV(t, dir, "weather") {
		r["minute"] = "0"
		at := scheduled(t, r)
		d.last = max(d.last, at)
		key := r["origin"] + " " + minute(at)
		if d.weather[key] != nil {
			t.Fatalf("two readings of %s", key)
		}
		d.weather[key] = map[string]any{
			"origin": r["origin"], "hour": minute(at), "temperature_f": fraction(t, r["temp"]), "dew_point_f": fraction(t, r["dewp"]),
			"humidity_percent": fraction(t, r["humid"]), "wind_direction_degrees": number(t, r["wind_dir"]),
			"wind_speed_mph": fraction(t, r["wind_speed"]), "wind_gust_mph": fraction(t, r["wind_gust"]),
			"precipitation_inches": fraction(t, r["precip"]), "pressure_millibars": fraction(t, r["pressure"]),
			"visibility_miles": fraction(t, r["visib"]),
		}
	}
	for _, r := range oracleCSV(t, dir, "planes") {
		d.planes[r["tailnum"]] = map[string]any{
			"tail_number": r["tailnum"], "year": number(t, r["year"]), "type": str(r["type"]),
			"manufacturer": str(r["manufacturer"]), "model": str(r["model"]), "engines": number(t, r["engines"]),
			"seats": number(t, r["seats"]), "speed": number(t, r["speed"]), "engine": str(r["engine"]),
		}
	}
	for _, r := range oracleCSV(t, dir, "airlines") {
		d.airlines[r["carrier"]] = r["name"]
	}
	for _, r := range oracleCSV(t, dir, "flights") {
		event := scheduled(t, r)
		if isThere(r["dep_time"]) {
			event += integer(t, r["dep_delay"])
		}
		landing := event
		if isThere(r["air_time"]) {
			landing += integer(t, r["air_time"])
		}
		d.landed = append(d.landed, landedRow{r, event, landing})
		d.last = max(d.last, event)
	}
	slices.SortStableFunc(d.landed, func(a, b landedRow) int { return a.landing - b.landing })
	oracleCache[dir] = d
	return d
}

// newOracle passes over flights, planes and airlines of a directory (.csv.gz).
func newOracle(t *testing.T, dir string, grace time.Duration, partitions int) *oracle {
	t.Helper()
	o := &oracle{
		data:            readOracleData(t, dir),
		lateByPartition: make([][]map[string]any, partitions),
		hours:           map[string]hourly{},
		seats:           map[string][2]int{},
	}
	observed := map[int]int{} // by partition: the highest event time that its windows have seen
	for _, f := range o.data.landed {
		r := f.row
		o.flights++
		if !isThere(r["dep_time"]) {
			continue
		}
		o.departed++
		seats := o.seats[r["carrier"]]
		seats[0]++
		if plane := o.data.planes[r["tailnum"]]; plane["seats"] != nil {
			seats[1] += int(plane["seats"].(float64))
		}
		o.seats[r["carrier"]] = seats

		partition := int(murmur2([]byte(r["origin"]))&0x7fffffff) % partitions
		observed[partition] = max(observed[partition], f.event)
		start := f.event - f.event%60
		if start+60 <= observed[partition]-int(grace/time.Minute) {
			value := flightValue(t, r)
			value["window_start"], value["window_end"] = minute(start), minute(start+60)
			o.lateByPartition[partition] = append(o.lateByPartition[partition], value)
			continue
		}
		k := r["origin"] + " " + minute(start)
		h := o.hours[k]
		if h.tails == nil {
			h.tails = map[string]bool{}
		}
		h.count++
		h.delay += integer(t, r["dep_delay"])
		if isThere(r["tailnum"]) {
			h.tails[r["tailnum"]] = true
		}
		o.hours[k] = h
	}
	for _, p := range o.lateByPartition {
		o.late = append(o.late, p...)
	}
	return o
}

// enriched returns the key and value of each record of flights-enriched, and how often it comes.
func (o *oracle) enriched(t *testing.T) map[string]int {
	t.Helper()
	enriched := map[string]int{}
	for _, f := range o.data.landed {
		value := flightValue(t, f.row)
		value["plane"], value["airline"] = nil, nil
		key := "null"
		if tail := f.row["tailnum"]; isThere(tail) {
			key = strconv.Quote(tail)
			if plane, ok := o.data.planes[tail]; ok {
				value["plane"] = plane
			}
		}
		if name, ok := o.data.airlines[f.row["carrier"]]; ok {
			value["airline"] = name
		}
		enriched[key+" "+canonical(t, value)]++
	}
	return enriched
}

// check compares the files and the summary of a run that began with empty topics and was not disturbed.
func (o *oracle) check(t *testing.T, dir string, s Summary) {
	t.Helper()
	o.checkFlights(t, dir, s)
	files := outputFiles(t, dir, s)
	o.checkSessions(t, files[AircraftSessionsTopic], false)
	o.checkWeather(t, files[DeparturesWeatherTopic], false)
	o.checkMakers(t, files, false)
}

func outputFiles(t *testing.T, dir string, s Summary) map[string][]outputLine {
	t.Helper()
	files := map[string][]outputLine{}
	for _, topic := range s.Topics {
		files[topic.Topic] = outputLines(t, dir, topic.Topic)
	}
	return files
}

// checkFlights compares what follows from flights, planes and airlines alone.
func (o *oracle) checkFlights(t *testing.T, dir string, s Summary) {
	t.Helper()
	files := outputFiles(t, dir, s)
	for _, topic := range s.Topics {
		if n := len(files[topic.Topic]); int64(n) != topic.Records {
			t.Errorf("the summary says %d records in %s, its file has %d", topic.Records, topic.Topic, n)
		}
	}
	departures := lastRows(t, DeparturesByHourTopic, files)
	planes := lastRows(t, PlanesByHourTopic, files)
	if len(departures) != len(o.hours) {
		t.Errorf("departures-by-hour has %d keys, want %d", len(departures), len(o.hours))
	}
	wantPlanes := 0
	for key, want := range o.hours {
		row, ok := departures[key]
		if !ok {
			t.Errorf("departures-by-hour has no %s", key)
			continue
		}
		mean := float64(want.delay) / float64(want.count)
		if row["count"] != float64(want.count) || math.Abs(row["mean_delay_minutes"].(float64)-mean) > 1e-9*max(1, math.Abs(mean)) ||
			len(row) != 2 {
			t.Errorf("departures-by-hour %s is %v, want count %d and mean %v", key, row, want.count, mean)
		}
		if got := planes[key]["unique"]; got != float64(len(want.tails)) {
			t.Errorf("planes-by-hour %s is %v, want unique %d", key, planes[key], len(want.tails))
		}
		wantPlanes++
	}
	if len(planes) != wantPlanes {
		t.Errorf("planes-by-hour has %d keys, want %d", len(planes), wantPlanes)
	}

	seats := lastRows(t, SeatsByCarrierTopic, files)
	if len(seats) != len(o.seats) {
		t.Errorf("seats-by-carrier has %d keys, want %d", len(seats), len(o.seats))
	}
	for carrier, want := range o.seats {
		row := seats[carrier]
		if row["flights"] != float64(want[0]) || row["seats"] != float64(want[1]) || len(row) != 2 {
			t.Errorf("seats-by-carrier %s is %v, want %v", carrier, row, want)
		}
	}

	enriched := map[string]int{}
	for _, l := range files[FlightsEnrichedTopic] {
		key := "null"
		if l.Key != nil {
			key = strconv.Quote(*l.Key)
		}
		enriched[key+" "+canonical(t, l.Value)]++
	}
	wantEnriched := o.enriched(t)
	missing, extra := less(wantEnriched, enriched), less(enriched, wantEnriched)
	if len(missing)+len(extra) > 0 {
		t.Errorf("flights-enriched lacks %d records and has %d that it should not: lacks %.1000q, has %.1000q", len(missing), len(extra),
			missing, extra)
	}

	o.checkLate(t, files[DeparturesLateTopic])

	want := Summary{
		Fed: int64(o.flights), Departed: int64(o.departed), Counted: int64(o.departed - len(o.late)), Late: int64(len(o.late)),
		Dropped: int64(len(o.late)),
	}
	got := Summary{Fed: s.Fed, Departed: s.Departed, Counted: s.Counted, Late: s.Late, Dropped: s.Dropped}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
}

// checkAtLeast compares what a run left that was killed and went on: records may have been processed twice, so totals may be too
// high but never too low, and each flight is there once at least.
func (o *oracle) checkAtLeast(t *testing.T, dir string, s Summary) {
	t.Helper()
	files := outputFiles(t, dir, s)
	o.checkSessions(t, files[AircraftSessionsTopic], true)
	o.checkWeather(t, files[DeparturesWeatherTopic], true)
	o.checkMakers(t, files, true)
	departures := lastRows(t, DeparturesByHourTopic, files)
	planes := lastRows(t, PlanesByHourTopic, files)
	for key, want := range o.hours {
		if got, _ := departures[key]["count"].(float64); got < float64(want.count) {
			t.Errorf("departures-by-hour %s is %v, want at least %d", key, departures[key], want.count)
		}
		if got, _ := planes[key]["unique"].(float64); got != float64(len(want.tails)) {
			t.Errorf("planes-by-hour %s is %v, want %d, however often a plane was seen", key, planes[key], len(want.tails))
		}
	}
	if len(departures) != len(o.hours) || len(planes) != len(o.hours) {
		t.Errorf("%d and %d hours, want %d", len(departures), len(planes), len(o.hours))
	}
	seats := lastRows(t, SeatsByCarrierTopic, files)
	for carrier, want := range o.seats {
		flights, _ := seats[carrier]["flights"].(float64)
		flown, _ := seats[carrier]["seats"].(float64)
		if flights < float64(want[0]) || flown < float64(want[1]) {
			t.Errorf("seats-by-carrier %s is %v, want at least %v", carrier, seats[carrier], want)
		}
	}
	distinct := func(topic string) map[string]int {
		all := map[string]int{}
		for _, l := range files[topic] {
			all[canonical(t, l.Value)] = 1
		}
		return all
	}
	late := map[string]int{}
	for _, l := range o.late {
		late[canonical(t, l)] = 1
	}
	if missing, extra := less(late, distinct(DeparturesLateTopic)), less(distinct(DeparturesLateTopic), late); len(missing)+len(extra) > 0 {
		t.Errorf("departures-late lacks %d flights and has %d that are not late: lacks %.1000q, has %.1000q", len(missing), len(extra),
			missing, extra)
	}
	enriched := map[string]int{}
	for l := range o.enriched(t) {
		_, value, _ := strings.Cut(l, " ")
		enriched[value] = 1
	}
	if missing, extra := less(enriched, distinct(FlightsEnrichedTopic)), less(distinct(FlightsEnrichedTopic), enriched); len(missing)+len(extra) > 0 {
		t.Errorf("flights-enriched lacks %d flights and has %d others: lacks %.1000q, has %.1000q", len(missing), len(extra), missing, extra)
	}
	if s.Fed != int64(o.flights) || s.Departed != int64(o.departed) || s.Counted < int64(o.departed-len(o.late)) ||
		s.Late < int64(len(o.late)) {
		t.Errorf("summary %+v, want at least %d flights, %d departed, %d late", s, o.flights, o.departed, len(o.late))
	}
}

// less returns what a has more of than b.
func less(a, b map[string]int) []string {
	var more []string
	for k, n := range a {
		for range n - b[k] {
			more = append(more, k)
		}
	}
	return more
}

// checkLate compares departures-late: the same flights, with the windows they missed, in the order of each partition.
func (o *oracle) checkLate(t *testing.T, lines []outputLine) {
	t.Helper()
	var late []map[string]any
	for _, l := range lines {
		value := l.Value
		if l.Key == nil || *l.Key != value["origin"] {
			t.Errorf("a late flight from %v has key %v", value["origin"], l.Key)
		}
		if l.Timestamp != value["departure"] {
			t.Errorf("a late flight of %v has timestamp %s", value["departure"], l.Timestamp)
		}
		late = append(late, value)
	}
	if diff := cmp.Diff(o.late, late); diff != "" {
		t.Errorf("departures-late: %d records, want %d (-want +got):\n%.2000s", len(late), len(o.late), diff)
	}
}

// outputLine is a line of an output file, as a stranger would read it.
type outputLine struct {
	Key         *string        `json:"key"`
	WindowStart string         `json:"window_start"`
	WindowEnd   string         `json:"window_end"`
	Value       map[string]any `json:"value"`
	Timestamp   string         `json:"timestamp"`
}

func outputLines(t *testing.T, dir, topic string) []outputLine {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, topic+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var lines []outputLine
	for s := bufio.NewScanner(f); s.Scan(); {
		var l outputLine
		if err := json.Unmarshal(s.Bytes(), &l); err != nil {
			t.Fatalf("%s line %d: %v", topic, len(lines)+1, err)
		}
		lines = append(lines, l)
	}
	return lines
}

// lastRows returns the last value of each key, and window where there is one.
func lastRows(t *testing.T, topic string, files map[string][]outputLine) map[string]map[string]any {
	t.Helper()
	rows := map[string]map[string]any{}
	for _, l := range files[topic] {
		if l.Key == nil {
			t.Errorf("%s holds a null key", topic)
			continue
		}
		key := *l.Key
		if l.WindowStart != "" {
			start, err := time.Parse(time.RFC3339, l.WindowStart)
			if err != nil {
				t.Fatal(err)
			}
			if end := start.Add(time.Hour).Format(time.RFC3339); l.WindowEnd != end {
				t.Errorf("%s %s: window from %s to %s", topic, key, l.WindowStart, l.WindowEnd)
			}
			key += " " + l.WindowStart
		}
		if l.Value == nil {
			delete(rows, key)
			continue
		}
		rows[key] = l.Value
	}
	return rows
}

func oracleCSV(t *testing.T, dir, name string) []map[string]string {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, name+".csv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	r := csv.NewReader(z)
	header, err := r.Read()
	if err != nil {
		t.Fatal(err)
	}
	var rows []map[string]string
	for {
		fields, err := r.Read()
		if err == io.EOF {
			return rows
		}
		if err != nil {
			t.Fatal(err)
		}
		row := map[string]string{}
		for i, f := range fields {
			row[header[i]] = f
		}
		rows = append(rows, row)
	}
}

func isThere(s string) bool { return s != "" && s != "NA" }

func str(s string) any {
	if !isThere(s) {
		return nil
	}
	return s
}

func integer(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func fraction(t *testing.T, s string) any {
	t.Helper()
	if !isThere(s) {
		return nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// number is a number as encoding/json decodes it, or nil.
func number(t *testing.T, s string) any {
	t.Helper()
	if !isThere(s) {
		return nil
	}
	return float64(integer(t, s))
}

// scheduled is a flight's scheduled departure in minutes since the epoch.
func scheduled(t *testing.T, r map[string]string) int {
	t.Helper()
	var year, month, day, hour int
	if _, err := fmt.Sscanf(r["time_hour"], "%d-%d-%dT%d:00:00Z", &year, &month, &day, &hour); err != nil {
		t.Fatal(err)
	}
	days := day - 1
	for m := 1; m < month; m++ {
		days += []int{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}[m-1]
	}
	if year == 2014 {
		days += 365
	} else if year != 2013 {
		t.Fatalf("year %d", year)
	}
	const daysTo2013 = 15706
	return ((daysTo2013+days)*24+hour)*60 + integer(t, r["minute"])
}

// minute writes minutes since the epoch as a time.
func minute(m int) string { return time.Unix(int64(m)*60, 0).UTC().Format("2006-01-02T15:04:05Z") }

func flightValue(t *testing.T, r map[string]string) map[string]any {
	t.Helper()
	at := scheduled(t, r)
	v := map[string]any{
		"carrier": r["carrier"], "flight": number(t, r["flight"]), "tail_number": str(r["tailnum"]), "origin": r["origin"],
		"destination": str(r["dest"]), "scheduled_departure": minute(at), "departure": nil,
		"departure_delay_minutes": number(t, r["dep_delay"]), "air_time_minutes": number(t, r["air_time"]),
		"distance_miles": number(t, r["distance"]),
	}
	if isThere(r["dep_time"]) {
		v["departure"] = minute(at + integer(t, r["dep_delay"]))
	}
	return v
}

func canonical(t *testing.T, v map[string]any) string {
	t.Helper()
	b, err := json.Marshal(v) // keys in order
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// murmur2 is Kafka's hash of keys, from its definition.
func murmur2(b []byte) uint32 {
	const m = 0x5bd1e995
	h := uint32(0x9747b28c) ^ uint32(len(b))
	for ; len(b) >= 4; b = b[4:] {
		k := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
		k *= m
		k ^= k >> 24
		h = h*m ^ k*m
	}
	if len(b) > 2 {
		h ^= uint32(b[2]) << 16
	}
	if len(b) > 1 {
		h ^= uint32(b[1]) << 8
	}
	if len(b) > 0 {
		h = (h ^ uint32(b[0])) * m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}

func TestOracle_findsTheKnownNumbersOfJanuary(t *testing.T) {
	for _, c := range []struct {
		partitions int
		grace      time.Duration
		late       int
	}{
		{4, 2 * time.Hour, 5529}, {4, 6 * time.Hour, 62}, {4, 24 * time.Hour, 0},
		{1, 2 * time.Hour, 6430}, {1, 6 * time.Hour, 62}, {1, 24 * time.Hour, 0},
	} {
		t.Run(fmt.Sprint(c.partitions, c.grace), func(t *testing.T) {
			o := newOracle(t, "data", c.grace, c.partitions)
			if o.flights != 27004 || o.departed != 26483 || len(o.late) != c.late {
				t.Errorf("%d flights, %d departed, %d late, want 27004, 26483, %d", o.flights, o.departed, len(o.late), c.late)
			}
			counted := 0
			for _, h := range o.hours {
				counted += h.count
			}
			if counted+len(o.late) != o.departed {
				t.Errorf("%d counted and %d late of %d", counted, len(o.late), o.departed)
			}
		})
	}
}

func TestOracle_placesRecordsAsTheFeederDoes(t *testing.T) {
	for _, n := range []int32{1, 4, 7} {
		in := someInputs(t, 0, n)
		for _, topic := range in.topics {
			for _, r := range topic.rows {
				if want := int32(int(murmur2([]byte(r.key))&0x7fffffff) % int(n)); r.partition != want {
					t.Fatalf("%s key %q goes to partition %d of %d, want %d", topic.name, r.key, r.partition, n, want)
				}
			}
		}
	}
}
