package measure

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/bench/internal/side"
)

func TestParseCPU(t *testing.T) {
	stat := "42 (a) name) S 1 42 42 0 -1 4194560 9999 0 0 0 150 25 7 8 20 0 30 0 100 200 300"
	got, err := parseCPU([]byte(stat))
	if err != nil || got != 1750*time.Millisecond {
		t.Errorf("got %v, %v, want 1.75s", got, err)
	}
	for _, bad := range []string{"", "42 (a) S 1 2", "42 (a) S 1 42 42 0 -1 4194560 9999 0 0 0 x 25 7"} {
		if _, err := parseCPU([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestParsePeakRSS(t *testing.T) {
	got, err := parsePeakRSS([]byte("Name:\tjava\nVmPeak:\t 9999 kB\nVmHWM:\t  2048 kB\nVmRSS:\t 1024 kB\n"))
	if err != nil || got != 2<<20 {
		t.Errorf("got %d, %v", got, err)
	}
	if _, err := parsePeakRSS([]byte("Name:\tjava\n")); err == nil {
		t.Error("a status without a peak was accepted")
	}
}

// shell is a side written in sh.
func shell(t *testing.T, script string) *process {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("no sh")
	}
	p, err := start(t.Context(), []string{"sh", "-c", script}, side.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestReadingsOfAProcess(t *testing.T) {
	p := shell(t, "echo hello; echo progress 0 10; echo progress 5 20; echo progress 9 30; read -r end")
	r, err := p.await(t.Context(), func(r side.Reading) bool { return r.Records > 0 })
	if err != nil || r != (side.Reading{Records: 5, AtNanos: 20}) {
		t.Errorf("got %v, %v", r, err)
	}
	if _, err := p.await(t.Context(), func(r side.Reading) bool { return r.Records == 9 }); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat("/proc/self/stat"); err == nil {
		if _, err := p.cpu(); err != nil {
			t.Error(err)
		}
		if rss, err := p.peakRSS(); err != nil || rss <= 0 {
			t.Errorf("peak %d, %v", rss, err)
		}
	}
	if last := p.stop(); last.Records != 9 {
		t.Errorf("last reading %v", last)
	}
}

func TestAProcessThatEndsEarly(t *testing.T) {
	p := shell(t, "echo progress 1 1; echo it broke >&2; exit 3")
	_, err := p.await(t.Context(), func(r side.Reading) bool { return r.Records > 1 })
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "it broke") {
		t.Errorf("got %v", err)
	}
	p.stop()
}

func TestAProcessThatSaysNothing(t *testing.T) {
	p := shell(t, "read -r end")
	defer p.stop()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.await(ctx, func(side.Reading) bool { return true }); err == nil {
		t.Error("a reading out of nothing")
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	var tl tail
	for range 100 {
		if _, err := tl.Write([]byte(strings.Repeat("x", 99) + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = tl.Write([]byte("the end"))
	if got := tl.String(); len(got) > tailBytes || !strings.HasSuffix(got, "the end") {
		t.Errorf("%d bytes that end with %q", len(got), got[len(got)-10:])
	}
}
