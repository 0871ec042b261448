package demo

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// plainEngine does what the topology does with a bare consumer group and maps, on one goroutine. It lets the tests of
// everything around an engine run without one. It keeps no state over restarts.
type plainEngine struct {
	cfg     EngineConfig
	failAt  int64 // fails after so many flights; 0 never
	dropped atomic.Int64

	client   *kgo.Client
	planes   map[string]Plane
	airlines map[string]string
	observed map[int32]time.Time
	hours    map[string]*plainHour
	seats    map[string]*CarrierSeats
	flights  int64
}

type plainHour struct {
	count, delay int64
	tails        map[string]bool
}

var errPlainEngine = errors.New("plain engine: told to fail")

func newPlainEngine(cfg EngineConfig) (Engine, error) {
	return &plainEngine{
		cfg: cfg, planes: map[string]Plane{}, airlines: map[string]string{}, observed: map[int32]time.Time{},
		hours: map[string]*plainHour{}, seats: map[string]*CarrierSeats{},
	}, nil
}

func (e *plainEngine) Dropped() int64 { return e.dropped.Load() }

func (e *plainEngine) Run(ctx context.Context) (err error) {
	e.client, err = kgo.NewClient(
		kgo.SeedBrokers(e.cfg.Brokers...),
		kgo.ConsumerGroup(ApplicationID),
		kgo.ConsumeTopics(FlightsTopic, PlanesTopic, ArrivalsTopic, WeatherTopic), // of the last two it makes nothing
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
	)
	if err != nil {
		return err
	}
	defer e.client.Close()
	if err := e.loadTables(ctx); ctx.Err() != nil {
		return nil
	} else if err != nil {
		return err
	}
	for {
		fetches := e.client.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err := fetches.Err(); err != nil {
			return err
		}
		for it := fetches.RecordIter(); !it.Done(); {
			if r := it.Next(); r.Topic == FlightsTopic {
				if err := e.flight(r); err != nil {
					return err
				}
			}
		}
		draining := context.WithoutCancel(ctx)
		if err := e.client.Flush(draining); err != nil {
			return err
		}
		if err := e.client.CommitUncommittedOffsets(draining); err != nil {
			return err
		}
	}
}

// loadTables reads planes and airlines to their present ends: they are fed before the first flight.
func (e *plainEngine) loadTables(ctx context.Context) error {
	for topic, add := range map[string]func(*kgo.Record) error{
		PlanesTopic: func(r *kgo.Record) error {
			var p Plane
			err := json.Unmarshal(r.Value, &p)
			e.planes[string(r.Key)] = p
			return err
		},
		AirlinesTopic: func(r *kgo.Record) error {
			var a Airline
			err := json.Unmarshal(r.Value, &a)
			e.airlines[string(r.Key)] = a.Name
			return err
		},
	} {
		ends, err := kadm.NewClient(e.client).ListEndOffsets(ctx, topic)
		if err != nil {
			return err
		}
		for p, end := range ends[topic] {
			if err := readFrom(ctx, e.cfg.Brokers, topic, p, 0, end.Offset, add); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *plainEngine) flight(r *kgo.Record) error {
	if e.flights++; e.flights == e.failAt {
		return errPlainEngine
	}
	var f Flight
	if err := json.Unmarshal(r.Value, &f); err != nil {
		return err
	}
	rich := EnrichedFlight{Flight: f}
	var tail []byte
	if f.TailNumber != nil {
		tail = []byte(*f.TailNumber)
		if p, ok := e.planes[*f.TailNumber]; ok {
			rich.Plane = &p
		}
	}
	if name, ok := e.airlines[f.Carrier]; ok {
		rich.Airline = &name
	}
	e.produce(FlightsEnrichedTopic, tail, rich, r.Timestamp)
	if !f.Departed() {
		return nil
	}

	seats := e.seats[f.Carrier]
	if seats == nil {
		seats = &CarrierSeats{}
		e.seats[f.Carrier] = seats
	}
	seats.Flights++
	if rich.Plane != nil && rich.Plane.Seats != nil {
		seats.Seats += int64(*rich.Plane.Seats)
	}
	e.produce(SeatsByCarrierTopic, []byte(f.Carrier), *seats, r.Timestamp)

	if r.Timestamp.After(e.observed[r.Partition]) {
		e.observed[r.Partition] = r.Timestamp
	}
	start := r.Timestamp.UTC().Truncate(WindowSize)
	if end := start.Add(WindowSize); !end.After(e.observed[r.Partition].Add(-e.cfg.Grace)) {
		e.dropped.Add(1)
		e.produce(DeparturesLateTopic, r.Key, LateFlight{Flight: f, WindowStart: start, WindowEnd: end}, r.Timestamp)
		return nil
	}
	key := binary.BigEndian.AppendUint64(r.Key[:len(r.Key):len(r.Key)], uint64(start.UnixMilli()))
	h := e.hours[string(key)]
	if h == nil {
		h = &plainHour{tails: map[string]bool{}}
		e.hours[string(key)] = h
	}
	h.count++
	h.delay += int64(*f.DepartureDelayMinutes)
	if f.TailNumber != nil {
		h.tails[*f.TailNumber] = true
	}
	e.produce(DeparturesByHourTopic, key, HourStats{h.count, float64(h.delay) / float64(h.count)}, r.Timestamp)
	e.produce(PlanesByHourTopic, key, UniquePlanes{int64(len(h.tails))}, r.Timestamp)
	return nil
}

func (e *plainEngine) produce(topic string, key []byte, value any, at time.Time) {
	b, err := json.Marshal(value)
	if err != nil {
		panic(err) // the demo's own types: they have JSON
	}
	e.client.Produce(context.Background(), &kgo.Record{Topic: topic, Key: key, Value: b, Timestamp: at}, nil)
}
