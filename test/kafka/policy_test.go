package kafkatest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// verdict records how a test would have ended.
type verdict struct {
	testing.TB
	skipped, failed bool
	text            string
}

// ended is thrown by verdict in the place of ending the goroutine.
type ended struct{}

func (v *verdict) Helper() {}

func (v *verdict) Skip(args ...any) {
	v.skipped, v.text = true, fmt.Sprint(args...)
	panic(ended{})
}

func (v *verdict) Fatal(args ...any) {
	v.failed, v.text = true, fmt.Sprint(args...)
	panic(ended{})
}

func judge(t *testing.T, f func(testing.TB)) *verdict {
	v := &verdict{TB: t}
	func() {
		defer func() {
			if r := recover(); r != nil && r != any(ended{}) {
				panic(r)
			}
		}()
		f(v)
	}()
	return v
}

func TestPolicy(t *testing.T) {
	missing := fmt.Errorf("kafkatest: %w: java is not on the PATH", ErrUnavailable)
	broken := errors.New("kafkatest: broker 1 has ended")
	for _, tt := range []struct {
		name, kafka, require string
		err                  error
		skipped, failed      bool
	}{
		{name: "no java", err: missing, skipped: true},
		{name: "no java but required", require: "1", err: missing, failed: true},
		{name: "required switched off by 0", require: "0", err: missing, skipped: true},
		{name: "a broker that does not start is never skipped", err: broken, failed: true},
		{name: "left out", kafka: "off", skipped: true},
		{name: "left out and required", kafka: "off", require: "1", failed: true},
		{name: "wanted and there"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("MILLRACE_KAFKA", tt.kafka)
			t.Setenv("MILLRACE_REQUIRE_KAFKA", tt.require)
			v := judge(t, func(tb testing.TB) {
				mustBeWanted(tb)
				if tt.err != nil {
					unavailable(tb, tt.err)
				}
			})
			if v.skipped != tt.skipped || v.failed != tt.failed {
				t.Errorf("skipped %v, failed %v: %s", v.skipped, v.failed, v.text)
			}
			if strings.Contains(v.text, "\n") {
				t.Errorf("more than one line: %s", v.text)
			}
		})
	}
}

func TestOptionsAreChecked(t *testing.T) {
	users := map[string]string{"alice": "secret"}
	for name, o := range map[string]Options{
		"two brokers":          {Brokers: 2},
		"a lower case name":    {Listeners: []Listener{{Name: "tls", TLS: true}}},
		"a name twice":         {Listeners: []Listener{{Name: "A"}, {Name: "A"}}},
		"a reserved name":      {Listeners: []Listener{{Name: "CONTROLLER"}}},
		"sasl without users":   {Listeners: []Listener{{Name: "A", SASL: Plain}}},
		"an unknown mechanism": {Listeners: []Listener{{Name: "A", SASL: "GSSAPI"}}, Users: users},
		"mutual without tls":   {Listeners: []Listener{{Name: "A", ClientCert: true}}},
		"a quote in a name":    {Users: map[string]string{`a"b`: "x"}},
	} {
		if err := o.withDefaults().check(); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	ok := Options{Brokers: 3, Users: users, Listeners: []Listener{{Name: "A", TLS: true, ClientCert: true, SASL: ScramSHA512}}}
	if err := ok.withDefaults().check(); err != nil {
		t.Error(err)
	}
}

func TestRenderProperties(t *testing.T) {
	got := renderProperties(map[string]string{"b": "plain", "a": `C:\x`, "c": " led by a blank"})
	want := "a=C:\\\\x\nb=plain\nc=\\ led by a blank\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFreePortsDiffer(t *testing.T) {
	taken := make(map[int]bool)
	first, err := freePorts(20, taken)
	if err != nil {
		t.Fatal(err)
	}
	second, err := freePorts(20, taken)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[int]bool)
	for _, p := range append(first, second...) {
		if seen[p] || p < firstPort || p >= endPort {
			t.Errorf("port %d", p)
		}
		seen[p] = true
	}
}
