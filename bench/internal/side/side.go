// Package side is what a benchmark side is: one implementation of the scenarios, run in a process of its own that tells
// its progress on standard output.
package side

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Side does the work of a scenario until its context ends. It reads the input from the start under the application id of
// the configuration, and counts each input record as it takes it up.
type Side interface {
	Run(ctx context.Context, c Config, p *Progress) error
}

// Scenario is one kind of work. README.md of bench says what each does.
type Scenario string

// The scenarios.
const (
	FilterMap       Scenario = "filter-map"
	Count           Scenario = "count"
	CountNoCache    Scenario = "count-nocache"
	GroupCount      Scenario = "group-count"
	TumblingCount   Scenario = "tumbling-count"
	HoppingCount    Scenario = "hopping-count"
	SessionCount    Scenario = "session-count"
	StreamTableJoin Scenario = "stream-table-join"
)

// Scenarios are all scenarios, in the order in which they are reported.
func Scenarios() []Scenario {
	return []Scenario{FilterMap, GroupCount, Count, CountNoCache, TumblingCount, HoppingCount, SessionCount, StreamTableJoin}
}

// StoreName is the name of the scenario's store; its changelog topic is <application id>-<store>-changelog. It is empty
// for a scenario without a store.
func (s Scenario) StoreName() string {
	switch s {
	case GroupCount, Count, CountNoCache, TumblingCount, HoppingCount, SessionCount:
		return "counts"
	case StreamTableJoin:
		return "table"
	}
	return ""
}

// The processing guarantees, by the names that Kafka Streams gives them.
const (
	AtLeastOnce = "at_least_once"
	ExactlyOnce = "exactly_once_v2"
)

// Details of the work that every side must do alike.
const (
	// FilterDrops is the last digit of the keys whose records filter-map drops: one of ten.
	FilterDrops = '9'
	// MappedMark is what filter-map puts in the place of a value's first byte.
	MappedMark = 'M'
	// GroupBytes is how much of a key group-count groups by: ten keys of one group differ in the last digit.
	GroupBytes = 11
	// Groups is the name of group-count's repartition topic, without prefix and suffix.
	Groups = "groups"
	// WindowSize and WindowGrace are those of tumbling-count and hopping-count, whose windows begin every WindowAdvance.
	WindowSize    = time.Minute
	WindowGrace   = 10 * time.Second
	WindowAdvance = 20 * time.Second
	// SessionGap and SessionGrace are session-count's.
	SessionGap   = 10 * time.Second
	SessionGrace = 10 * time.Second
	// JoinedBytes is how many of the table's bytes stream-table-join puts in the place of the value's first ones.
	JoinedBytes = 8
)

// Config is what a side is told. Every side gets the same.
type Config struct {
	Scenario       Scenario
	Guarantee      string
	Brokers        []string
	AppID          string
	Input          string        // topic: keys are strings, values bytes
	Table          string        // topic, of the same partitions; for stream-table-join
	Output         string        // topic
	CommitInterval time.Duration // whole milliseconds
	CacheBytes     int64         // the deduplicating cache of the whole application; 0 is off
	Threads        int           // for sides that have a number of threads
	StateDir       string        // exists; empty unless a side is started again
	// InstanceID makes the side a static member of its group; empty where it is not to be one. millrace is one by default.
	InstanceID string
	// Standbys is how many other instances keep a copy of each task's state.
	Standbys int
	// SessionTimeout is after how long without a word the group gives up a member; 0 leaves the side's default.
	SessionTimeout time.Duration
	// Stay lets the side keep its place in the group when it ends on a signal, to be started again.
	Stay bool
}

// Args is the configuration as the arguments of a side's process: words of the form key=value.
func (c Config) Args() []string {
	return []string{
		"scenario=" + string(c.Scenario),
		"guarantee=" + c.Guarantee,
		"brokers=" + strings.Join(c.Brokers, ","),
		"app=" + c.AppID,
		"input=" + c.Input,
		"table=" + c.Table,
		"output=" + c.Output,
		"commit-interval-ms=" + strconv.FormatInt(c.CommitInterval.Milliseconds(), 10),
		"cache-bytes=" + strconv.FormatInt(c.CacheBytes, 10),
		"threads=" + strconv.Itoa(c.Threads),
		"state-dir=" + c.StateDir,
		"instance=" + c.InstanceID,
		"standbys=" + strconv.Itoa(c.Standbys),
		"session-timeout-ms=" + strconv.FormatInt(c.SessionTimeout.Milliseconds(), 10),
		"stay=" + strconv.FormatBool(c.Stay),
	}
}

// ParseArgs reads what Args wrote.
func ParseArgs(args []string) (Config, error) {
	var c Config
	for _, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		if !ok {
			return c, fmt.Errorf("bench: argument %q is not key=value", arg)
		}
		var err error
		switch key {
		case "scenario":
			c.Scenario = Scenario(value)
		case "guarantee":
			c.Guarantee = value
		case "brokers":
			c.Brokers = strings.Split(value, ",")
		case "app":
			c.AppID = value
		case "input":
			c.Input = value
		case "table":
			c.Table = value
		case "output":
			c.Output = value
		case "commit-interval-ms":
			c.CommitInterval, err = milliseconds(value)
		case "cache-bytes":
			c.CacheBytes, err = strconv.ParseInt(value, 10, 64)
		case "threads":
			c.Threads, err = strconv.Atoi(value)
		case "state-dir":
			c.StateDir = value
		case "instance":
			c.InstanceID = value
		case "standbys":
			c.Standbys, err = strconv.Atoi(value)
		case "session-timeout-ms":
			c.SessionTimeout, err = milliseconds(value)
		case "stay":
			c.Stay, err = strconv.ParseBool(value)
		default:
			err = fmt.Errorf("unknown key")
		}
		if err != nil {
			return c, fmt.Errorf("bench: argument %q: %w", arg, err)
		}
	}
	return c, nil
}

func milliseconds(s string) (time.Duration, error) {
	ms, err := strconv.ParseInt(s, 10, 64)
	return time.Duration(ms) * time.Millisecond, err
}
