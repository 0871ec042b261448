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
	lanes [16]lane
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

// Reading is one line of progress: how many records the side had taken up at a moment of its own monotonic clock.
type Reading struct {
	Records int64
	AtNanos int64
}

// String is the line's text, without its end.
func (r Reading) String() string { return fmt.Sprintf("progress %d %d", r.Records, r.AtNanos) }

// ParseReading reads a line; ok is false for any other line that a side prints.
func ParseReading(line string) (r Reading, ok bool) {
	fields := strings.Fields(line)
	if len(fields) != 3 || fields[0] != "progress" {
		return r, false
	}
	records, err1 := strconv.ParseInt(fields[1], 10, 64)
	at, err2 := strconv.ParseInt(fields[2], 10, 64)
	return Reading{records, at}, err1 == nil && err2 == nil
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
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			r := Reading{Records: p.Total(), AtNanos: time.Since(start).Nanoseconds()}
			if _, err := fmt.Fprintln(out, r); err != nil {
				return fmt.Errorf("bench: progress: %w", err)
			}
		}
	}
}
