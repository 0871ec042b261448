package demo

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
)

func options(t *testing.T) Options {
	t.Helper()
	d, err := embedded()
	if err != nil {
		t.Fatal(err)
	}
	return Options{Data: d, Partitions: 4, Grace: 6 * time.Hour, NewEngine: newPlainEngine, Brokers: startBroker(t), OutDir: t.TempDir()}
}

func TestRun_comesToWhatThePlainPassFinds(t *testing.T) {
	o := options(t)
	o.Grace = 2 * time.Hour
	var last Progress
	o.Progress = func(p Progress) {
		if p.Fed < last.Fed || p.Processed < last.Processed || p.EventTime.Before(last.EventTime) {
			t.Errorf("progress went from %+v back to %+v", last, p)
		}
		last = p
	}
	s, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	newOracle(t, "data", o.Grace, 4).checkFlights(t, o.OutDir, s)
	if !last.Done() || last.Departed != 26483 {
		t.Errorf("the last progress was %+v", last)
	}
}

func TestRun_followsTheDerivedTopics(t *testing.T) {
	o := options(t)
	o.OutDir = ""
	part := *o.Data
	part.Flights = part.Flights[:200]
	o.Data = &part
	// The run must not end before all has been seen: a last flight is held back until then.
	enriched, late := 0, make(chan struct{})
	o.Rate = 1
	o.Clock = &movedClock{waited: func(total time.Duration) {
		if total >= 198*time.Second {
			<-late
		}
	}}
	o.Output = func(out Output) {
		if out.Topic != FlightsEnrichedTopic {
			return
		}
		if v, err := decodeValue[EnrichedFlight](out); err != nil || v.Carrier == "" {
			t.Errorf("output %+v: %v", out, err)
		}
		if enriched++; enriched == 150 {
			close(late)
		}
	}
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

func TestRun_interrupted(t *testing.T) {
	o := options(t)
	ctx, interrupt := context.WithCancel(t.Context())
	o.NewEngine = func(cfg EngineConfig) (Engine, error) {
		e, err := newPlainEngine(cfg)
		return stopsInTheMiddle{e.(*plainEngine), interrupt}, err
	}
	s, err := Run(ctx, o)
	if !errors.Is(err, ErrInterrupted) {
		t.Fatalf("Run: %v, want ErrInterrupted", err)
	}
	if len(s.Topics) != len(DerivedTopics()) {
		t.Errorf("the summary has the topics %v", s.Topics)
	}
	files, err := os.ReadDir(o.OutDir)
	if err != nil || len(files) != 0 {
		t.Errorf("an interrupted run wrote %v (%v)", files, err)
	}
}

// stopsInTheMiddle is an engine that interrupts its run instead of processing anything.
type stopsInTheMiddle struct {
	*plainEngine
	interrupt func()
}

func (e stopsInTheMiddle) Run(ctx context.Context) error {
	e.interrupt()
	<-ctx.Done()
	return nil
}

func TestRun_tellsWhyTheEngineFailed(t *testing.T) {
	o := options(t)
	o.NewEngine = func(cfg EngineConfig) (Engine, error) {
		e, err := newPlainEngine(cfg)
		e.(*plainEngine).failAt = 1000
		return e, err
	}
	if _, err := Run(t.Context(), o); !errors.Is(err, errPlainEngine) {
		t.Errorf("Run: %v, want the engine's error", err)
	}

	o.Brokers = startBroker(t)
	refused := errors.New("state directory belongs to another cluster")
	o.NewEngine = func(EngineConfig) (Engine, error) { return nil, refused }
	if _, err := Run(t.Context(), o); !errors.Is(err, refused) {
		t.Errorf("Run: %v, want the refusal", err)
	}
}

// idleEngine stops at once.
type idleEngine struct{}

func (idleEngine) Run(context.Context) error { return nil }
func (idleEngine) Dropped() int64            { return 0 }

func TestRun_noticesAnEngineThatStopsByItself(t *testing.T) {
	o := options(t)
	o.NewEngine = func(EngineConfig) (Engine, error) { return idleEngine{}, nil }
	_, err := Run(t.Context(), o)
	wantError(t, err, "stopped by itself")
}

func TestRun_removesItsStateDirectoryOnly(t *testing.T) {
	var used []string
	o := options(t)
	part := *o.Data
	part.Flights = part.Flights[:10]
	o.Data = &part
	o.NewEngine = func(cfg EngineConfig) (Engine, error) {
		used = append(used, cfg.StateDir)
		return newPlainEngine(cfg)
	}
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	o.StateDir, o.Brokers = filepath.Join(t.TempDir(), "state"), startBroker(t)
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(used[0]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the fresh state directory is still there: %v", err)
	}
	if _, err := os.Stat(used[1]); err != nil || used[1] != o.StateDir {
		t.Errorf("the given state directory %s became %s: %v", o.StateDir, used[1], err)
	}
}

func TestRun_badDirectories(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	o := options(t)
	o.OutDir = file
	_, err := Run(t.Context(), o)
	wantError(t, err, file, "--out")
	o = options(t)
	o.StateDir = file
	_, err = Run(t.Context(), o)
	wantError(t, err, file, "--state-dir")
}

func TestReadOutputs_writesTheFormOfTheFiles(t *testing.T) {
	brokers := startBroker(t)
	client := connect(t, brokers)
	if err := EnsureTopics(t.Context(), client, 2); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2013, 1, 5, 10, 17, 0, 0, time.UTC)
	hour := append([]byte("EWR"), 0, 0, 1, 0x3c, 0x0a, 0x27, 0x19, 0) // 2013-01-05T10:00:00Z
	session := binary.BigEndian.AppendUint64([]byte("N1"), uint64(time.Date(2013, 1, 5, 11, 30, 0, 0, time.UTC).UnixMilli()))
	session = append(session, hour[3:]...)
	for _, r := range []*kgo.Record{
		{Topic: AircraftSessionsTopic, Partition: 1, Key: session, Value: []byte(`{"flights":2}`), Timestamp: at},
		{Topic: FlightsEnrichedTopic, Partition: 1, Key: nil, Value: []byte(`{"b": "<&>", "a": 1.50}`), Timestamp: at},
		{Topic: FlightsEnrichedTopic, Partition: 0, Key: []byte(""), Value: []byte(`{}`), Timestamp: at.Add(time.Millisecond)},
		{Topic: FlightsEnrichedTopic, Partition: 1, Key: []byte("N\"1"), Value: nil, Timestamp: at},
		{Topic: DeparturesByHourTopic, Partition: 1, Key: hour, Value: []byte(`{"count":1,"mean_delay_minutes":2}`), Timestamp: at},
		{Topic: DeparturesByHourTopic, Partition: 1, Key: hour, Value: []byte(`{"count":7,"mean_delay_minutes":2}`), Timestamp: at},
	} {
		if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(t.TempDir(), "new", "out")
	totals, err := ReadOutputs(t.Context(), client, brokers, dir)
	if err != nil {
		t.Fatal(err)
	}
	if totals.Counted != 7 || totals.Records[DeparturesByHourTopic] != 2 || totals.Records[SeatsByCarrierTopic] != 0 {
		t.Errorf("totals %+v", totals)
	}
	for topic, want := range map[string]string{
		AircraftSessionsTopic: `{"key":"N1","window_start":"2013-01-05T10:00:00Z","window_end":"2013-01-05T11:30:00Z",` +
			`"value":{"flights":2},"timestamp":"2013-01-05T10:17:00Z"}
`,
		FlightsEnrichedTopic: `{"key":"","value":{},"timestamp":"2013-01-05T10:17:00.001Z"}
{"key":null,"value":{"b":"<&>","a":1.50},"timestamp":"2013-01-05T10:17:00Z"}
{"key":"N\"1","value":null,"timestamp":"2013-01-05T10:17:00Z"}
`,
		DeparturesByHourTopic: `{"key":"EWR","window_start":"2013-01-05T10:00:00Z","window_end":"2013-01-05T11:00:00Z",` +
			`"value":{"count":1,"mean_delay_minutes":2},"timestamp":"2013-01-05T10:17:00Z"}
{"key":"EWR","window_start":"2013-01-05T10:00:00Z","window_end":"2013-01-05T11:00:00Z",` +
			`"value":{"count":7,"mean_delay_minutes":2},"timestamp":"2013-01-05T10:17:00Z"}
`,
		SeatsByCarrierTopic: "",
	} {
		got, err := os.ReadFile(filepath.Join(dir, topic+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", topic, diff)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != len(DerivedTopics()) {
		t.Errorf("%d files (%v), want one for each derived topic: %v", len(files), err, files)
	}
}

func TestReadOutputs_refusesWhatIsNotTheDemos(t *testing.T) {
	for name, r := range map[string]*kgo.Record{
		"is not JSON":             {Topic: SeatsByCarrierTopic, Key: []byte("UA"), Value: []byte("1 seat")},
		"3 bytes holds no window": {Topic: PlanesByHourTopic, Key: []byte("EWR"), Value: []byte("{}")},
		"cannot unmarshal":        {Topic: DeparturesByHourTopic, Key: []byte("EWR12345678"), Value: []byte(`{"count":"x"}`)},
	} {
		t.Run(name, func(t *testing.T) {
			brokers := startBroker(t)
			client := connect(t, brokers)
			if err := EnsureTopics(t.Context(), client, 1); err != nil {
				t.Fatal(err)
			}
			if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			_, err := ReadOutputs(t.Context(), client, brokers, dir)
			wantError(t, err, name, r.Topic, "partition 0, offset 0")
			if _, err := os.Stat(filepath.Join(dir, r.Topic+".jsonl")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("a file was left of a topic that cannot be read (%v)", err)
			}
		})
	}
}

func TestSummary_jsonAndText(t *testing.T) {
	s := Summary{
		Fed: 27004, Departed: 26483, Counted: 26421, Late: 62, Dropped: 62, Elapsed: 1500 * time.Millisecond, RecordsPerSecond: 18002.5,
		Topics: []TopicRecords{{DeparturesByHourTopic, 26421}, {DeparturesLateTopic, 62}},
	}
	path := filepath.Join(t.TempDir(), "new", "summary.json")
	if err := s.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"fed":27004,"departed":26483,"counted":26421,"late":62,"dropped":62,` +
		`"topics":{"departures-by-hour":26421,"departures-late":62},"seconds":1.5,"records_per_second":18002.5}` + "\n"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("summary file (-want +got):\n%s", diff)
	}
	if !json.Valid(got) {
		t.Error("not JSON")
	}
	for _, part := range []string{"27,004 flights in 1.5 s (18,002 a second)", "26,483", "departures-late"} {
		if !strings.Contains(s.Text(), part) {
			t.Errorf("text does not say %q:\n%s", part, s.Text())
		}
	}
	if err := s.WriteFile(filepath.Join(path, "under-a-file")); err == nil || !strings.Contains(err.Error(), "--json") {
		t.Errorf("WriteFile to a bad place: %v", err)
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", 27004: "27,004"} {
		if got := Thousands(n); got != want {
			t.Errorf("Thousands(%d) = %s, want %s", n, got, want)
		}
	}
}
