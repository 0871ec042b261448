package millrace

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

// The log says with what and as whom an App runs, and what becomes of its place in the group at the end.
func TestApp_startAndEndAreLogged(t *testing.T) {
	dir := t.TempDir()
	for name, x := range map[string]struct {
		opts             []AppOption
		start, join, end []string
	}{
		"static, stays": {[]AppOption{StateDir(dir), StayInGroup(), Workers(3)},
			[]string{"application_id=app", "brokers=[127.0.0.1:", "guarantee=at_least_once", "state_dir=" + filepath.Join(dir, "app"), "group_protocol=classic", "workers=3"},
			[]string{"group=app", "static=true", "instance_id="},
			[]string{`group="place kept until the session timeout"`}},
		"exactly once": {[]AppOption{Guarantee(ExactlyOnceV2)},
			[]string{"guarantee=exactly_once_v2", `workers="as many as there are processors"`},
			[]string{"static=true", "transactional_id=app-"}, []string{"group=left"}},
		"in memory, would stay": {[]AppOption{InMemoryState(), StayInGroup()},
			[]string{"in memory"}, []string{"static=false"}, []string{"group=left"}},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKafka(t)
			k.topic("in", 1)
			k.topic("out", 1)
			a := k.start(countInto(t, "in", "out"), x.opts...)
			a.untilRunning()
			a.stop()
			for line, texts := range map[string][]string{"msg=starting": x.start, `msg="joining the group"`: x.join, "msg=stopped": x.end} {
				if n := a.lines(line); n != 1 || !a.logged(append(texts, "level=INFO", line)...) {
					t.Errorf("%d lines with %q, wanted one with %q", n, line, texts)
				}
			}
			if !strings.Contains(a.log[0], "msg=starting") {
				t.Errorf("the first line is %q", a.log[0])
			}
		})
	}
}

// The last line of an App that has failed is its error.
func TestApp_endWithAnErrorIsLogged(t *testing.T) {
	k := newKafka(t)
	a := k.start(countInto(t, "in", "out"))
	if err := a.fails(); !errors.As(err, new(*MissingTopicsError)) {
		t.Fatal(err)
	}
	if last := a.log[len(a.log)-1]; !strings.Contains(last, `level=ERROR msg="ended with an error" group="never joined"`) || !strings.Contains(last, "in") {
		t.Errorf("the last line is %q", last)
	}
}
