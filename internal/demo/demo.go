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
	PlanesTopic   = "planes"   // key: tail number; compacted
	AirlinesTopic = "airlines" // key: carrier; compacted
)

// The derived topics, made by the topology.
const (
	DeparturesByHourTopic = "departures-by-hour" // key: origin and hour
	DeparturesLateTopic   = "departures-late"    // key: origin
	PlanesByHourTopic     = "planes-by-hour"     // key: origin and hour
	FlightsEnrichedTopic  = "flights-enriched"   // key: tail number, or null
	SeatsByCarrierTopic   = "seats-by-carrier"   // key: carrier
)

// ApplicationID is the demo's application id: the name of its consumer group and the prefix of its internal topics.
const ApplicationID = "millrace-demo"

// Derived describes a derived topic.
type Derived struct {
	Name string
	// Windowed says that the key is a string followed by the start of a window of WindowSize.
	Windowed bool
}

// DerivedTopics lists the derived topics in the order of the topology.
func DerivedTopics() []Derived {
	return []Derived{
		{Name: DeparturesByHourTopic, Windowed: true},
		{Name: DeparturesLateTopic},
		{Name: PlanesByHourTopic, Windowed: true},
		{Name: FlightsEnrichedTopic},
		{Name: SeatsByCarrierTopic},
	}
}
