package millrace

import (
	"strings"
	"testing"

	"github.com/millrace-io/millrace/serde"
)

// Where brokers assign the tasks, racks of replicas do not count, and that is said.
func TestNewApp_racksUnderTheStreamsProtocol(t *testing.T) {
	b := NewBuilder()
	From(b, NewTopic("in", serde.Bytes, serde.Bytes)).To(NewTopic("out", serde.Bytes, serde.Bytes))
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	for protocol, want := range map[string]bool{"classic": false, "streams": true} {
		a, err := NewApp(topology, ApplicationID("a"), Brokers("h:1"), Rack("east"),
			FromProperties(map[string]string{"group.protocol": protocol, "rack.aware.assignment.strategy": "balance_subtopology"}))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(strings.Join(a.opts.warnings, "\n"), "rack.aware.assignment.strategy has no effect"); got != want {
			t.Errorf("%s: warned %t, want %t: %q", protocol, got, want, a.opts.warnings)
		}
		for _, rack := range []string{a.opts.cfg.Main.Rack, a.opts.cfg.Restore.Rack, a.opts.cfg.Global.Rack} {
			if rack != "east" {
				t.Errorf("a client reads without the rack: %q", rack)
			}
		}
	}
}
