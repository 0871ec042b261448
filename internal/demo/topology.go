package demo

import (
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

	originHour            = serde.Windowed(serde.String, WindowSize)
	departuresByHourTopic = millrace.NewTopic(DeparturesByHourTopic, originHour, serde.JSON[HourStats]())
	departuresLateTopic   = millrace.NewTopic(DeparturesLateTopic, serde.String, serde.JSON[LateFlight]())
	planesByHourTopic     = millrace.NewTopic(PlanesByHourTopic, originHour, serde.JSON[UniquePlanes]())
	flightsEnrichedTopic  = millrace.NewTopic(FlightsEnrichedTopic, serde.Nullable(serde.String), serde.JSON[EnrichedFlight]())
	seatsByCarrierTopic   = millrace.NewTopic(SeatsByCarrierTopic, serde.String, serde.JSON[CarrierSeats]())
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
	flown := millrace.Aggregate(byCarrier, newSeats, addSeats, serde.JSON[CarrierSeats](), millrace.As(SeatsByCarrierTopic))
	flown.ToStream().To(seatsByCarrierTopic)

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
	if f.Plane != nil && f.Plane.Seats != nil {
		seats = int64(*f.Plane.Seats)
	}
	return f.Carrier, seats
}

func newSeats() CarrierSeats { return CarrierSeats{} }

func addSeats(_ string, seats int64, c CarrierSeats) CarrierSeats {
	c.Flights++
	c.Seats += seats
	return c
}
