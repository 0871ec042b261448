// Package demo is what `millrace demo` shows: a month (or a year) of real flights, fed in the order in which aircraft landed,
// through a topology of streams and tables.
//
// It holds the data and how it is read ([Load]), what stands in each input topic ([NewInputs]), the topics ([EnsureTopics]),
// the [Feeder], the reading of the derived topics, and [Run], which puts them together around an [Engine].
//
// Nothing in it draws on a terminal: package live does.
package demo

// The input topics. Record n of a partition is a function of the data and the partition count alone.
const (
	FlightsTopic  = "flights"  // key: origin
	ArrivalsTopic = "arrivals" // key: tail number
	WeatherTopic  = "weather"  // key: origin
	PlanesTopic   = "planes"   // key: tail number; compacted
	AirlinesTopic = "airlines" // key: carrier; compacted
)

// The derived topics, made by the topology.
const (
	DeparturesByHourTopic  = "departures-by-hour" // key: origin and hour
	DeparturesLateTopic    = "departures-late"    // key: origin
	PlanesByHourTopic      = "planes-by-hour"     // key: origin and hour
	FlightsEnrichedTopic   = "flights-enriched"   // key: tail number, or null
	SeatsByCarrierTopic    = "seats-by-carrier"   // key: carrier
	AircraftSessionsTopic  = "aircraft-sessions"  // key: tail number and session
	DeparturesWeatherTopic = "departures-weather" // key: origin
	FlightsByMakerTopic    = "flights-by-maker"   // key: carrier, flight, origin and scheduled hour
)

// ApplicationID is the demo's application id: the name of its consumer group and the prefix of its internal topics.
const ApplicationID = "millrace-demo"

// Derived describes a derived topic.
type Derived struct {
	Name string
	Keys Keys
}

// Keys says what stands in the keys of a derived topic.
type Keys uint8

const (
	PlainKeys   Keys = iota // a string, or null
	HourKeys                // a string and the start of a window of WindowSize
	SessionKeys             // a string, and the end and the start of a session
)

// DerivedTopics lists the derived topics in the order of the topology.
func DerivedTopics() []Derived {
	return []Derived{
		{Name: DeparturesByHourTopic, Keys: HourKeys},
		{Name: DeparturesLateTopic},
		{Name: PlanesByHourTopic, Keys: HourKeys},
		{Name: FlightsEnrichedTopic},
		{Name: SeatsByCarrierTopic},
		{Name: AircraftSessionsTopic, Keys: SessionKeys},
		{Name: DeparturesWeatherTopic},
		{Name: FlightsByMakerTopic},
	}
}
