package kgoclient

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/broker/brokertest"
)

// place is a cluster with two topics and a group with one member, for tests that both implementations of
// broker.Transactions must pass.
type place struct {
	names
	admin     broker.Admin
	reader    broker.Reader
	open      func(t *testing.T, id string) broker.Transactions
	deliver   func()                             // what is produced is answered soon
	rebalance func(t *testing.T) broker.Identity // a generation that has just begun
}

// names are those of a place on a cluster that has others too.
type names struct{ in, out, group, txn string }

func fakePlace(t *testing.T, opts ...kfake.Opt) place {
	c, cfg := startCluster(t, opts...)
	topic(t, c, "in", 1, nil)
	topic(t, c, "out", 2, nil)
	return placeOn(t, cfg, usual)
}

// usual are the names of a place that has a cluster of its own.
var usual = names{in: "in", out: "out", group: "app", txn: "x"}

// placeOn is a place on brokers that have the topics.
func placeOn(t *testing.T, cfg Config, n names) place {
	m := &rawMember{cl: rawClient(t, cfg), group: n.group}
	return place{
		names: n,
		admin: newAdmin(t, cfg), reader: newReader(t, cfg), deliver: func() {}, rebalance: m.join,
		open: func(t *testing.T, id string) broker.Transactions { return newTransactions(t, cfg, id) },
	}
}

func scriptedPlace(*testing.T) place {
	c := brokertest.New()
	c.AddTopic("in", 1)
	c.AddTopic("out", 2)
	g := c.Group("app")
	m := g.Join()
	return place{
		names: usual, admin: c.Admin(), reader: c.Reader(), deliver: func() { c.DeliverAll() },
		rebalance: func(*testing.T) broker.Identity {
			g.Assign(map[*brokertest.Membership][]broker.TaskID{m: nil})
			id, _ := m.Identity()
			return id
		},
		open: func(t *testing.T, id string) broker.Transactions {
			x := c.Transactions(id)
			t.Cleanup(x.Close)
			return x
		},
	}
}

func newTransactions(t testing.TB, cfg Config, id string) *Transactions {
	t.Helper()
	x, err := NewTransactions(cfg, id, 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	return x
}

// rawMember is a member of a group that only has an identity.
type rawMember struct {
	cl    *kgo.Client
	group string
	id    broker.Identity
}

// join begins a new generation.
func (m *rawMember) join(t *testing.T) broker.Identity {
	t.Helper()
	for {
		req := kmsg.NewPtrJoinGroupRequest()
		req.Group, req.MemberID, req.ProtocolType = m.group, m.id.MemberID, "consumer"
		req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 30_000, 30_000
		meta := kmsg.NewConsumerMemberMetadata()
		req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "p", Metadata: meta.AppendTo(nil)}}
		resp, err := req.RequestWith(testCtx(t), m.cl)
		if err != nil {
			t.Fatal(err)
		}
		m.id.MemberID = resp.MemberID
		if resp.ErrorCode == kerr.MemberIDRequired.Code {
			continue
		}
		if resp.ErrorCode != 0 {
			t.Fatal(kerr.ErrorForCode(resp.ErrorCode))
		}
		m.id.Generation = resp.Generation
		break
	}
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.Generation, sync.ProtocolType, sync.Protocol = m.group, m.id.MemberID, m.id.Generation, kmsg.StringPtr("consumer"), kmsg.StringPtr("p")
	if resp, err := sync.RequestWith(testCtx(t), m.cl); err != nil || resp.ErrorCode != 0 {
		t.Fatal(err, resp)
	}
	return m.id
}

// produce produces a value and waits for its answer.
func (p *place) produce(t *testing.T, x broker.Transactions, v string) error {
	t.Helper()
	a := newAcks()
	x.Produce(broker.ProduceRecord{Topic: p.out, Value: []byte(v)}, a.done(v))
	p.deliver()
	a.wait(1)
	return a.of(v).err
}

// begun is a transaction with one record.
func (p *place) begun(t *testing.T, x broker.Transactions, v string) {
	t.Helper()
	if err := x.Begin(); err != nil {
		t.Fatal(err)
	}
	if err := p.produce(t, x, v); err != nil {
		t.Fatal(err)
	}
}

