package restore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/state"
)

// Config describes the task to make ready, and by what means.
type Config struct {
	Task  string // "0_1", for errors and the log
	Group string
	Admin broker.Admin
	// Reader reads the changelogs.
	Reader broker.Reader

	Inputs []Input
	Logs   []Log // one for each logged store, in the order of the stores

	// Set is the task's set of stores where it is open already: then only the gap behind its positions is replayed.
	// Nothing in it may be undecided.
	Set *state.Set
	// Open opens the set otherwise.
	Open func(identify state.ChangelogIdentity) (*state.Set, error)
	// Headers tells what stands on disk of the task's stores before they are opened; nil where nothing can.
	Headers func() (map[string]state.Header, error)

	NowMs  func() int64
	Logger *slog.Logger
	// StableEnd and SkipGap break rules for tests, see runtime.Broken.
	StableEnd, SkipGap bool
	// MaxBytes bounds one read, Wait how long it waits for data.
	MaxBytes int32
	Wait     time.Duration
	// Progress is told of each chunk, by the goroutine that calls Step. May be nil.
	Progress func(Progress)
	// Copied is told of what becomes of the copies of a Standby, by the goroutine that calls it. May be nil.
	Copied func(Copied)
}

// Input is an input partition of the task.
type Input struct {
	broker.TopicPartition
	// Committed says that only committed records of it are read: its end is the last stable offset then.
	Committed bool
	Reset     Reset
}

// Log is the changelog of a store.
type Log struct {
	broker.TopicPartition
	Store string
	Kind  state.Kind
	// Reused says that it is an input of the task too.
	Reused bool
	// Source is the factory of the step that reads a Reused one. It tells which records were skipped.
	Source op.ReplayerFactory
	// Buffered says that the store holds the rows of a suppression, whose layout a header tells.
	Buffered bool
}

// Result is a task that is ready.
type Result struct {
	Set *state.Set
	// Committed holds the committed offset of each input, Offset -1 without one.
	Committed map[broker.TopicPartition]broker.OffsetMeta
	// Start is where reading of each input begins, and End where its log ended at the last look.
	Start, End map[broker.TopicPartition]int64
	// HighestTimestampMs holds, by store, the highest timestamp of the changelog records that were read, by those who made the set
	// before too; nothing for a store of which none was.
	HighestTimestampMs map[string]int64
}

// Progress tells how far the restore of one store is.
type Progress struct {
	Task    string
	Store   string
	Log     broker.TopicPartition
	Start   int64 // offset at which it began
	At      int64 // offset reached
	End     int64 // offset at which it is done
	Records int64
	Elapsed time.Duration
	Done    bool
}

// RecordRate is the number of records applied in a second, 0 before there is one to tell. Of a compacted changelog they are fewer
// than its offsets.
func (p Progress) RecordRate() float64 {
	if s := p.Elapsed.Seconds(); s > 0 {
		return float64(p.Records) / s
	}
	return 0
}

// Rate is the number of offsets covered in a second, 0 before there is one to tell.
func (p Progress) Rate() float64 {
	if s := p.Elapsed.Seconds(); s > 0 {
		return float64(p.At-p.Start) / s
	}
	return 0
}

// ETA is how long it will take at the rate so far, 0 where it is done or not to tell.
func (p Progress) ETA() time.Duration {
	rate := p.Rate()
	if rate <= 0 || p.At >= p.End {
		return 0
	}
	return time.Duration(float64(p.End-p.At) / rate * float64(time.Second))
}

// Job makes one task ready. It belongs to one goroutine at a time.
type Job struct {
	cfg  Config
	res  Result
	next func(context.Context) error // nil once all is done

	levelMs int64 // when the ends of the changelogs were taken
	known   map[string]state.Changelog
	stores  []*storeJob
	turn    int
	opened  bool
}

// New makes a job that has done nothing yet.
func New(cfg Config) *Job {
	j := &Job{cfg: cfg}
	if j.cfg.Logger == nil {
		j.cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if j.cfg.MaxBytes == 0 {
		j.cfg.MaxBytes = 8 << 20
	}
	j.next = j.fetchCommitted
	return j
}

// Step does the next thing. After an error the job is over and must be closed; a new one may succeed.
func (j *Job) Step(ctx context.Context) (done bool, err error) {
	if j.next == nil {
		return true, nil
	}
	if err := j.next(ctx); err != nil {
		return false, err
	}
	return j.next == nil, nil
}

// Run steps until all is done, or until the context ends.
func (j *Job) Run(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if done, err := j.Step(ctx); done || err != nil {
			return err
		}
	}
}

// Result returns the ready task after Step was done.
func (j *Job) Result() Result { return j.res }

// Close gives up what is not done. The set is closed if the job has opened it, and left alone if it was given.
func (j *Job) Close() error {
	j.next = nil
	for _, s := range j.stores {
		if s.restorer != nil {
			s.restorer.Stop()
		}
	}
	if !j.opened || j.res.Set == nil {
		return nil
	}
	err := j.res.Set.Close()
	if errors.Is(err, state.ErrClosed) {
		return nil
	}
	return err
}

func (j *Job) errorf(format string, args ...any) error {
	return fmt.Errorf("millrace: task %s: "+format, append([]any{j.cfg.Task}, args...)...)
}

func (j *Job) inputs() []broker.TopicPartition {
	tps := make([]broker.TopicPartition, len(j.cfg.Inputs))
	for i, in := range j.cfg.Inputs {
		tps[i] = in.TopicPartition
	}
	return tps
}

