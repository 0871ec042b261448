package demo

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	flightsHeader  = "dep_time,dep_delay,carrier,flight,tailnum,origin,dest,air_time,distance,minute,time_hour\n"
	weatherHeader  = "origin,temp,dewp,humid,wind_dir,wind_speed,wind_gust,precip,pressure,visib,time_hour\n"
	planesHeader   = "tailnum,year,type,manufacturer,model,engines,seats,speed,engine\n"
	airlinesHeader = "carrier,name\n"
)

// dataDir writes a data directory; files replaces or adds to a small valid one.
func dataDir(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	all := map[string]string{
		"flights.csv":  flightsHeader + "517,2,UA,1545,N14228,EWR,IAH,227,1400,15,2013-01-01T10:00:00Z\n",
		"weather.csv":  weatherHeader + "EWR,39.02,26.06,59.37,270,10.36,NA,0,1012,10,2013-01-01T10:00:00Z\n",
		"planes.csv":   planesHeader + "N14228,1999,Fixed wing multi engine,BOEING,737-824,2,149,NA,Turbo-fan\n",
		"airlines.csv": airlinesHeader + "UA,United Air Lines Inc.\n",
	}
	for name, content := range files {
		all[name] = content
	}
	for name, content := range all {
		if content == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func zipped(t *testing.T, s string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(s)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestLoad_readsValuesAndNulls(t *testing.T) {
	d, err := Load(dataDir(t, map[string]string{
		"flights.csv": "\uFEFF" + flightsHeader +
			"517,2,UA,1545,N14228,EWR,IAH,227,1400,15,2013-01-01T10:00:00Z\n" +
			"NA,NA,EV,4308,,EWR,RDU,NA,416,30,2013-01-01T21:00:00Z\n",
	}))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range []any{d.Flights[0], d.Flights[1], d.Planes[0], d.Airlines[0]} {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(b))
	}
	want := []string{
		`{"carrier":"UA","flight":1545,"tail_number":"N14228","origin":"EWR","destination":"IAH",` +
			`"scheduled_departure":"2013-01-01T10:15:00Z","departure":"2013-01-01T10:17:00Z","departure_delay_minutes":2,` +
			`"air_time_minutes":227,"distance_miles":1400}`,
		`{"carrier":"EV","flight":4308,"tail_number":null,"origin":"EWR","destination":"RDU",` +
			`"scheduled_departure":"2013-01-01T21:30:00Z","departure":null,"departure_delay_minutes":null,` +
			`"air_time_minutes":null,"distance_miles":416}`,
		`{"tail_number":"N14228","year":1999,"type":"Fixed wing multi engine","manufacturer":"BOEING","model":"737-824",` +
			`"engines":2,"seats":149,"speed":null,"engine":"Turbo-fan"}`,
		`{"carrier":"UA","name":"United Air Lines Inc."}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
}

func TestLoad_readsGzip(t *testing.T) {
	d, err := Load(dataDir(t, map[string]string{
		"planes.csv":    "",
		"planes.csv.gz": zipped(t, planesHeader+"N1,NA,NA,NA,NA,NA,7,NA,NA\nN2,NA,NA,NA,NA,NA,8,NA,NA\n"),
	}))
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Planes) != 2 || *d.Planes[1].Seats != 8 {
		t.Errorf("planes read: %+v", d.Planes)
	}
}

func TestLoad_ordersByLanding(t *testing.T) {
	d, err := Load(dataDir(t, map[string]string{"flights.csv": flightsHeader +
		"1,0,AA,1,N1,EWR,X,60,1,0,2013-01-01T10:00:00Z\n" + // lands 11:00
		"1,5,AA,2,N1,EWR,X,10,1,0,2013-01-01T10:00:00Z\n" + // lands 10:15
		"1,0,AA,3,N1,EWR,X,NA,1,15,2013-01-01T10:00:00Z\n" + // counts as landed at 10:15, behind the one above
		"NA,NA,AA,4,N1,EWR,X,NA,1,59,2013-01-01T10:00:00Z\n" + // cancelled, 10:59
		"1,-60,AA,5,N1,EWR,X,74,1,0,2013-01-01T11:00:00Z\n", // departs at 10:00, lands 11:14
	}))
	if err != nil {
		t.Fatal(err)
	}
	var order []int
	for _, f := range d.Flights {
		order = append(order, *f.Number)
	}
	if diff := cmp.Diff([]int{2, 3, 4, 1, 5}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestLoad_badInputSaysWhere(t *testing.T) {
	const flight = "517,2,UA,1545,N14228,EWR,IAH,227,1400,15,2013-01-01T10:00:00Z\n"
	flights := func(row string) map[string]string {
		return map[string]string{"flights.csv": flightsHeader + flight + row}
	}
	for name, c := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"no number":     {flights("517,soon,UA,1,N1,EWR,IAH,227,1400,15,2013-01-01T10:00:00Z\n"), []string{"flights.csv line 3", "column dep_delay", `"soon"`, "whole number"}},
		"too large":     {flights("517,99999999999,UA,1,N1,EWR,IAH,227,1400,15,2013-01-01T10:00:00Z\n"), []string{"line 3", "dep_delay", "99999999999"}},
		"bad minute":    {flights("517,2,UA,1,N1,EWR,IAH,227,1400,60,2013-01-01T10:00:00Z\n"), []string{"line 3", "column minute", `"60"`, "0 to 59"}},
		"bad time":      {flights("517,2,UA,1,N1,EWR,IAH,227,1400,15,2013-01-01 10:00\n"), []string{"line 3", "column time_hour", `"2013-01-01 10:00"`}},
		"bad dep_time":  {flights("early,2,UA,1,N1,EWR,IAH,227,1400,15,2013-01-01T10:00:00Z\n"), []string{"line 3", "column dep_time", `"early"`}},
		"no delay":      {flights("517,NA,UA,1,N1,EWR,IAH,227,1400,15,2013-01-01T10:00:00Z\n"), []string{"line 3", "column dep_delay", `"NA"`}},
		"no origin":     {flights("517,2,UA,1,N1,,IAH,227,1400,15,2013-01-01T10:00:00Z\n"), []string{"line 3", "column origin"}},
		"before tables": {flights("517,2,UA,1,N1,EWR,IAH,227,1400,15,2012-12-31T10:00:00Z\n"), []string{"line 3", "column time_hour", "2012-12-31T10:00:00Z"}},
		"short row":     {flights("517,2,UA\n"), []string{"flights.csv line 3", "number of fields"}},
		"stray quote":   {flights("517,\"2,UA\n"), []string{"flights.csv line 3", "quote"}},
		"no column":     {map[string]string{"planes.csv": "tailnum,year\n"}, []string{"planes.csv", "no column type", "tailnum,year"}},
		"empty file":    {map[string]string{"airlines.csv": "\n"}, []string{"airlines.csv", "is empty", "carrier,name"}},
		"no file":       {map[string]string{"airlines.csv": ""}, []string{"airlines.csv.gz", "--data"}},
		"no gzip":       {map[string]string{"planes.csv": "", "planes.csv.gz": "tailnum"}, []string{"planes.csv.gz", "gzip"}},
		"cut gzip": {map[string]string{"planes.csv": "", "planes.csv.gz": zipped(t, planesHeader+strings.Repeat("N1,NA,NA,NA,NA,NA,7,NA,NA\n", 1000))[:90]},
			[]string{"planes.csv.gz", "unexpected EOF", "complete copy"}},
		"two on a line": {map[string]string{"airlines.csv": airlinesHeader + "\"a\nb\",x\n,y\n"}, []string{"airlines.csv line 4", "column carrier"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(dataDir(t, c.files))
			if err == nil {
				t.Fatal("no error")
			}
			for _, w := range append(c.want, "millrace: demo: ") {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q does not say %q", err, w)
				}
			}
		})
	}
}

func TestLoad_badDirectory(t *testing.T) {
	for _, dir := range []string{filepath.Join(t.TempDir(), "none"), filepath.Join(dataDir(t, nil), "planes.csv")} {
		if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "--data") {
			t.Errorf("Load(%q): %v", dir, err)
		}
	}
}

func TestEmbedded_isJanuary(t *testing.T) {
	d, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	departed := 0
	for _, f := range d.Flights {
		if f.Departed() {
			departed++
		}
	}
	got := []int{len(d.Flights), departed, len(d.Weather), len(d.Planes), len(d.Airlines)}
	if diff := cmp.Diff([]int{27004, 26483, 2226, 3322, 16}, got); diff != "" {
		t.Errorf("flights, departed, weather, planes, airlines (-want +got):\n%s", diff)
	}
}

func TestInputs_areAFunctionOfDataAndPartitions(t *testing.T) {
	d, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	in, err := NewInputs(d, 4)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, topic := range in.topics {
		names = append(names, topic.name)
		next := make([]int64, in.Partitions)
		for i, r := range topic.rows {
			if r.offset != next[r.partition] {
				t.Fatalf("%s row %d has offset %d in partition %d, want %d", topic.name, i, r.offset, r.partition, next[r.partition])
			}
			next[r.partition]++
		}
		if diff := cmp.Diff(next, topic.ends); diff != "" {
			t.Errorf("%s ends (-want +got):\n%s", topic.name, diff)
		}
	}
	if want := []string{AirlinesTopic, PlanesTopic, FlightsTopic, ArrivalsTopic, WeatherTopic}; !slices.Equal(names, want) {
		t.Errorf("topics are %q, want %q", names, want)
	}
	fed := map[string]int{}
	for i, r := range in.live {
		if i > 0 && r.at.Before(in.live[i-1].at) {
			t.Fatalf("record %d is fed before an earlier one", i)
		}
		if r.n != fed[r.in.name] {
			t.Fatalf("%s: row %d is fed after %d rows", r.in.name, r.n, fed[r.in.name])
		}
		fed[r.in.name]++
	}
	if want := map[string]int{FlightsTopic: 27004, ArrivalsTopic: 26398, WeatherTopic: 2226}; !maps.Equal(fed, want) {
		t.Errorf("fed %v, want %v", fed, want)
	}

	var total, departed int64
	last := time.Time{}
	for p, n := range in.topics[2].ends {
		total += n
		departed += in.Departed(int32(p), n)
		if at := in.EventTime(int32(p), n+10); at.After(last) {
			last = at
		}
		if in.Departed(int32(p), 0) != 0 || !in.EventTime(int32(p), 0).IsZero() {
			t.Errorf("partition %d: the first 0 records hold something", p)
		}
	}
	if total != 27004 || departed != 26483 {
		t.Errorf("%d flights, %d departed over the partitions", total, departed)
	}
	if want := time.Date(2013, 2, 1, 12, 0, 0, 0, time.UTC); last.After(want) || last.Before(want.AddDate(0, 0, -2)) {
		t.Errorf("event time reached at the end is %v", last)
	}
	if _, err := NewInputs(d, 0); err == nil {
		t.Error("0 partitions: no error")
	}
}
