package runtime

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/task"
)

// narrowProducer has room for a few records; Produce waits for it. Answers come from answer alone, one after the other, as from
// the one goroutine of a client.
type narrowProducer struct {
	room chan struct{}
	way  chan way
	sent atomic.Int64
}

type way struct {
	rec  broker.ProduceRecord
	done func(int64, error)
}

func newNarrowProducer(room int) *narrowProducer {
	return &narrowProducer{room: make(chan struct{}, room), way: make(chan way, room)}
}

func (p *narrowProducer) Produce(r broker.ProduceRecord, done func(int64, error)) {
	p.room <- struct{}{}
	p.sent.Add(1)
	p.way <- way{r, done}
}

func (p *narrowProducer) answer(w way, err error) {
	w.done(p.sent.Load(), err)
	<-p.room // behind the answer, as franz-go does it
}

func (p *narrowProducer) BufferedBytes() int64        { return 0 }
func (p *narrowProducer) Flush(context.Context) error { return nil }
func (p *narrowProducer) Close()                      {}

func orderedOutbox(p broker.Producer, onDue func(*outbox)) *outbox {
	b := newOutbox(p, []string{"store"}, func() {})
	b.ordered, b.total, b.onDue = true, new(atomic.Int64), onDue
	return b
}

// turnOf sends a turn of an output, unless its name is empty, and a changelog record.
func turnOf(b *outbox, output, logged string) {
	seg := b.current()
	t := b.beginTurn(seg)
	send := func(value string, at int) {
		if !b.expect(seg, 1) {
			return
		}
		s := &b.take(1).recs[0]
		s.Output = op.Output{ProduceRecord: broker.ProduceRecord{Value: []byte(value)}}
		s.seg, s.store = seg, at
		b.produce(s, t)
	}
	send(logged, 0)
	if output != "" {
		send(output, -1)
	}
	b.endTurn(t)
}

// An answer must not wait for room in the producer: it is answers that make room. What is due is noted, and sent by others.
func TestOutboxTurns_answersSendNothing(t *testing.T) {
	p := newNarrowProducer(1)
	due := 0
	b := orderedOutbox(p, func(*outbox) { due++ })
	turnOf(b, "result", "logged")
	p.answer(<-p.way, nil)
	if due != 1 || p.sent.Load() != 1 || b.total.Load() == 0 {
		t.Fatalf("due %d times, %d records sent, %d bytes wait", due, p.sent.Load(), b.total.Load())
	}
	b.release()
	w := <-p.way
	if string(w.rec.Value) != "logged" || b.total.Load() != 0 {
		t.Errorf("sent %q, %d bytes wait", w.rec.Value, b.total.Load())
	}
	p.answer(w, nil)
	b.closeSegment(&task.Unit{})
	if _, ready, _, outstanding := b.look(); len(ready) != 1 || outstanding != 0 || ready[0].positions["store"].Offset == 0 {
		t.Errorf("%d units ready, %d records outstanding", len(ready), outstanding)
	}
}

// A record that has failed and is not judged, because its task ends, never lets the changelog of its turn go, whoever is quicker.
func TestOutboxTurns_forfeited(t *testing.T) {
	p := newNarrowProducer(4)
	b := orderedOutbox(p, func(b *outbox) { t.Error("something is due"); b.release() })
	turnOf(b, "result", "logged")
	p.answer(<-p.way, errors.New("no"))
	_, _, failed, _ := b.look()
	if len(failed) != 1 {
		t.Fatalf("%d records failed", len(failed))
	}
	b.forfeit(failed[0])
	b.release()
	turnOf(b, "", "logged later")
	if p.sent.Load() != 1 {
		t.Error("a changelog record has left")
	}
	b.shutDown()
	if _, _, _, outstanding := b.look(); outstanding != 0 || b.total.Load() != 0 {
		t.Errorf("%d records are outstanding, %d bytes wait", outstanding, b.total.Load())
	}
}

// Worker, answers, releaser and the end side by side, with a producer that is nearly always full: the changelog keeps its order,
// is never ahead of the outputs, and everything is accounted for.
func TestOutboxTurns_sideBySide(t *testing.T) {
	for name, end := range map[string]func(*outbox){"to the end": nil, "shut down": (*outbox).shutDown, "intake ended": (*outbox).endIntake} {
		t.Run(name, func(t *testing.T) {
			p := newNarrowProducer(3)
			r := newReleaser()
			b := orderedOutbox(p, r.add)
			news := make(chan struct{}, 1)
			b.wake = func() {
				select {
				case news <- struct{}{}:
				default:
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wg.Go(func() { r.run(ctx) })
			const turns = 2000
			var answered, logged atomic.Int64 // by number of the turn
			stop := make(chan struct{})
			wg.Go(func() {
				for {
					select {
					case w := <-p.way:
						n := int64(w.rec.Partition)
						if len(w.rec.Value) == 0 {
							answered.Store(n)
						} else if prev := logged.Swap(n); prev != n-1 || answered.Load() < n {
							t.Errorf("changelog record %d comes behind %d, outputs are answered up to %d", n, prev, answered.Load())
						}
						p.answer(w, nil)
					case <-stop:
						return
					}
				}
			})
			for n := int64(1); n <= turns; n++ {
				if n == turns/2 && end != nil {
					end(b)
				}
				seg := b.current()
				tn := b.beginTurn(seg)
				if b.expect(seg, 2) {
					slab := b.take(2)
					for i := range 2 {
						s := &slab.recs[i]
						s.Output = op.Output{ProduceRecord: broker.ProduceRecord{Partition: int32(n), Value: make([]byte, 1-i)}}
						s.seg, s.store = seg, -i
						b.produce(s, tn)
					}
				}
				b.endTurn(tn)
				if n%100 == 0 {
					b.closeSegment(&task.Unit{})
				}
			}
			for {
				if _, _, _, outstanding := b.look(); outstanding == 0 {
					break
				}
				<-news
			}
			close(stop)
			cancel()
			wg.Wait()
			if b.total.Load() != 0 {
				t.Errorf("%d bytes wait at the end", b.total.Load())
			}
			if end == nil && (answered.Load() != turns || logged.Load() != turns) {
				t.Errorf("%d outputs and %d changelog records, want %d", answered.Load(), logged.Load(), turns)
			}
		})
	}
}

// A turn costs no allocation once its memory is there.
func TestOutboxTurns_allocations(t *testing.T) {
	b := orderedOutbox(&nullProducer{}, (*outbox).release)
	seg, value := b.current(), []byte("v")
	run := func() {
		tn := b.beginTurn(seg)
		if !b.expect(seg, slabSize) {
			t.Fatal("refused")
		}
		slab := b.take(slabSize)
		for i := range slab.recs {
			s := &slab.recs[i]
			s.Output.Value, s.seg, s.store = value, seg, i%2-1
			b.produce(s, tn)
		}
		b.endTurn(tn)
	}
	run()
	if n := testing.AllocsPerRun(100, run); n != 0 {
		t.Errorf("a turn costs %v allocations", n)
	}
}