func (j *Job) fetchCommitted(ctx context.Context) error {
	committed, err := j.cfg.Admin.CommittedOffsets(ctx, j.cfg.Group, j.inputs()...)
	if err != nil {
		return j.errorf("committed offsets: %w", err)
	}
	j.res.Committed = committed
	j.next = j.findStarts
	return nil
}

// findStarts finds where each input goes on. After it the ends of the changelogs are taken.
func (j *Job) findStarts(ctx context.Context) error {
	var err error
	if j.res.Start, j.res.End, err = j.positions(ctx); err != nil {
		return err
	}
	j.next = j.describeLogs
	return nil
}

// describeLogs asks for what decides whether a store on disk can be continued, and takes the ends.
func (j *Job) describeLogs(ctx context.Context) error {
	if len(j.cfg.Logs) == 0 {
		j.next = j.open
		return nil
	}
	tps := make([]broker.TopicPartition, len(j.cfg.Logs))
	names := make([]string, len(j.cfg.Logs))
	for i, l := range j.cfg.Logs {
		tps[i], names[i] = l.TopicPartition, l.Topic
	}
	topics, err := j.cfg.Admin.Topics(ctx, names...)
	if err != nil {
		return j.errorf("changelogs: %w", err)
	}
	configs, err := j.cfg.Admin.TopicConfigs(ctx, names...)
	if err != nil {
		return j.errorf("settings of changelogs: %w", err)
	}
	starts, err := j.cfg.Admin.ListOffsets(ctx, broker.Earliest, tps...)
	if err != nil {
		return j.errorf("starts of changelogs: %w", err)
	}
	j.levelMs = j.cfg.NowMs()
	which := broker.HighWatermark
	if j.cfg.StableEnd {
		which = broker.StableEnd
	}
	ends, err := j.cfg.Admin.ListOffsets(ctx, which, tps...)
	if err != nil {
		return j.errorf("ends of changelogs: %w", err)
	}
	epochs, err := j.epochEnds(ctx)
	if err != nil {
		return err
	}
	j.known = make(map[string]state.Changelog, len(j.cfg.Logs))
	for _, l := range j.cfg.Logs {
		info := topics[l.Topic]
		if !info.Exists {
			return j.errorf("store %s: its changelog %s: %w: it was there when the application started; who deletes it loses the store",
				l.Store, l.Topic, broker.ErrUnknownTopic)
		}
		c := state.Changelog{
			TopicID: info.ID, StartOffset: starts[l.TopicPartition], EndOffset: ends[l.TopicPartition], EpochEnd: -1,
			DeleteRetentionMs: deleteRetention(configs[l.Topic]),
		}
		if end, ok := epochs[l.Store]; ok {
			c.EpochEnd = end
		}
		j.known[l.Store] = c
	}
	j.next = j.open
	return nil
}

// epochEnds asks where the leader epochs of the positions of the stores, which are open or on disk, end in the logs as they are now.
func (j *Job) epochEnds(ctx context.Context) (map[string]int64, error) {
	var headers map[string]state.Header
	switch {
	case j.cfg.Set != nil:
		headers = make(map[string]state.Header, len(j.cfg.Logs))
		for _, l := range j.cfg.Logs {
			headers[l.Store] = j.cfg.Set.Header(l.Store)
		}
	case j.cfg.Headers != nil:
		var err error
		if headers, err = j.cfg.Headers(); err != nil {
			return nil, j.errorf("stores on disk: %w", err)
		}
	}
	ask := make(map[broker.TopicPartition]int32)
	for _, l := range j.cfg.Logs {
		if h, ok := headers[l.Store]; ok && h.HasPosition && h.Position.Epoch >= 0 {
			ask[l.TopicPartition] = h.Position.Epoch
		}
	}
	if len(ask) == 0 {
		return nil, nil
	}
	answers, err := j.cfg.Admin.EpochEnds(ctx, ask)
	if err != nil {
		return nil, j.errorf("epochs of changelogs: %w", err)
	}
	ends := make(map[string]int64)
	for _, l := range j.cfg.Logs {
		if a, ok := answers[l.TopicPartition]; ok {
			ends[l.Store] = a.End
		}
	}
	return ends, nil
}

func (j *Job) open(context.Context) error {
	j.res.Set = j.cfg.Set
	if j.res.Set == nil {
		set, err := j.cfg.Open(func(store string) state.Changelog {
			if c, ok := j.known[store]; ok {
				return c
			}
			return state.UnknownChangelog()
		})
		if err != nil {
			return err
		}
		j.res.Set, j.opened = set, true
		for _, l := range j.cfg.Logs {
			set.KnowTopic(l.Store, j.known[l.Store].TopicID)
		}
	}
	for _, l := range j.cfg.Logs {
		j.stores = append(j.stores, &storeJob{j: j, log: l, known: j.known[l.Store]})
	}
	j.next = j.restoreStores
	if len(j.stores) == 0 {
		j.next = nil
	}
	return nil
}

// restoreStores does one step of the next store that is not level.
func (j *Job) restoreStores(ctx context.Context) error {
	for range j.stores {
		s := j.stores[j.turn]
		j.turn = (j.turn + 1) % len(j.stores)
		if s.done {
			continue
		}
		if err := s.step(ctx); err != nil {
			return err
		}
		break
	}
	for _, s := range j.stores {
		if !s.done {
			return nil
		}
	}
	j.next = nil
	return nil
}
