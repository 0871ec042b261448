package kgoclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/clock"
)

// A warning that comes four times a second for a minute is told a few times, with the number of those between; one of another
// address, and one that comes after a quiet minute, is told at once.
func TestOutages_repeatsAreTold(t *testing.T) {
	fake := clock.NewFake(time.UnixMilli(0))
	o := NewOutages()
	o.now = fake.Now
	var text bytes.Buffer
	log := slog.New(quieter{slog.NewTextHandler(&text, nil), o})
	var at []string
	for i := range 4 * 60 {
		text.Reset()
		log.Warn("unable to open connection to broker", "addr", "a:1")
		if text.Len() > 0 {
			at = append(at, fmt.Sprint(float64(i)/4))
		}
		if i == 16 && !strings.Contains(text.String(), "not_told_since=7") {
			t.Errorf("after 4 s: %q", &text)
		}
		if err := fake.Advance(250 * time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(at, " "); got != "0 1 2 4 8 16 32" {
		t.Errorf("told at %s", got)
	}
	text.Reset()
	log.Warn("unable to open connection to broker", "addr", "b:1")
	if text.Len() == 0 {
		t.Error("another broker is not told")
	}
	if err := fake.Advance(forgetAfter); err != nil {
		t.Fatal(err)
	}
	text.Reset()
	log.Warn("unable to open connection to broker", "addr", "a:1")
	if text.Len() == 0 || strings.Contains(text.String(), "not_told_since") {
		t.Errorf("after a quiet minute: %q", &text)
	}
}

// A broker that was away is told once when it can be reached again, with the time that it was away.
func TestOutages_brokerIsBack(t *testing.T) {
	fake := clock.NewFake(time.UnixMilli(0))
	var text bytes.Buffer
	refused := errors.New("refused")
	var fails error
	cfg := Config{
		Logger: slog.New(slog.NewTextHandler(&text, nil)), Outages: NewOutages(),
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			if fails != nil {
				return nil, fails
			}
			a, b := net.Pipe()
			t.Cleanup(func() { _ = a.Close(); _ = b.Close() })
			return a, nil
		},
	}.withDefaults()
	cfg.Outages.now = fake.Now
	dial := func(err error) {
		fails = err
		_, _ = cfg.dial(t.Context(), "tcp", "a:1")
		if err := fake.Advance(time.Second); err != nil {
			t.Fatal(err)
		}
	}
	dial(nil)
	if text.Len() > 0 {
		t.Errorf("told without an outage: %s", &text)
	}
	dial(refused)
	dial(refused)
	dial(nil)
	dial(nil)
	if got := text.String(); strings.Count(got, "a broker can be reached again") != 1 || !strings.Contains(got, "addr=a:1 away=2s") {
		t.Errorf("the log says %q", got)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	fails = refused
	_, _ = cfg.dial(gone, "tcp", "b:1") // given up by the client
	text.Reset()
	fails = nil
	if _, err := cfg.dial(t.Context(), "tcp", "b:1"); err != nil || text.Len() > 0 {
		t.Errorf("error %v, told: %s", err, &text)
	}
}
