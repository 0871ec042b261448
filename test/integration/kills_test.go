package integration_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/test/child"
	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// kills is how often TestKills kills: MILLRACE_KILLS, once if it is not set.
func kills(t *testing.T) int {
	t.Helper()
	text := os.Getenv("MILLRACE_KILLS")
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("MILLRACE_KILLS=%q: want a number above 0", text)
	}
	return n
}

// Processes are killed again and again in the middle of the work, and started again on the disk that they left. No key
// ends below its right count.
func TestKills(t *testing.T) {
	killAndCount(t, nil, func(p *processes) {
		p.checkCounts(func(n, want int64) bool { return n >= want }, "at least")
	})
}

// The same exactly once, without a cache: a reader of committed records sees each count of each key once and in order, and at
// the end no transaction is open.
func TestKills_exactlyOnce(t *testing.T) {
	killAndCount(t, map[string]string{"processing.guarantee": "exactly_once_v2", "statestore.cache.max.bytes": "0"}, func(p *processes) {
		lost, doubled := p.countSteps()
		p.t.Logf("kills=%d lost=%d doubled=%d", kills(p.t), lost, doubled)
		if lost != 0 || doubled != 0 {
			p.t.Errorf("%d results are missing, %d are there twice", lost, doubled)
		}
	})
}

// killAndCount counts records while processes are killed. MILLRACE_SEED replays the choice of the victims.
func killAndCount(t *testing.T, settings map[string]string, check func(*processes)) {
	seed := uint64(1)
	if text := os.Getenv("MILLRACE_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("MILLRACE_SEED=%q: want a number", text)
		}
		seed = n
	}
	eachProtocol(t, func(t *testing.T, b kafkatest.Broker, protocol millrace.GroupProtocolKind) {
		const perRound = 100 * processKeys
		rounds := kills(t)
		t.Logf("%d kills, MILLRACE_SEED=%d", rounds, seed)
		victims := rand.New(rand.NewPCG(seed, seed))
		p := &processes{t: t, b: b, app: b.Name("kills"), total: (rounds + 1) * perRound}
		p.topics = childTopics{
			In:  kafkatest.CreateTopic(t, b, "kills-in", processPartitions),
			Out: kafkatest.CreateTopic(t, b, "kills-out", processPartitions),
		}
		dirs := t.TempDir()
		start := func(i int) *child.Process {
			all := map[string]string{
				"application.id": p.app, "bootstrap.servers": strings.Join(b.Bootstrap(), ","),
				"state.dir":          filepath.Join(dirs, strconv.Itoa(i)),
				"session.timeout.ms": fmt.Sprint(processSession.Milliseconds()), "group.protocol": protocol.String(),
			}
			maps.Copy(all, settings)
			return startChild(t, fmt.Sprint("process-", i), childSpec{Topology: "count", Topics: p.topics, Settings: all})
		}
		for i := range 3 {
			p.children = append(p.children, start(i))
		}
		for round := range rounds {
			loaded := p.loading(perRound)
			p.awaitProcessed(round*perRound + perRound/4)
			victim := victims.IntN(len(p.children))
			p.children[victim].Kill()
			if err := <-loaded; err != nil {
				t.Fatal(err)
			}
			p.children[victim] = start(victim)
		}
		p.load(perRound)
		p.awaitProcessed(p.total)
		check(p)
		p.stopAll(0, 1, 2)
	})
}
