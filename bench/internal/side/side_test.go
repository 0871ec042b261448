package side

import (
	"bufio"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestArgsRoundTrip(t *testing.T) {
	want := Config{
		Scenario: TumblingCount, Guarantee: ExactlyOnce, Brokers: []string{"127.0.0.1:1", "127.0.0.1:2"}, AppID: "app",
		Input: "in", Table: "table", Output: "out", CommitInterval: 100 * time.Millisecond, CacheBytes: 1 << 20,
		Threads: 2, StateDir: "/tmp/a=b", InstanceID: "one",
		Standbys: 1, SessionTimeout: 6 * time.Second, Stay: true,
	}
	got, err := ParseArgs(want.Args())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"scenario", "nonsense=1", "threads=two"} {
		if _, err := ParseArgs([]string{bad}); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestReadings(t *testing.T) {
	want := Reading{Records: 12, AtNanos: 34}
	if got, ok := ParseReading(want.String()); !ok || got != want {
		t.Errorf("got %v, %v", got, ok)
	}
	for _, other := range []string{"", "hello", "progress 1", "progress x 2", "progress 1 2 3"} {
		if _, ok := ParseReading(other); ok {
			t.Errorf("%q is taken for a reading", other)
		}
	}
}

func TestRestoredLines(t *testing.T) {
	want := Restored{Stores: 4, Records: 12, Took: 34 * time.Millisecond}
	if got, ok := ParseRestored(want.String()); !ok || got != want {
		t.Errorf("got %v, %v", got, ok)
	}
	if got, ok := ParseRestored(Reading{Records: 1, AtNanos: 2}.String()); ok {
		t.Errorf("a progress line is taken for %v", got)
	}
}

func TestCopiesLines(t *testing.T) {
	want := Copies{Stores: 4, Behind: 12}
	if got, ok := ParseCopies(want.String()); !ok || got != want {
		t.Errorf("got %v, %v", got, ok)
	}
	if got, ok := ParseCopies(Reading{Records: 1, AtNanos: 2}.String()); ok {
		t.Errorf("a progress line is taken for %v", got)
	}
}

// counting is a side that counts up to a number and then waits.
type counting struct {
	to   int64
	fail error
}

func (s counting) Run(ctx context.Context, c Config, p *Progress) error {
	for i := range s.to {
		p.Add(byte(i), 1)
	}
	if s.fail != nil {
		return s.fail
	}
	<-ctx.Done()
	return nil
}

func TestMainTellsProgressUntilItsInputEnds(t *testing.T) {
	in, closeIn := io.Pipe()
	out, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- Main(t.Context(), counting{to: 1000}, nil, in, w)
		w.Close()
	}()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		r, ok := ParseReading(lines.Text())
		if !ok || r.AtNanos <= 0 || r.Records > 1000 {
			t.Fatalf("got %q", lines.Text())
		}
		if r.Records == 1000 {
			break
		}
	}
	closeIn.Close()
	go func() { _, _ = io.Copy(io.Discard, out) }()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestMainReturnsTheSidesError(t *testing.T) {
	in, closeIn := io.Pipe()
	defer closeIn.Close()
	boom := errors.New("boom")
	if err := Main(t.Context(), counting{fail: boom}, nil, in, io.Discard); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
	if err := Main(t.Context(), counting{}, []string{"bad"}, in, io.Discard); err == nil {
		t.Error("a bad argument was accepted")
	}
}
