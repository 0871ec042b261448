package demo

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Summary tells what a run came to. The counts of flights and of derived records are those of the topics, so a run that goes
// on with what an earlier one began tells the whole.
type Summary struct {
	Fed      int64 // flights in topic flights
	Departed int64 // of these, the flights that departed
	Counted  int64 // departures counted in departures-by-hour: the sum of the last row of each key and hour
	Late     int64 // records in departures-late
	Dropped  int64 // late records that planes-by-hour dropped in this run

	Topics []TopicRecords // the derived topics, in the order of the topology

	Elapsed time.Duration // from the first flight that this run fed until everything was processed
	// RecordsPerSecond is the flights that this run fed, divided by Elapsed.
	RecordsPerSecond float64
}

// TopicRecords is how many records a topic holds, updates included.
type TopicRecords struct {
	Topic   string
	Records int64
}

// MarshalJSON writes the summary as --json does. The fields are a contract.
func (s Summary) MarshalJSON() ([]byte, error) {
	topics := make(map[string]int64, len(s.Topics))
	for _, t := range s.Topics {
		topics[t.Topic] = t.Records
	}
	return json.Marshal(struct {
		Fed              int64            `json:"fed"`
		Departed         int64            `json:"departed"`
		Counted          int64            `json:"counted"`
		Late             int64            `json:"late"`
		Dropped          int64            `json:"dropped"`
		Topics           map[string]int64 `json:"topics"`
		Seconds          float64          `json:"seconds"`
		RecordsPerSecond float64          `json:"records_per_second"`
	}{s.Fed, s.Departed, s.Counted, s.Late, s.Dropped, topics, s.Elapsed.Seconds(), s.RecordsPerSecond})
}

// Text returns the summary as lines for a reader.
func (s Summary) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s flights in %.1f s (%s a second)\n", Thousands(s.Fed), s.Elapsed.Seconds(),
		Thousands(int64(s.RecordsPerSecond)))
	fmt.Fprintf(&b, "  %-20s %10s\n", "departed", Thousands(s.Departed))
	fmt.Fprintf(&b, "  %-20s %10s\n", "counted by the hour", Thousands(s.Counted))
	fmt.Fprintf(&b, "  %-20s %10s  too late for their hour, kept in %s\n", "late", Thousands(s.Late), DeparturesLateTopic)
	fmt.Fprintf(&b, "  %-20s %10s  late ones that %s counts and drops\n", "dropped", Thousands(s.Dropped), PlanesByHourTopic)
	b.WriteString("records in the derived topics, updates included\n")
	for _, t := range s.Topics {
		fmt.Fprintf(&b, "  %-20s %10s\n", t.Topic, Thousands(t.Records))
	}
	return b.String()
}

// WriteFile writes the summary to a file as one JSON object.
func (s Summary) WriteFile(path string) error {
	b, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("millrace: demo: cannot encode the summary: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("millrace: demo: cannot write the summary: %w; check --json", err)
	}
	if err := os.WriteFile(path, append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("millrace: demo: cannot write the summary: %w; check --json", err)
	}
	return nil
}

// Thousands writes a number with commas between groups of three digits.
func Thousands(n int64) string {
	s := fmt.Sprint(n)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}
