package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-io/millrace/internal/codec"
)

// tablesTime is the timestamp of every record of planes and airlines: earlier than every flight, so that a join finds them.
var tablesTime = time.Date(2013, time.January, 1, 0, 0, 0, 0, time.UTC)

// Inputs is what stands in the input topics for one partition count: record n of a partition is the same in every run, so a
// feeder that was stopped goes on at the end of each partition.
type Inputs struct {
	Partitions int32
	topics     []*input // tables first
	live       []fed    // the rows of flights, arrivals and weather in the order of feeding

	// For each partition of flights, of its first n records (index n): how many departed, and the highest event time.
	departed  [][]int64
	eventTime [][]time.Time
}

// input is one input topic.
type input struct {
	name string
	rows []row   // in the order of feeding
	ends []int64 // for each partition, how many rows it has
}

// fed is a row of a topic that is fed while the application runs, at its moment.
type fed struct {
	in *input
	at time.Time // when it becomes known: a landing, the hour of a reading
	n  int       // its place among the rows of in
}

// row is one record to feed.
type row struct {
	key       string
	value     any // what its JSON is made of, when it is fed
	at        time.Time
	partition int32
	offset    int64 // n: its place in the partition
}

// NewInputs lays the data out over partitions as a Kafka producer does: by murmur2 of the key.
func NewInputs(d *Dataset, partitions int32) (*Inputs, error) {
	if partitions < 1 {
		return nil, errors.New("millrace: demo: the input topics need at least 1 partition; check --partitions")
	}
	in := &Inputs{
		Partitions: partitions,
		departed:   make([][]int64, partitions),
		eventTime:  make([][]time.Time, partitions),
	}
	airlines := newInput(AirlinesTopic, partitions, len(d.Airlines))
	for i, a := range d.Airlines {
		airlines.add(a.Carrier, &d.Airlines[i], tablesTime)
	}
	planes := newInput(PlanesTopic, partitions, len(d.Planes))
	for i, p := range d.Planes {
		planes.add(p.TailNumber, &d.Planes[i], tablesTime)
	}
	for p := range in.departed {
		in.departed[p] = []int64{0}
		in.eventTime[p] = []time.Time{{}}
	}
	flights := newInput(FlightsTopic, partitions, len(d.Flights))
	arrivals := newInput(ArrivalsTopic, partitions, len(d.Flights))
	weather := newInput(WeatherTopic, partitions, len(d.Weather))
	for i := range d.Flights {
		f := &d.Flights[i]
		p := flights.add(f.Origin, f, f.EventTime())
		last := len(in.departed[p]) - 1
		departed, at := in.departed[p][last], in.eventTime[p][last]
		if f.Departed() {
			departed++
		}
		if f.EventTime().After(at) {
			at = f.EventTime()
		}
		in.departed[p] = append(in.departed[p], departed)
		in.eventTime[p] = append(in.eventTime[p], at)
		in.feed(flights, f.Landing())
		if f.Departed() && f.AirTimeMinutes != nil && f.TailNumber != nil {
			arrivals.add(*f.TailNumber, f, f.Landing())
			in.feed(arrivals, f.Landing())
		}
	}
	for i := range d.Weather {
		w := &d.Weather[i]
		weather.add(w.Origin, w, w.Hour)
		in.feed(weather, w.Hour)
	}
	slices.SortStableFunc(in.live, func(a, b fed) int { return a.at.Compare(b.at) })
	in.topics = []*input{airlines, planes, flights, arrivals, weather}
	return in, nil
}

// feed puts the last row of a topic into the order of feeding.
func (in *Inputs) feed(t *input, at time.Time) {
	in.live = append(in.live, fed{in: t, at: at, n: len(t.rows) - 1})
}

// tables are the topics that are whole before the application starts.
func (in *Inputs) tables() []*input { return in.topics[:2] }

func newInput(name string, partitions int32, rows int) *input {
	return &input{name: name, ends: make([]int64, partitions), rows: make([]row, 0, rows)}
}

func (in *input) add(key string, value any, at time.Time) (partition int32) {
	partition = codec.Partition([]byte(key), int32(len(in.ends)))
	in.rows = append(in.rows, row{key: key, value: value, at: at, partition: partition, offset: in.ends[partition]})
	in.ends[partition]++
	return partition
}

// record makes the row's Kafka record.
func (r *row) record(topic string) (*kgo.Record, error) {
	value, err := json.Marshal(r.value)
	if err != nil {
		return nil, fmt.Errorf("millrace: demo: cannot encode record %d of partition %d of %s: %w", r.offset, r.partition, topic, err)
	}
	return &kgo.Record{
		Topic: topic, Partition: r.partition, Key: []byte(r.key), Value: value, Timestamp: r.at,
	}, nil
}

// Total returns how many records a topic has when it is whole.
func (in *Inputs) Total(topic string) int64 {
	for _, t := range in.topics {
		if t.name == topic {
			return int64(len(t.rows))
		}
	}
	return 0
}

// Departed returns how many of the first n records of a partition of flights are flights that departed. An n behind the last
// record counts as all of them.
func (in *Inputs) Departed(partition int32, n int64) int64 {
	d := in.departed[partition]
	return d[min(n, int64(len(d)-1))]
}

// EventTime returns the highest event time of the first n records of a partition of flights; the zero time for none.
func (in *Inputs) EventTime(partition int32, n int64) time.Time {
	t := in.eventTime[partition]
	return t[min(n, int64(len(t)-1))]
}
