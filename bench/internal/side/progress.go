package side

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// reportEvery is how often a side tells its progress. The Java side has the same.
const reportEvery = 50 * time.Millisecond

// Progress counts input records. It is spread over cache lines, so that workers that count at the same time do not wait
// for each other: a counter must not be what is measured.
type Progress struct {
	lanes    [16]lane
	restored atomic.Pointer[Restored]
	copies   atomic.Pointer[func() Copies]
}

type lane struct {
	n atomic.Int64
	_ [56]byte
}

// Add counts n records. Any number may be given as the lane; those of records that are counted at the same time should
// differ: the last byte of the key will do.
func (p *Progress) Add(lane byte, n int64) { p.lanes[lane%16].n.Add(n) }

// Total is the number of records counted.
func (p *Progress) Total() int64 {
	var sum int64
	for i := range p.lanes {
		sum += p.lanes[i].n.Load()
	}
	return sum
}

// Restored is what a side had restored when the last of its restores ended that has ended so far.
type Restored struct {
	Stores  int64
	Records int64
	Took    time.Duration // from the beginning of the first restore
}

// Restored tells of restores that have ended, all of them together.
func (p *Progress) Restored(r Restored) { p.restored.Store(&r) }

// String is the line's text, without its end.
func (r Restored) String() string {
	return fmt.Sprintf("restored %d %d %d", r.Stores, r.Records, r.Took.Nanoseconds())
}

// ParseRestored reads a line; ok is false for any other line that a side prints.
func ParseRestored(line string) (r Restored, ok bool) {
	n, ok := numbers(line, "restored", 3)
	if !ok {
		return r, false
	}
	return Restored{Stores: n[0], Records: n[1], Took: time.Duration(n[2])}, true
}

// Copies is what a side has of state that it keeps for others.
type Copies struct {
	Stores int64 // copies of stores
	Behind int64 // how many records of the changelogs they lack, all together
}

// Copies says whom to ask for the copies.
func (p *Progress) Copies(ask func() Copies) { p.copies.Store(&ask) }

// String is the line's text, without its end.
func (c Copies) String() string { return fmt.Sprintf("copies %d %d", c.Stores, c.Behind) }

// ParseCopies reads a line; ok is false for any other line that a side prints.
func ParseCopies(line string) (c Copies, ok bool) {
	n, ok := numbers(line, "copies", 2)
	if !ok {
		return c, false
	}
	return Copies{Stores: n[0], Behind: n[1]}, true
}

// Reading is one line of progress: how many records the side had taken up at a moment of its own monotonic clock.
type Reading struct {
	Records int64
	AtNanos int64
}

// String is the line's text, without its end.
func (r Reading) String() string { return fmt.Sprintf("progress %d %d", r.Records, r.AtNanos) }

// ParseReading reads a line; ok is false for any other line that a side prints.
func ParseReading(line string) (r Reading, ok bool) {
	n, ok := numbers(line, "progress", 2)
	if !ok {
		return r, false
	}
	return Reading{Records: n[0], AtNanos: n[1]}, true
}

// numbers reads a line of a word and so many numbers.
func numbers(line, word string, count int) ([]int64, bool) {
	fields := strings.Fields(line)
	if len(fields) != 1+count || fields[0] != word {
		return nil, false
	}
	var out []int64
	for _, f := range fields[1:] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return nil, false
		}
		out = append(out, n)
	}
	return out, true
}

// Main runs a Go side as the process of its own: it prints the progress to out until the side ends, and ends the side
// when in does, which is when the runner is gone.
func Main(ctx context.Context, s Side, args []string, in io.Reader, out io.Writer) error {
	c, err := ParseArgs(args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	var p Progress
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, c, &p) }()
	start := time.Now()
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	var told *Restored
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			if r := p.restored.Load(); r != told {
				if _, err := fmt.Fprintln(out, r); err != nil {
					return fmt.Errorf("bench: progress: %w", err)
				}
				told = r
			}
			if ask := p.copies.Load(); ask != nil {
				if _, err := fmt.Fprintln(out, (*ask)()); err != nil {
					return fmt.Errorf("bench: progress: %w", err)
				}
			}
			r := Reading{Records: p.Total(), AtNanos: time.Since(start).Nanoseconds()}
			if _, err := fmt.Fprintln(out, r); err != nil {
				return fmt.Errorf("bench: progress: %w", err)
			}
		}
	}
}
