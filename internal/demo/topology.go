package demo

import (
	"fmt"
	"slices"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// The topics with their types. A tail number is a pointer because some flights have none, and stay in flights-enriched with
// a null key.
var (
	flightsTopic  = millrace.NewTopic(FlightsTopic, serde.String, serde.JSON[Flight]())
	planesTopic   = millrace.NewTopic(PlanesTopic, serde.Nullable(serde.String), serde.JSON[Plane]())
	airlinesTopic = millrace.NewTopic(AirlinesTopic, serde.String, serde.JSON[Airline]())
	arrivalsTopic = millrace.NewTopic(ArrivalsTopic, serde.String, serde.JSON[Flight]())
	weatherTopic  = millrace.NewTopic(WeatherTopic, serde.String, serde.JSON[Weather]())

	originHour            = serde.Windowed(serde.String, WindowSize)
	departuresByHourTopic = millrace.NewTopic(DeparturesByHourTopic, originHour, serde.JSON[HourStats]())
	departuresLateTopic   = millrace.NewTopic(DeparturesLateTopic, serde.String, serde.JSON[LateFlight]())
	planesByHourTopic     = millrace.NewTopic(PlanesByHourTopic, originHour, serde.JSON[UniquePlanes]())
	flightsEnrichedTopic  = millrace.NewTopic(FlightsEnrichedTopic, serde.Nullable(serde.String), serde.JSON[EnrichedFlight]())
	seatsByCarrierTopic   = millrace.NewTopic(SeatsByCarrierTopic, serde.String, serde.JSON[CarrierSeats]())

	aircraftSessionsTopic  = millrace.NewTopic(AircraftSessionsTopic, serde.SessionWindowed(serde.String), serde.JSON[AircraftSession]())
	departuresWeatherTopic = millrace.NewTopic(DeparturesWeatherTopic, serde.String, serde.JSON[DepartureWeather]())
	flightsByMakerTopic    = millrace.NewTopic(FlightsByMakerTopic, serde.String, serde.JSON[FlightMaker]())
)

// Topology returns the demo's topology. A flight still counts in its hour if it is reported up to grace later than the
// newest departure of its partition.
//
// The windows by origin stand in front of every repartition topic on purpose: there a record is late or not by the input
// alone. Behind one, tasks that read the input at different speeds would decide it.
func Topology(grace time.Duration) (*millrace.Topology, error) {
	b := millrace.NewBuilder()
	flights := millrace.From(b, flightsTopic)
	departed := flights.Filter(func(_ string, f Flight) bool { return f.Departed() })

	// How many left each airport in each hour, and how late. What comes too late for its hour is kept by itself.
	byHour := departed.GroupByKey().WindowBy(window.Tumbling(WindowSize).Grace(grace))
	delays, late := millrace.AggregateWindows(byHour, newDelays, addDelay, serde.JSON[hourDelays](),
		millrace.As(DeparturesByHourTopic))
	millrace.MapTableValues(delays, hourDelays.stats).ToStream().To(departuresByHourTopic)
	millrace.MapValues(late, lateFlight).To(departuresLateTopic)

	// How many different planes left. Here late flights are dropped, and counted in the metrics.
	tails, _ := millrace.AggregateWindows(byHour, newTails, addTail, serde.List(serde.String), millrace.As(PlanesByHourTopic))
	millrace.MapTableValues(tails, uniqueTails).ToStream().To(planesByHourTopic)

	// What is known of each flight. The join with planes needs the flights in the partitions of their planes; the airlines
	// are few, and every instance has them all.
	planes := millrace.TableFrom(b, planesTopic, millrace.As(PlanesTopic))
	airlines := millrace.GlobalTableFrom(b, airlinesTopic, millrace.As(AirlinesTopic))
	byPlane := millrace.SelectKey(flights, func(_ string, f Flight) *string { return f.TailNumber })
	withPlane := millrace.LeftJoinTable(byPlane, planes, addPlane, millrace.As("flights-by-plane"),
		millrace.WithKey(serde.Nullable(serde.String)))
	enriched := millrace.LeftJoinGlobal(withPlane, airlines, carrierOf, addAirline)
	enriched.To(flightsEnrichedTopic)

	// How many seats each carrier flew.
	seats := millrace.Map(enriched.Filter(func(_ *string, f EnrichedFlight) bool { return f.Departed() }), seatsOf)
	byCarrier := seats.GroupByKey(millrace.WithKey[string](serde.String), millrace.WithValue[int64](serde.Int64))
	carriers := millrace.Aggregate(byCarrier, newSeats, addSeats, serde.JSON[CarrierSeats](), millrace.As(SeatsByCarrierTopic))
	carriers.ToStream().To(seatsByCarrierTopic)

	// The days of each aircraft: what it flew until it stood still for a while. Arrivals come in the order of their time.
	arrivals := millrace.From(b, arrivalsTopic)
	sessions, _ := millrace.AggregateSessions(arrivals.GroupByKey().SessionBy(window.Session(SessionGap)), newSession, addArrival,
		mergeSessions, serde.JSON[AircraftSession](), millrace.As(AircraftSessionsTopic))
	sessions.ToStream().To(aircraftSessionsTopic)

	// Each departure with the weather at the start of its hour: the one reading that is less than an hour older.
	weather := millrace.From(b, weatherTopic)
	itsHour := window.Within(0).Before(WindowSize - time.Millisecond).Grace(WeatherGrace)
	inWeather, _ := millrace.LeftJoinStreams(departed, weather, itsHour, addWeather, millrace.As(DeparturesWeatherTopic))
	inWeather.To(departuresWeatherTopic)

	// Who made the plane of each flight, and how many planes and seats of theirs fly: tables that refer to tables.
	byMaker := millrace.GroupTableBy(planes, makerOf, millrace.WithKey(serde.Nullable(serde.String)),
		millrace.WithValue(serde.JSON[Plane]()), millrace.RepartitionName("planes-by-maker"))
	makers := millrace.AggregateTable(byMaker, newMaker, addToMaker, takeFromMaker, serde.JSON[Maker](), millrace.As("manufacturers"))
	made := millrace.JoinForeignKey(planes, makers, planeMaker, addMaker, millrace.As("planes-made"),
		millrace.WithValue(serde.JSON[MadePlane]()))
	flightRows := millrace.SelectKey(flights, flightKey).ToTable(millrace.As("flights-scheduled"), millrace.WithKey[string](serde.String))
	flown := millrace.JoinForeignKey(flightRows, made, flightPlane, addMadePlane, millrace.As(FlightsByMakerTopic),
		millrace.WithValue(serde.JSON[FlightMaker]()))
	flown.ToStream().To(flightsByMakerTopic)

	return b.Build()
}

// hourDelays is what is kept of an hour to find its mean.
type hourDelays struct {
	Count   int64 `json:"count"`
	Minutes int64 `json:"minutes"`
}

func newDelays() hourDelays { return hourDelays{} }

func addDelay(_ string, f Flight, d hourDelays) hourDelays {
	d.Count++
	d.Minutes += int64(*f.DepartureDelayMinutes) // a departed flight has one
	return d
}

func (d hourDelays) stats() HourStats {
	return HourStats{Count: d.Count, MeanDelayMinutes: float64(d.Minutes) / float64(d.Count)}
}

func lateFlight(l window.Late[Flight]) LateFlight {
	missed := l.Missed[0] // tumbling windows: there is one
	return LateFlight{Flight: l.Value, WindowStart: missed.Start(), WindowEnd: missed.End()}
}

func newTails() []string { return []string{} }

// addTail adds a plane to an hour's planes, of which there are a few dozen.
func addTail(_ string, f Flight, tails []string) []string {
	if f.TailNumber == nil || slices.Contains(tails, *f.TailNumber) {
		return tails
	}
	return append(tails, *f.TailNumber)
}

func uniqueTails(tails []string) UniquePlanes { return UniquePlanes{Unique: int64(len(tails))} }

func addPlane(f Flight, p Plane, known bool) EnrichedFlight {
	e := EnrichedFlight{Flight: f}
	if known {
		e.Plane = &p
	}
	return e
}

func carrierOf(_ *string, f EnrichedFlight) string { return f.Carrier }

func addAirline(f EnrichedFlight, a Airline, known bool) EnrichedFlight {
	if known {
		f.Airline = &a.Name
	}
	return f
}

func seatsOf(_ *string, f EnrichedFlight) (carrier string, seats int64) {
	if f.Plane != nil {
		seats = f.Plane.seats()
	}
	return f.Carrier, seats
}

func newSeats() CarrierSeats { return CarrierSeats{} }

func addSeats(_ string, seats int64, c CarrierSeats) CarrierSeats {
	c.Flights++
	c.Seats += seats
	return c
}

func newSession() AircraftSession { return AircraftSession{} }

func addArrival(_ string, f Flight, s AircraftSession) AircraftSession {
	if s.Flights == 0 {
		s.FirstOrigin = f.Origin
	}
	s.Flights++
	s.LastDestination = f.Destination
	return s
}

// mergeSessions puts a later session behind an earlier one; the first one merged is empty.
func mergeSessions(_ string, a, b AircraftSession) AircraftSession {
	if a.Flights == 0 {
		return b
	}
	return AircraftSession{Flights: a.Flights + b.Flights, FirstOrigin: a.FirstOrigin, LastDestination: b.LastDestination}
}

func addWeather(f Flight, w Weather, known bool) DepartureWeather {
	d := DepartureWeather{Flight: f}
	if known {
		d.Weather = &w
	}
	return d
}

func makerOf(_ *string, p Plane) (*string, Plane) { return p.Manufacturer, p }

func newMaker() Maker { return Maker{} }

func addToMaker(_ *string, p Plane, m Maker) Maker {
	m.Planes++
	m.Seats += p.seats()
	return m
}

func takeFromMaker(_ *string, p Plane, m Maker) Maker {
	m.Planes--
	m.Seats -= p.seats()
	return m
}

func planeMaker(_ *string, p Plane) (maker *string, known bool) {
	return p.Manufacturer, p.Manufacturer != nil
}

func addMaker(p Plane, m Maker) MadePlane {
	return MadePlane{TailNumber: p.TailNumber, Manufacturer: *p.Manufacturer, Maker: m}
}

// flightKey is what a flight is known by in a timetable.
func flightKey(_ string, f Flight) string {
	number := 0
	if f.Number != nil {
		number = *f.Number
	}
	return fmt.Sprintf("%s %d %s %s", f.Carrier, number, f.Origin, f.ScheduledDeparture.Truncate(time.Hour).Format(time.RFC3339))
}

func flightPlane(_ string, f Flight) (tail *string, known bool) {
	return f.TailNumber, f.TailNumber != nil
}

func addMadePlane(f Flight, p MadePlane) FlightMaker {
	return FlightMaker{Carrier: f.Carrier, Number: f.Number, Origin: f.Origin, Scheduled: f.ScheduledDeparture, MadePlane: p}
}
