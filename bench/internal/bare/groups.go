package bare

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-io/millrace/bench/internal/side"
)

// groups sends each record of the input through a topic of its own, by the key that it is counted by.
type groups struct{ *counts }

func (g groups) record(r *kgo.Record) {
	if r.Topic != g.l.config.Input {
		g.counts.record(r)
		return
	}
	r.Topic, r.Key = g.l.repartition(), r.Key[:side.GroupBytes]
	g.l.emit(context.Background(), r)
}

// repartition is the topic between.
func (l *loop) repartition() string { return l.config.AppID + "-" + side.Groups + "-repartition" }
