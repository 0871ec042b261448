package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Progress is how far a run is.
type Progress struct {
	Total     int64     // flights in the data
	Fed       int64     // flights in topic flights, those of earlier runs included
	Departed  int64     // of these, the flights that departed
	Processed int64     // flights that the application has committed
	Lag       int64     // records in the topics that the application reads, internal ones included, and has not committed
	EventTime time.Time // highest event time of the flights processed; zero before the first
	Rate      float64   // flights processed a second, of late

	whole bool // arrivals and weather are fed too
}

// Done says that everything is fed and processed, and that what follows from it is in the derived topics.
func (p Progress) Done() bool {
	return p.whole && p.Fed == p.Total && p.Processed == p.Total && p.Lag == 0
}

// progressReader reads a run's progress from the cluster: the application commits what it has processed, and a step's
// results are in their topics before the offsets of what it read are committed.
type progressReader struct {
	in    *Inputs
	admin *kadm.Client
	rate  rate
}

// read asks once. The order of the questions makes Done certain: what was committed is asked first and the ends afterwards,
// so an end that equals what was committed is the end behind everything that the step before had to write.
func (r *progressReader) read(ctx context.Context, now time.Time) (Progress, error) {
	commits, err := r.admin.FetchOffsets(ctx, ApplicationID)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return Progress{}, fmt.Errorf("millrace: demo: cannot read the offsets committed by group %s: %w", ApplicationID, err)
	}
	all, err := r.admin.ListTopics(ctx)
	if err != nil {
		return Progress{}, fmt.Errorf("millrace: demo: cannot list the topics: %w", err)
	}
	topics := []string{FlightsTopic, ArrivalsTopic, WeatherTopic, PlanesTopic} // airlines are read outside the group
	for _, name := range all.Names() {
		// The topics of foreign-key joins end in "-topic".
		if strings.HasPrefix(name, ApplicationID+"-") && (strings.HasSuffix(name, "-repartition") || strings.HasSuffix(name, "-topic")) {
			topics = append(topics, name)
		}
	}
	ends, err := r.admin.ListEndOffsets(ctx, topics...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return Progress{}, fmt.Errorf("millrace: demo: cannot read the end offsets of %s: %w", strings.Join(topics, ", "), err)
	}

	p := Progress{Total: r.in.Total(FlightsTopic), whole: true}
	for _, topic := range []string{ArrivalsTopic, WeatherTopic} {
		var fed int64
		for _, end := range ends[topic] {
			fed += end.Offset
		}
		p.whole = p.whole && fed == r.in.Total(topic)
	}
	ends.Each(func(end kadm.ListedOffset) {
		var committed int64
		if c, ok := commits.Lookup(end.Topic, end.Partition); ok && c.Err == nil {
			committed = max(c.At, 0)
		}
		p.Lag += max(end.Offset-committed, 0)
		if end.Topic != FlightsTopic || end.Partition >= r.in.Partitions {
			return
		}
		p.Fed += end.Offset
		p.Departed += r.in.Departed(end.Partition, end.Offset)
		p.Processed += committed
		if at := r.in.EventTime(end.Partition, committed); at.After(p.EventTime) {
			p.EventTime = at
		}
	})
	p.Rate = r.rate.of(now, p.Processed)
	return p, nil
}

// rate tells how fast a counter has grown of late.
type rate struct {
	samples []sample // oldest first
}

type sample struct {
	at    time.Time
	count int64
}

// rateSpan is the time over which a rate is taken.
const rateSpan = 2 * time.Second

func (r *rate) of(now time.Time, count int64) float64 {
	r.samples = append(r.samples, sample{now, count})
	for len(r.samples) > 2 && now.Sub(r.samples[1].at) >= rateSpan {
		r.samples = r.samples[1:]
	}
	first := r.samples[0]
	if seconds := now.Sub(first.at).Seconds(); seconds > 0 {
		return float64(count-first.count) / seconds
	}
	return 0
}
