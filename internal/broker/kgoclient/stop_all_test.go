package kgoclient

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/broker"
)

func stopped(e broker.MembershipEvent) bool { return errors.Is(e.Err, broker.ErrApplicationStopped) }

// When one member asks for the end of the application, all members of the group hear of it, once each, who has asked and why; also
// one that joins while they are still there. Who joins when they have left does not.
func TestMembership_stopAll(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 6, nil)
	topology := reads("s", []string{"in"})
	a, b := join(t, cfg, fast(), topology), join(t, cfg, fast(), topology)
	settle(t, 6, a, b)
	why := "task 0_1 has failed: " + strings.Repeat("ä", 2*stopAllMax)
	b.StopAll(why)
	for _, x := range []*member{a, b} {
		e := x.until(broker.MembershipFail, stopped)
		text := e.Err.Error()
		if !strings.Contains(text, "member "+b.memberID()) || !strings.Contains(text, "task 0_1 has failed: ää") || len(text) > 2*stopAllMax {
			t.Errorf("told %q", text)
		}
	}
	if err := b.Leave(testCtx(t), false); err != nil {
		t.Fatal(err)
	}
	// a has not left yet: who comes now belongs to what is being stopped.
	d := join(t, cfg, fast(), topology)
	go func() {
		for e := range a.Events() {
			e.Done()
		}
	}()
	if e := d.until(broker.MembershipFail, stopped); !strings.Contains(e.Err.Error(), "task 0_1 has failed") {
		t.Errorf("told %v", e.Err)
	}
	if err := errors.Join(a.Leave(testCtx(t), false), d.Leave(testCtx(t), false)); err != nil {
		t.Fatal(err)
	}
	e := join(t, cfg, fast(), topology)
	settle(t, 6, e)
	before := e.id.Generation
	e.Rejoin()
	for e.id.Generation == before {
		if ev := e.next(); ev.Kind == broker.MembershipFail {
			t.Fatalf("the group tells %v to who has joined anew", ev.Err)
		}
	}
}

// A static member that comes back is given the assignment that told its former life to stop. It asks again, and goes on.
func TestMembership_stopAllOfAFormerLife(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 2, nil)
	static := fast()
	static.InstanceID, static.SessionTimeout = "one", 10*time.Second
	answerSync(c, assignmentData{Signature: "s", Tasks: []broker.TaskID{{Partition: 0}, {Partition: 1}}, StopAll: "member x: long ago"}, "in")
	a := join(t, cfg, static, reads("s", []string{"in"}))
	joins := 0
	for joins < 2 {
		e := a.next()
		e.Done()
		if e.Kind == broker.MembershipFail {
			t.Fatalf("told %v", e.Err)
		}
		if e.Kind == broker.Assigned {
			joins++
		}
	}
	if len(a.owned) != 2 {
		t.Errorf("owns %v", a.owned)
	}
}
