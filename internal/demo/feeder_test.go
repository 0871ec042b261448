package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-io/millrace/internal/clock"
	"github.com/millrace-io/millrace/internal/devbroker"
)

// movedClock is a clock that stands still but for timers: setting one moves it to where the timer fires.
type movedClock struct {
	waited func(total time.Duration) // called for each timer, may be nil

	mu    sync.Mutex
	total time.Duration
}

func (c *movedClock) Now() time.Time { return time.UnixMilli(0).Add(c.waits()) }
func (c *movedClock) NowMs() int64   { return c.waits().Milliseconds() }

func (c *movedClock) waits() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}

func (c *movedClock) NewTimer(d time.Duration) clock.Timer {
	c.mu.Lock()
	c.total += d
	c.mu.Unlock()
	if c.waited != nil {
		c.waited(c.waits())
	}
	fired := make(firedTimer, 1)
	fired <- c.Now()
	return fired
}

// firedTimer is a timer that has fired.
type firedTimer chan time.Time

func (t firedTimer) C() <-chan time.Time      { return t }
func (t firedTimer) Reset(time.Duration) bool { return false }
func (t firedTimer) Stop() bool               { return false }

func startBroker(t *testing.T) []string {
	t.Helper()
	b, err := devbroker.Start(devbroker.Options{Maintenance: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b.Addrs()
}

func connect(t *testing.T, brokers []string) *kgo.Client {
	t.Helper()
	client, err := Connect(t.Context(), brokers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// inputTopics are the topics that are fed.
var inputTopics = []string{FlightsTopic, ArrivalsTopic, WeatherTopic, PlanesTopic, AirlinesTopic}

var embedded = sync.OnceValues(Embedded)

// someInputs are the first n flights of January with all planes and airlines; 0 is all.
func someInputs(t *testing.T, n int, partitions int32) *Inputs {
	t.Helper()
	d, err := embedded()
	if err != nil {
		t.Fatal(err)
	}
	part := *d
	if n > 0 {
		part.Flights = d.Flights[:n]
	}
	in, err := NewInputs(&part, partitions)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// feedAll makes the topics and feeds everything that is missing.
func feedAll(t *testing.T, brokers []string, in *Inputs) {
	t.Helper()
	client := connect(t, brokers)
	if err := EnsureTopics(t.Context(), client, in.Partitions); err != nil {
		t.Fatal(err)
	}
	f := NewFeeder(in, client, brokers, 0, &movedClock{})
	if err := f.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.FeedTables(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.FeedLive(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// wantFed compares the input topics, record by record, with what they must hold.
func wantFed(t *testing.T, brokers []string, in *Inputs) {
	t.Helper()
	ends, err := kadm.NewClient(connect(t, brokers)).ListEndOffsets(t.Context(), inputTopics...)
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range in.topics {
		want := make([][]*kgo.Record, in.Partitions)
		for i := range topic.rows {
			r, err := topic.rows[i].record(topic.name)
			if err != nil {
				t.Fatal(err)
			}
			want[r.Partition] = append(want[r.Partition], r)
		}
		for p, records := range want {
			end, _ := ends.Lookup(topic.name, int32(p))
			if end.Offset != int64(len(records)) {
				t.Errorf("%s, partition %d ends at %d, want %d", topic.name, p, end.Offset, len(records))
			}
			n := 0
			err := readFrom(t.Context(), brokers, topic.name, int32(p), 0, end.Offset, func(r *kgo.Record) error {
				if n >= len(records) {
					return fmt.Errorf("more than %d records", len(records))
				}
				w := records[n]
				if int64(n) != r.Offset || string(r.Key) != string(w.Key) || string(r.Value) != string(w.Value) ||
					!r.Timestamp.Equal(w.Timestamp) {
					return fmt.Errorf("record %d is %s %s %v at %d, want %s %s %v", n, r.Key, r.Value, r.Timestamp, r.Offset, w.Key,
						w.Value, w.Timestamp)
				}
				n++
				return nil
			})
			if err != nil {
				t.Errorf("%s, partition %d: %v", topic.name, p, err)
			}
		}
	}
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, p := range append(parts, "millrace: demo: ") {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not say %q", err, p)
		}
	}
}

func TestFeeder_feedsEachRecordToItsPlaceAndNothingIsDeleted(t *testing.T) {
	for _, partitions := range []int32{1, 4} {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) {
			in := someInputs(t, 0, partitions)
			brokers := startBroker(t)
			feedAll(t, brokers, in)
			wantFed(t, brokers, in)
			feedAll(t, brokers, in) // nothing is missing
			wantFed(t, brokers, in)
		})
	}
}

func TestFeeder_goesOnAfterACleanStop(t *testing.T) {
	in := someInputs(t, 3000, 4)
	brokers := startBroker(t)
	client := connect(t, brokers)
	if err := EnsureTopics(t.Context(), client, 4); err != nil {
		t.Fatal(err)
	}
	stopped := errors.New("stopped")
	ctx, stop := context.WithCancelCause(t.Context())
	f := NewFeeder(in, client, brokers, 1000, &movedClock{waited: func(total time.Duration) {
		if total > time.Second {
			stop(stopped)
		}
	}})
	if err := f.Resume(ctx); err != nil {
		t.Fatal(err)
	}
	if err := f.FeedTables(ctx); err != nil {
		t.Fatal(err)
	}
	if err := f.FeedLive(ctx); !errors.Is(err, stopped) {
		t.Fatalf("FeedLive: %v, want the cause of the stop", err)
	}
	if n := f.Fed(FlightsTopic); n > 1100 {
		t.Fatalf("%d flights fed in a second at 1,000 a second", n)
	}
	feedAll(t, brokers, in)
	wantFed(t, brokers, in)
}

func TestFeeder_goesOnAfterSIGKILL(t *testing.T) {
	in := someInputs(t, 0, 4)
	brokers := startBroker(t)
	// One is killed among the tables, the others among the flights.
	feedAndKill(t, brokers, 4, 500, 3400, 10000, 20000)
	feedAll(t, brokers, in)
	wantFed(t, brokers, in)
}

// feedAndKill starts a feeding process for each count, one after the other, and kills it once the input topics hold so many
// records.
func feedAndKill(t *testing.T, brokers []string, partitions int32, counts ...int64) {
	t.Helper()
	client := connect(t, brokers)
	if err := EnsureTopics(t.Context(), client, partitions); err != nil {
		t.Fatal(err)
	}
	admin := kadm.NewClient(client)
	fed := func() (n int64) {
		ends, err := admin.ListEndOffsets(t.Context(), inputTopics...)
		if err != nil {
			t.Fatal(err)
		}
		ends.Each(func(o kadm.ListedOffset) { n += o.Offset })
		return n
	}
	for _, after := range counts {
		c := startChild(t, childSpec{Brokers: brokers})
		for fed() < after {
			if t.Context().Err() != nil {
				t.Fatal("the child does not get on")
			}
		}
		c.end(syscall.SIGKILL)
	}
	t.Logf("%d records fed before the last start", fed())
}

func TestFeeder_keepsItsRate(t *testing.T) {
	in := someInputs(t, 1000, 1)
	brokers := startBroker(t)
	client := connect(t, brokers)
	if err := EnsureTopics(t.Context(), client, 1); err != nil {
		t.Fatal(err)
	}
	clock := &movedClock{}
	f := NewFeeder(in, client, brokers, 400, clock)
	if err := f.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.FeedTables(t.Context()); err != nil {
		t.Fatal(err)
	}
	if clock.waits() != 0 {
		t.Errorf("the tables, which are loaded first, took %v", clock.waits())
	}
	if err := f.FeedLive(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := 2500 * time.Millisecond; clock.waits() < want-paceStep || clock.waits() > want+paceStep {
		t.Errorf("1,000 flights at 400 a second took %v, want %v", clock.waits(), want)
	}
}

func TestFeeder_refusesOtherData(t *testing.T) {
	brokers := startBroker(t)
	in := someInputs(t, 200, 2)
	feedAll(t, brokers, in)
	client := connect(t, brokers)
	resume := func(in *Inputs) error {
		return NewFeeder(in, client, brokers, 0, &movedClock{}).Resume(t.Context())
	}

	wantError(t, resume(someInputs(t, 100, 2)), "flights, partition", "delete the topic")

	d, err := embedded()
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewInputs(&Dataset{Flights: d.Flights[7:300], Planes: d.Planes, Airlines: d.Airlines}, 2)
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, resume(other), "flights, partition", "offset", "other data", "delete the topic")
}

func TestFeeder_noticesAnotherWriter(t *testing.T) {
	brokers := startBroker(t)
	in := someInputs(t, 2000, 2)
	client := connect(t, brokers)
	if err := EnsureTopics(t.Context(), client, 2); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	f := NewFeeder(in, client, brokers, 1000, &movedClock{waited: func(total time.Duration) {
		if total < time.Second {
			return
		}
		once.Do(func() {
			for p := range in.Partitions {
				r := &kgo.Record{Topic: FlightsTopic, Partition: p, Value: []byte("{}")}
				if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
					t.Error(err)
				}
			}
		})
	}})
	if err := f.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantError(t, f.FeedLive(t.Context()), "of flights, partition", "another program")
}

func TestEnsureTopics_refusesTopicsThatCannotWork(t *testing.T) {
	for name, c := range map[string]struct {
		topic      string
		partitions int32
		configs    map[string]string
		want       []string
	}{
		"partitions": {PlanesTopic, 3, map[string]string{"retention.ms": "-1", "cleanup.policy": "compact"}, []string{"planes has 3 partitions, not 4", "--partitions 3"}},
		"retention":  {FlightsTopic, 4, nil, []string{"flights has retention.ms=604800000", "retention.ms=-1"}},
		"policy":     {AirlinesTopic, 4, map[string]string{"retention.ms": "-1"}, []string{"airlines has cleanup.policy=delete", "cleanup.policy=compact"}},
		"timestamps": {DeparturesLateTopic, 4, map[string]string{"retention.ms": "-1", "message.timestamp.type": "LogAppendTime"}, []string{"departures-late has message.timestamp.type=LogAppendTime"}},
	} {
		t.Run(name, func(t *testing.T) {
			client := connect(t, startBroker(t))
			configs := map[string]*string{}
			for k, v := range c.configs {
				configs[k] = &v
			}
			if c.configs == nil {
				week := "604800000"
				configs["retention.ms"] = &week
			}
			if _, err := kadm.NewClient(client).CreateTopic(t.Context(), c.partitions, 1, configs, c.topic); err != nil {
				t.Fatal(err)
			}
			wantError(t, EnsureTopics(t.Context(), client, 4), c.want...)
		})
	}
}

func TestConnect_saysThatNoBrokerAnswers(t *testing.T) {
	b, err := devbroker.Start(devbroker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	addr := b.Addrs()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = Connect(t.Context(), addr)
	wantError(t, err, addr[0], "millrace broker", "--brokers")
}
