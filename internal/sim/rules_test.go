package sim

import (
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/internal/broker/brokertest"
	"github.com/millrace-io/millrace/internal/runtime"
)

// brokenRule is a rule that an engine breaks on purpose.
type brokenRule struct {
	name        string
	engine      runtime.Broken
	unstable    bool // committed offsets are taken while a transaction holds others
	uncommitted bool // changelogs are read uncommitted
	atLeastOnce bool // it is broken under at-least-once
	workload    string
	inMemory    bool
	onDisk      bool
	copies      bool
	// loseUnwritten forgets what a disk did not take, as if it had.
	loseUnwritten bool
	often         string // a kind of trouble that brings it to light
	alone         bool   // nothing else goes wrong
	budget        int    // seeds within which it must be found
}

func (b brokenRule) admin(c *brokertest.Cluster) *brokertest.Admin {
	if b.unstable {
		return c.Admin().Unstable()
	}
	return c.Admin()
}

func (b brokenRule) reader(c *brokertest.Cluster) *brokertest.Reader {
	if b.uncommitted {
		return c.Reader().Uncommitted()
	}
	return c.Reader()
}

// brokenRules are those of the commit, of ownership, of restore and of time.
func brokenRules() []brokenRule {
	return []brokenRule{
		{name: "restore to the last stable offset", engine: runtime.Broken{StableEnd: true}, budget: 100},
		{name: "skip the replay of the gap", engine: runtime.Broken{SkipGap: true}, onDisk: true, budget: 100},
		{name: "read changelogs uncommitted", uncommitted: true, budget: 100},
		{name: "take committed offsets while a transaction holds others", unstable: true, budget: 100},
		{name: "go on from a remembered offset", engine: runtime.Broken{Remember: true}, budget: 100},
		{name: "keep what was staged in an aborted transaction", engine: runtime.Broken{KeepStaged: true}, budget: 100},
		{name: "trust a checkpoint ahead of the commit", engine: runtime.Broken{SealEarly: true}, budget: 100},
		{name: "trust a new member id", engine: runtime.Broken{TrustIdentity: true}, often: "a member gets another id, and is not told", budget: 100},
		{name: "keep the units of a released partition", engine: runtime.Broken{KeepReleased: true}, often: "records are held up", budget: 100},
		{name: "send ahead of the end of a transaction", engine: runtime.Broken{SendAhead: true}, budget: 100},
		{name: "take an unknown end for a commit", engine: runtime.Broken{UnknownIsCommitted: true}, budget: 100},
		{name: "commit offsets without results by themselves", engine: runtime.Broken{PlainCommits: true}, workload: "sifted", often: "requests that arrive late, or twice", budget: 300},
		{name: "commit before all acknowledgements", engine: runtime.Broken{Unacknowledged: true}, atLeastOnce: true, budget: 100},
		{name: "changelog records leave with their results", engine: runtime.Broken{Together: true}, atLeastOnce: true, workload: "closed", often: "records fail", budget: 100},
		{name: "replay before what was handed over is decided", engine: runtime.Broken{Unsettled: true}, onDisk: true, often: "a disk is full", budget: 100},
		{name: "take a copy over without the gap behind it", engine: runtime.Broken{SkipGap: true}, inMemory: true, copies: true, budget: 100},
		{name: "forget what a disk did not take", loseUnwritten: true, onDisk: true, often: "a disk is full", budget: 100},
		{name: "go on beside another one of the same identity", engine: runtime.Broken{IgnoreTwins: true}, often: "another one has the instance id", alone: true, budget: 100},
		{name: "forget the times of the windows", engine: runtime.Broken{ForgetTimes: true}, workload: "windows", budget: 100},
	}
}

// scenario draws what a seed does with the rule broken.
func (b brokenRule) scenario(seed uint64) (scenario, error) {
	sc := drawScenario(seed)
	sc.exactly, sc.broken, sc.often, sc.alone = !b.atLeastOnce, b, b.often, b.alone
	if b.onDisk || b.inMemory {
		sc.inMemory = b.inMemory
	}
	sc.copies = sc.copies || b.copies
	var err error
	if b.workload != "" {
		sc.workload, err = FindWorkload(b.workload)
	}
	return sc, err
}

// TestSim_brokenRules shows that the simulation can fail: an engine that breaks one of the rules is found out. The first seed
// that does it is told.
func TestSim_brokenRules(t *testing.T) {
	for _, rule := range brokenRules() {
		t.Run(strings.ReplaceAll(rule.name, " ", "_"), func(t *testing.T) {
			for seed := range uint64(rule.budget) {
				sc, err := rule.scenario(seed + 1)
				if err != nil {
					t.Fatal(err)
				}
				w, err := simulate(seed+1, sc)
				if w == nil {
					t.Fatal(err)
				}
				if err != nil {
					t.Logf("found by seed %d: %v", seed+1, firstLine(err))
					return
				}
			}
			t.Errorf("%d seeds do not find out an engine that breaks the rule", rule.budget)
		})
	}
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(fmt.Sprint(err), "\n")
	return line
}
