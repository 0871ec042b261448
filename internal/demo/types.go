package demo

import "time"

// WindowSize is the length of the demo's windows: hours of UTC, by departure.
const WindowSize = time.Hour

// SessionGap is the pause that ends a session of an aircraft.
const SessionGap = 6 * time.Hour

// WeatherGrace is how long a departure waits for the reading of its hour.
const WeatherGrace = 24 * time.Hour

// Flight is the value of topics flights and arrivals. A nil field is null: the data set has nothing there.
type Flight struct {
	Carrier               string     `json:"carrier"`
	Number                *int       `json:"flight"`
	TailNumber            *string    `json:"tail_number"`
	Origin                string     `json:"origin"`
	Destination           *string    `json:"destination"`
	ScheduledDeparture    time.Time  `json:"scheduled_departure"`
	Departure             *time.Time `json:"departure"` // nil: cancelled
	DepartureDelayMinutes *int       `json:"departure_delay_minutes"`
	AirTimeMinutes        *int       `json:"air_time_minutes"`
	DistanceMiles         *int       `json:"distance_miles"`
}

// Departed says that the flight was not cancelled.
func (f Flight) Departed() bool { return f.Departure != nil }

// EventTime is the time of the flight's record: its departure, or the scheduled one if it was cancelled.
func (f Flight) EventTime() time.Time {
	if f.Departure != nil {
		return *f.Departure
	}
	return f.ScheduledDeparture
}

// Landing is the time at which the flight is reported: its event time and the time in the air, none counting as 0.
func (f Flight) Landing() time.Time {
	if f.AirTimeMinutes == nil {
		return f.EventTime()
	}
	return f.EventTime().Add(time.Duration(*f.AirTimeMinutes) * time.Minute)
}

// Weather is the value of topic weather: the reading of an airport's station at the start of an hour.
type Weather struct {
	Origin               string    `json:"origin"`
	Hour                 time.Time `json:"hour"`
	TemperatureF         *float64  `json:"temperature_f"`
	DewPointF            *float64  `json:"dew_point_f"`
	HumidityPercent      *float64  `json:"humidity_percent"`
	WindDirectionDegrees *int      `json:"wind_direction_degrees"`
	WindSpeedMph         *float64  `json:"wind_speed_mph"`
	WindGustMph          *float64  `json:"wind_gust_mph"`
	PrecipitationInches  *float64  `json:"precipitation_inches"`
	PressureMillibars    *float64  `json:"pressure_millibars"`
	VisibilityMiles      *float64  `json:"visibility_miles"`
}

// Plane is the value of topic planes.
type Plane struct {
	TailNumber   string  `json:"tail_number"`
	Year         *int    `json:"year"` // of manufacture
	Type         *string `json:"type"`
	Manufacturer *string `json:"manufacturer"`
	Model        *string `json:"model"`
	Engines      *int    `json:"engines"`
	Seats        *int    `json:"seats"`
	Speed        *int    `json:"speed"` // cruising, miles per hour
	Engine       *string `json:"engine"`
}

func (p *Plane) seats() int64 {
	if p.Seats == nil {
		return 0
	}
	return int64(*p.Seats)
}

// Airline is the value of topic airlines.
type Airline struct {
	Carrier string `json:"carrier"`
	Name    string `json:"name"`
}

// HourStats is the value of topic departures-by-hour.
type HourStats struct {
	Count            int64   `json:"count"`
	MeanDelayMinutes float64 `json:"mean_delay_minutes"`
}

// LateFlight is the value of topic departures-late: the flight, and the window of departures-by-hour that had closed before
// it was reported.
type LateFlight struct {
	Flight
	WindowStart time.Time `json:"window_start"`
	WindowEnd   time.Time `json:"window_end"`
}

// UniquePlanes is the value of topic planes-by-hour.
type UniquePlanes struct {
	Unique int64 `json:"unique"` // distinct tail numbers
}

// EnrichedFlight is the value of topic flights-enriched: the flight and what the tables know of it.
type EnrichedFlight struct {
	Flight
	Plane   *Plane  `json:"plane"`   // nil: no tail number, or none of that number
	Airline *string `json:"airline"` // its name; nil: no carrier of that code
}

// AircraftSession is the value of topic aircraft-sessions: the flights that an aircraft landed without a pause of more than
// SessionGap between two of them.
type AircraftSession struct {
	Flights         int64   `json:"flights"`
	FirstOrigin     string  `json:"first_origin"`
	LastDestination *string `json:"last_destination"`
}

// DepartureWeather is the value of topic departures-weather: a flight that departed, and the reading at its airport at the start
// of its hour.
type DepartureWeather struct {
	Flight
	Weather *Weather `json:"weather"` // nil: there is no reading
}

// Maker is a row of the table of manufacturers.
type Maker struct {
	Planes int64 `json:"planes"`
	Seats  int64 `json:"seats"`
}

// MadePlane is a row of the table of planes with what is known of their manufacturer.
type MadePlane struct {
	TailNumber   string `json:"tail_number"`
	Manufacturer string `json:"manufacturer"`
	Maker
}

// FlightMaker is the value of topic flights-by-maker: the plane of a flight, and all planes and seats of its manufacturer.
type FlightMaker struct {
	Carrier   string    `json:"carrier"`
	Number    *int      `json:"flight"`
	Origin    string    `json:"origin"`
	Scheduled time.Time `json:"scheduled_departure"`
	MadePlane
}

// CarrierSeats is the value of topic seats-by-carrier.
type CarrierSeats struct {
	Flights int64 `json:"flights"`
	Seats   int64 `json:"seats"` // 0 counted for a flight whose plane is unknown
}
