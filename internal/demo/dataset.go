package demo

import (
	"cmp"
	"compress/gzip"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"
)

// january holds the flights and the weather of January 2013 with all planes and airlines; data/README.md says where they come from.
//
//go:embed data/*.csv.gz
var january embed.FS

// Dataset is the demo's data.
type Dataset struct {
	Flights  []Flight  // in the order in which aircraft landed, ties in file order
	Weather  []Weather // in the order of time, ties in file order
	Planes   []Plane   // in file order
	Airlines []Airline
}

// Embedded reads the data that comes with the program: January 2013.
func Embedded() (*Dataset, error) { return load(january, "data", "embedded ") }

// Load reads a directory: flights, weather, planes and airlines, each as .csv or .csv.gz (the former where both are there). NA and
// empty fields mean none. An error names the file, line, column and value.
func Load(dir string) (*Dataset, error) {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return nil, fmt.Errorf("millrace: demo: cannot read the data directory: %w; check --data", err)
	case !info.IsDir():
		return nil, fmt.Errorf("millrace: demo: data directory %s is not a directory; check --data", dir)
	}
	return load(os.DirFS(dir), ".", dir+string(filepath.Separator))
}

// load reads the four files under dir of fsys; shown is put before their names in errors.
func load(fsys fs.FS, dir, shown string) (*Dataset, error) {
	var d Dataset
	for _, f := range []struct {
		name string
		read func(file string, r io.Reader) error
	}{
		{"flights", d.readFlights}, {"weather", d.readWeather}, {"planes", d.readPlanes}, {"airlines", d.readAirlines},
	} {
		if err := open(fsys, dir, f.name, shown, f.read); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(d.Flights, func(a, b Flight) int { return a.Landing().Compare(b.Landing()) })
	slices.SortStableFunc(d.Weather, func(a, b Weather) int { return a.Hour.Compare(b.Hour) })
	return &d, nil
}

// open hands the content of name.csv or name.csv.gz to read.
func open(fsys fs.FS, dir, name, shown string, read func(file string, r io.Reader) error) (err error) {
	file := name + ".csv"
	f, err := fsys.Open(path.Join(dir, file))
	if errors.Is(err, fs.ErrNotExist) {
		file += ".gz"
		f, err = fsys.Open(path.Join(dir, file))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("millrace: demo: neither %s%s.csv nor %s%s.csv.gz exists; check --data", shown, name, shown, name)
	}
	if err != nil {
		return fmt.Errorf("millrace: demo: cannot open %s%s: %w", shown, file, err)
	}
	defer f.Close()
	var r io.Reader = f
	if path.Ext(file) == ".gz" {
		z, err := gzip.NewReader(f)
		if err != nil {
			return fmt.Errorf("millrace: demo: cannot read %s%s as gzip: %w; get a complete copy of the file", shown, file, err)
		}
		defer func() { err = cmp.Or(err, z.Close()) }()
		r = z
	}
	return read(shown+file, r)
}

func (d *Dataset) readFlights(file string, r io.Reader) error {
	t, err := newTable(file, r, "dep_time", "dep_delay", "carrier", "flight", "tailnum", "origin", "dest", "air_time",
		"distance", "minute", "time_hour")
	if err != nil {
		return err
	}
	for t.next() {
		f := Flight{
			Carrier:     t.needText("carrier"),
			Number:      t.whole("flight"),
			TailNumber:  t.text("tailnum"),
			Origin:      t.needText("origin"),
			Destination: t.text("dest"),
			ScheduledDeparture: t.needTime("time_hour").
				Add(time.Duration(t.needWhole("minute", 0, 59)) * time.Minute),
			DepartureDelayMinutes: t.whole("dep_delay"),
			AirTimeMinutes:        t.whole("air_time"),
			DistanceMiles:         t.whole("distance"),
		}
		if t.whole("dep_time") != nil {
			if f.DepartureDelayMinutes == nil {
				v, _ := t.raw("dep_delay")
				t.fail("dep_delay", v, "a delay, which a flight with a dep_time must have")
				break
			}
			at := f.ScheduledDeparture.Add(time.Duration(*f.DepartureDelayMinutes) * time.Minute)
			f.Departure = &at
		}
		if !f.EventTime().After(tablesTime) {
			v, _ := t.raw("time_hour")
			t.fail("time_hour", v, "in 2013 or later, and the flight would come before the planes and airlines")
			break
		}
		d.Flights = append(d.Flights, f)
	}
	return t.err
}

func (d *Dataset) readWeather(file string, r io.Reader) error {
	t, err := newTable(file, r, "origin", "temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip", "pressure",
		"visib", "time_hour")
	if err != nil {
		return err
	}
	for t.next() {
		d.Weather = append(d.Weather, Weather{
			Origin:               t.needText("origin"),
			Hour:                 t.needTime("time_hour"),
			TemperatureF:         t.number("temp"),
			DewPointF:            t.number("dewp"),
			HumidityPercent:      t.number("humid"),
			WindDirectionDegrees: t.whole("wind_dir"),
			WindSpeedMph:         t.number("wind_speed"),
			WindGustMph:          t.number("wind_gust"),
			PrecipitationInches:  t.number("precip"),
			PressureMillibars:    t.number("pressure"),
			VisibilityMiles:      t.number("visib"),
		})
	}
	return t.err
}

func (d *Dataset) readPlanes(file string, r io.Reader) error {
	t, err := newTable(file, r, "tailnum", "year", "type", "manufacturer", "model", "engines", "seats", "speed", "engine")
	if err != nil {
		return err
	}
	for t.next() {
		d.Planes = append(d.Planes, Plane{
			TailNumber:   t.needText("tailnum"),
			Year:         t.whole("year"),
			Type:         t.text("type"),
			Manufacturer: t.text("manufacturer"),
			Model:        t.text("model"),
			Engines:      t.whole("engines"),
			Seats:        t.whole("seats"),
			Speed:        t.whole("speed"),
			Engine:       t.text("engine"),
		})
	}
	return t.err
}

func (d *Dataset) readAirlines(file string, r io.Reader) error {
	t, err := newTable(file, r, "carrier", "name")
	if err != nil {
		return err
	}
	for t.next() {
		d.Airlines = append(d.Airlines, Airline{Carrier: t.needText("carrier"), Name: t.needText("name")})
	}
	return t.err
}
