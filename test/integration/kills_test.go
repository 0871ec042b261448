package integration_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

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
// ends below its right count. MILLRACE_SEED replays the choice of the victims.
func TestKills(t *testing.T) {
	seed := uint64(1)
	if text := os.Getenv("MILLRACE_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("MILLRACE_SEED=%q: want a number", text)
		}
		seed = n
	}
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
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
		start := func(i int) *child {
			return startChild(t, fmt.Sprint("process-", i), childSpec{
				Topology: "count", Topics: p.topics, Settings: map[string]string{
					"application.id": p.app, "bootstrap.servers": strings.Join(b.Bootstrap(), ","),
					"state.dir":          filepath.Join(dirs, strconv.Itoa(i)),
					"session.timeout.ms": fmt.Sprint(processSession.Milliseconds()),
				},
			})
		}
		for i := range 3 {
			p.children = append(p.children, start(i))
		}
		for round := range rounds {
			loaded := p.loading(perRound)
			p.awaitProcessed(round*perRound + perRound/4)
			victim := victims.IntN(len(p.children))
			p.children[victim].kill()
			if err := <-loaded; err != nil {
				t.Fatal(err)
			}
			p.children[victim] = start(victim)
		}
		p.load(perRound)
		p.awaitProcessed(p.total)
		p.checkCounts(func(n, want int64) bool { return n >= want }, "at least")
		p.stopAll(0, 1, 2)
	})
}