// begun opens a transaction.
func begun(t *testing.T, x broker.Transactions) {
	t.Helper()
	if err := x.Begin(); err != nil {
		t.Fatal(err)
	}
}

// begunBare is a transaction with an offset and without records.
func (p *place) begunBare(t *testing.T, x broker.Transactions, id broker.Identity, n int64) {
	t.Helper()
	begun(t, x)
	p.sentOffsets(t, x, id, n)
}

// valuesTo are the multiples of three up to n, as the values of records.
func valuesTo(n int64) (all []string) {
	for i := int64(3); i <= n; i += 3 {
		all = append(all, fmt.Sprint(i))
	}
	return all
}

// shortCtx is for what is expected not to be answered.
func shortCtx(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func proved(t *testing.T, x broker.Transactions) {
	t.Helper()
	if err := x.Prove(testCtx(t)); err != nil {
		t.Fatal(err)
	}
}

func ended(t *testing.T, x broker.Transactions, commit bool) {
	t.Helper()
	if err := x.End(testCtx(t), commit); err != nil {
		t.Fatal(err)
	}
}

func (p *place) offsetsTo(n int64) map[broker.TopicPartition]broker.OffsetMeta {
	return map[broker.TopicPartition]broker.OffsetMeta{tp(p.in, 0): {Offset: n, Metadata: "m", Epoch: -1}}
}

func (p *place) sendOffsets(t *testing.T, x broker.Transactions, id broker.Identity, n int64) error {
	t.Helper()
	return x.CommitOffsets(testCtx(t), p.group, id, p.offsetsTo(n))
}

func (p *place) sentOffsets(t *testing.T, x broker.Transactions, id broker.Identity, n int64) {
	t.Helper()
	if err := p.sendOffsets(t, x, id, n); err != nil {
		t.Fatal(err)
	}
}

// shows compares what readers of committed records find, and the committed offset. No transaction may be open.
func (p *place) shows(t *testing.T, offset int64, want ...string) {
	t.Helper()
	ctx := testCtx(t)
	end := func(which broker.ListOffset) int64 {
		ends, err := p.admin.ListOffsets(ctx, which, tp(p.out, 0))
		if err != nil {
			t.Fatal(err)
		}
		return ends[tp(p.out, 0)]
	}
	last := end(broker.HighWatermark)
	for end(broker.StableEnd) < last { // its marker is on the way
		last = end(broker.HighWatermark)
	}
	var got []string
	for at := int64(0); at < last; {
		b, err := p.reader.Read(ctx, tp(p.out, 0), at, 1<<20, 50*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, valuesOf(b.Records)...)
		at = b.Position
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("committed records (-want +got):\n%s", d)
	}
	o, err := p.admin.CommittedOffsets(ctx, p.group, tp(p.in, 0))
	if err != nil {
		t.Fatal(err)
	}
	if o[tp(p.in, 0)].Offset != offset || offset >= 0 && o[tp(p.in, 0)].Metadata != "m" {
		t.Errorf("committed offset %+v, want %d", o[tp(p.in, 0)], offset)
	}
}

func wantCourse(t *testing.T, what string, err error, want broker.Course, is ...error) {
	t.Helper()
	if got := broker.CourseOf(err); got != want {
		t.Errorf("%s: course %v of %v, want %v", what, got, err, want)
	}
	for _, e := range is {
		if !errors.Is(err, e) {
			t.Errorf("%s: %v is not %v", what, err, e)
		}
	}
}

var contract = map[string]func(*testing.T, place){
	"commit and abort": func(t *testing.T, p place) {
		id := p.rebalance(t)
		x := p.open(t, p.txn)
		proved(t, x)
		p.begun(t, x, "a")
		p.sentOffsets(t, x, id, 1)
		ended(t, x, true)
		p.shows(t, 1, "a")
		p.begun(t, x, "b")
		p.sentOffsets(t, x, id, 2)
		ended(t, x, false)
		p.shows(t, 1, "a")
		p.begun(t, x, "c")
		p.sentOffsets(t, x, id, 3)
		ended(t, x, true)
		p.shows(t, 3, "a", "c")
		p.begun(t, x, "d") // without offsets
		ended(t, x, true)
		for _, commit := range []bool{true, false} { // with nothing at all
			if err := x.Begin(); err != nil {
				t.Fatal(err)
			}
			ended(t, x, commit)
		}
		p.begun(t, x, "e")
		ended(t, x, true)
		p.shows(t, 3, "a", "c", "d", "e")
	},
	"refused offsets are sent again in the same transaction": func(t *testing.T, p place) {
		old := p.rebalance(t)
		x := p.open(t, p.txn)
		proved(t, x)
		p.begun(t, x, "a")
		now := p.rebalance(t)
		err := p.sendOffsets(t, x, old, 1)
		wantCourse(t, "old generation", err, broker.CourseAwaitRebalance, broker.CodeIllegalGeneration)
		var ce *broker.CommitError
		if !errors.As(err, &ce) || ce.Identity != old || ce.Group != p.group || len(ce.Partitions) != 1 {
			t.Errorf("not what was refused: %+v", ce)
		}
		stranger := broker.Identity{MemberID: "stranger", Generation: now.Generation}
		wantCourse(t, "unknown member", p.sendOffsets(t, x, stranger, 2), broker.CourseLost, broker.CodeUnknownMemberID)
		p.sentOffsets(t, x, now, 3)
		ended(t, x, true)
		p.shows(t, 3, "a")
	},
	"the later of two fences the earlier": func(t *testing.T, p place) {
		id := p.rebalance(t)
		x, y := p.open(t, p.txn), p.open(t, p.txn)
		proved(t, x)
		p.begun(t, x, "a")
		p.sentOffsets(t, x, id, 1)
		proved(t, y)
		p.shows(t, -1)
		wantCourse(t, "offsets", p.sendOffsets(t, x, id, 1), broker.CourseRebuild)
		if err := p.produce(t, x, "b"); broker.ProduceClassOf(err) != broker.ProduceBroken || broker.CourseOf(err) != broker.CourseRebuild {
			t.Errorf("record: %v", err)
		}
		wantCourse(t, "commit", x.End(testCtx(t), true), broker.CourseRebuild)
		wantCourse(t, "abort", x.End(testCtx(t), false), broker.CourseRebuild)
		wantCourse(t, "begin", x.Begin(), broker.CourseRebuild)
		p.begun(t, y, "c")
		ended(t, y, true)
		proved(t, x)
		p.begun(t, x, "d")
		p.sentOffsets(t, x, id, 4)
		ended(t, x, true)
		p.shows(t, 4, "c", "d")
		if err := y.Begin(); err != nil {
			t.Fatal(err) // it asks nobody
		}
		if err := p.produce(t, y, "e"); broker.ProduceClassOf(err) != broker.ProduceBroken {
			t.Errorf("record of the other: %v", err)
		}
	},
	"a fenced producer that only commits": func(t *testing.T, p place) {
		p.rebalance(t)
		x, y := p.open(t, p.txn), p.open(t, p.txn)
		proved(t, x)
		p.begun(t, x, "a")
		proved(t, y)
		wantCourse(t, "commit", x.End(testCtx(t), true), broker.CourseRebuild)
		wantCourse(t, "begin", x.Begin(), broker.CourseRebuild)
		p.shows(t, -1)
	},
	"prove aborts what was left open": func(t *testing.T, p place) {
		id := p.rebalance(t)
		x := p.open(t, p.txn)
		proved(t, x)
		p.begun(t, x, "a")
		p.sentOffsets(t, x, id, 1)
		x.Close()
		y := p.open(t, p.txn)
		proved(t, y)
		p.shows(t, -1)
		p.begun(t, y, "b")
		p.sentOffsets(t, y, id, 2)
		proved(t, y) // its own
		proved(t, y)
		p.shows(t, -1)
		p.begun(t, y, "c")
		ended(t, y, true)
		p.shows(t, -1, "c")
	},
	"a failed record dooms it": func(t *testing.T, p place) {
		id := p.rebalance(t)
		x := p.open(t, p.txn)
		proved(t, x)
		p.begun(t, x, "a")
		a := newAcks()
		x.Produce(broker.ProduceRecord{Topic: "nowhere", Value: []byte("b")}, a.done("b"))
		p.deliver()
		a.wait(1)
		if err := a.of("b").err; !errors.Is(err, broker.ErrUnknownTopic) {
			t.Fatal(err)
		}
		p.sentOffsets(t, x, id, 1)
		wantCourse(t, "commit", x.End(testCtx(t), true), broker.CourseAbort, broker.ErrUnknownTopic)
		ended(t, x, false)
		p.shows(t, -1)
		p.begun(t, x, "c")
		p.sentOffsets(t, x, id, 2)
		ended(t, x, true)
		p.shows(t, 2, "c")
	},
	"an abort answers every record": func(t *testing.T, p place) {
		p.rebalance(t)
		x := p.open(t, p.txn)
		proved(t, x)
		p.begun(t, x, "a")
		a := newAcks()
		names := []string{"b", "c", "d", "e"}
		for _, v := range names {
			x.Produce(broker.ProduceRecord{Topic: p.out, Value: []byte(v)}, a.done(v))
		}
		ended(t, x, false)
		for _, v := range names {
			if _, ok := a.got[v]; !ok || a.of(v).err != nil && !errors.Is(a.of(v).err, broker.ErrAborted) {
				t.Errorf("%s: %+v", v, a.of(v))
			}
		}
		if x.BufferedBytes() != 0 || len(a.log) != len(names) {
			t.Errorf("%d bytes are buffered, answers: %v", x.BufferedBytes(), a.log)
		}
		p.begun(t, x, "f")
		ended(t, x, true)
		p.shows(t, -1, "f")
	},
	"offsets without records": func(t *testing.T, p place) {
		old := p.rebalance(t)
		x := p.open(t, p.txn)
		proved(t, x)
		for n := int64(1); n <= 6; n += 3 { // in turn with records
			p.begunBare(t, x, old, n)
			if _, err := p.admin.CommittedOffsets(shortCtx(t), p.group, tp(p.in, 0)); err == nil {
				t.Error("offsets are told while a transaction holds others")
			}
			ended(t, x, true)
			p.shows(t, n, valuesTo(n-1)...)
			p.begunBare(t, x, old, n+1)
			ended(t, x, false)
			p.shows(t, n, valuesTo(n-1)...)
			p.begun(t, x, fmt.Sprint(n+2))
			p.sentOffsets(t, x, old, n+2)
			ended(t, x, true)
			p.shows(t, n+2, valuesTo(n+2)...)
		}
		now := p.rebalance(t)
		begun(t, x)
		wantCourse(t, "old generation", p.sendOffsets(t, x, old, 7), broker.CourseAwaitRebalance, broker.CodeIllegalGeneration)
		p.sentOffsets(t, x, now, 8)
		ended(t, x, true)
		begun(t, x)
		wantCourse(t, "old generation", p.sendOffsets(t, x, old, 9), broker.CourseAwaitRebalance, broker.CodeIllegalGeneration)
		ended(t, x, false)
		p.shows(t, 8, valuesTo(6)...)
		p.begunBare(t, x, now, 10)
		ended(t, x, true)
		p.shows(t, 10, valuesTo(6)...)
	},
	"the later of two fences one without records": func(t *testing.T, p place) {
		id := p.rebalance(t)
		x, y := p.open(t, p.txn), p.open(t, p.txn)
		proved(t, x)
		p.begunBare(t, x, id, 1)
		proved(t, y)
		p.shows(t, -1)
		wantCourse(t, "offsets", p.sendOffsets(t, x, id, 1), broker.CourseRebuild)
		wantCourse(t, "commit", x.End(testCtx(t), true), broker.CourseRebuild)
		wantCourse(t, "begin", x.Begin(), broker.CourseRebuild)
		p.begunBare(t, y, id, 2)
		ended(t, y, true)
		proved(t, x)
		wantCourse(t, "begin", func() error { begun(t, y); return p.sendOffsets(t, y, id, 3) }(), broker.CourseRebuild)
		p.begunBare(t, x, id, 4)
		ended(t, x, true)
		p.shows(t, 4)
	},
	"prove aborts what was left open without records": func(t *testing.T, p place) {
		id := p.rebalance(t)
		x := p.open(t, p.txn)
		proved(t, x)
		p.begunBare(t, x, id, 1)
		x.Close()
		y := p.open(t, p.txn)
		proved(t, y)
		p.shows(t, -1)
		p.begunBare(t, y, id, 2)
		proved(t, y) // its own
		p.shows(t, -1)
		p.begunBare(t, y, id, 3)
		ended(t, y, true)
		p.shows(t, 3)
	},
	"misuse is refused": func(t *testing.T, p place) {
		id := p.rebalance(t)
		x := p.open(t, p.txn)
		wantCourse(t, "begin without proof", x.Begin(), broker.CourseRebuild, broker.CodeInvalidTxnState)
		proved(t, x)
		wantCourse(t, "commit of nothing", x.End(testCtx(t), true), broker.CourseRebuild, broker.CodeInvalidTxnState)
		wantCourse(t, "abort of nothing", x.End(testCtx(t), false), broker.CourseRebuild, broker.CodeInvalidTxnState)
		wantCourse(t, "offsets of nothing", p.sendOffsets(t, x, id, 1), broker.CourseRebuild, broker.CodeInvalidTxnState)
		wantCourse(t, "record of nothing", p.produce(t, x, "a"), broker.CourseRebuild, broker.CodeInvalidTxnState)
		if err := x.Begin(); err != nil {
			t.Fatal(err)
		}
		p.sentOffsets(t, x, id, 1)
		wantCourse(t, "begin within one", x.Begin(), broker.CourseRebuild, broker.CodeInvalidTxnState)
		wantCourse(t, "record behind offsets", p.produce(t, x, "b"), broker.CourseRebuild, broker.CodeInvalidTxnState)
		ended(t, x, false)
		proved(t, x)
		p.begun(t, x, "c")
		p.sentOffsets(t, x, id, 2)
		ended(t, x, true)
		p.shows(t, 2, "c")
	},
	"close answers everything": func(t *testing.T, p place) {
		id := p.rebalance(t)
		x := p.open(t, p.txn)
		proved(t, x)
		p.begun(t, x, "a")
		a := newAcks()
		x.Produce(broker.ProduceRecord{Topic: p.out, Value: []byte("b")}, a.done("b"))
		x.Close()
		if _, ok := a.got["b"]; !ok || a.of("b").err != nil && !errors.Is(a.of("b").err, broker.ErrClosed) {
			t.Errorf("record: %+v", a.of("b"))
		}
		for what, err := range map[string]error{
			"prove": x.Prove(testCtx(t)), "begin": x.Begin(), "record": p.produce(t, x, "c"), "offsets": p.sendOffsets(t, x, id, 1),
			"flush": x.Flush(testCtx(t)), "commit": x.End(testCtx(t), true), "abort": x.End(testCtx(t), false),
		} {
			if !errors.Is(err, broker.ErrClosed) {
				t.Errorf("%s: %v", what, err)
			}
		}
	},
}

func TestTransactions_contract(t *testing.T) {
	places := map[string]func(*testing.T) place{
		"scripted":              scriptedPlace,
		"transaction.version 2": func(t *testing.T) place { return fakePlace(t) },
		"transaction.version 0": func(t *testing.T) place { return fakePlace(t, kfake.MaxVersions(kversion.V3_9_0())) },
		"oldest brokers":        func(t *testing.T) place { return fakePlace(t, kfake.MaxVersions(kversion.V2_5_0())) },
	}
	for _, where := range slices.Sorted(maps.Keys(places)) {
		for _, what := range slices.Sorted(maps.Keys(contract)) {
			t.Run(where+"/"+what, func(t *testing.T) { contract[what](t, places[where](t)) })
		}
	}
}
