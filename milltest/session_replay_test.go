package milltest_test

import (
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/window"
)

// After a crash the changelog is ahead of the input: the first record that comes in again is merged into a session that has
// grown already. That must not make the other keys' records late, which come in again behind it.
func TestSessions_aReplayedRecordMakesNoOtherLate(t *testing.T) {
	b := millrace.NewBuilder()
	sessions, late := millrace.CountSessions(millrace.From(b, strTopic).GroupByKey().SessionBy(window.Session(10*ms)), millrace.StoreName("s"), millrace.WithoutCache())
	sessions.ToStream().ForEach(func(window.Key[string], int64) {})
	n := 0
	late.ForEach(func(string, window.Late[string]) { n++ })
	d := milltest.New(t, build(t, b), milltest.ManualCommit())
	for _, r := range []string{"x=v@0", "y=v@1", "x=v@8", "x=v@16", "x=v@24", "x=v@32"} {
		pipe(t, d, "in", r)
	}
	if n != 0 {
		t.Fatalf("%d records are late at first", n)
	}
	restart(t, d)
	d.Commit()
	if n != 0 {
		t.Errorf("%d records are late when they come in again", n)
	}
}
