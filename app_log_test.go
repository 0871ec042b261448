package millrace

import (
	"bytes"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/processor"
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

// A setting that counts for nothing beside others is warned of.
func TestNewApp_warnsOfSettingsWithoutEffect(t *testing.T) {
	props := func(kv ...string) AppOption {
		m := make(map[string]string)
		for i := 0; i < len(kv); i += 2 {
			m[kv[i]] = kv[i+1]
		}
		return FromProperties(m)
	}
	const stay, tags = "StayInGroup has no effect", "rack.aware.assignment.tags names the tag zone,"
	for name, x := range map[string]struct {
		opts []AppOption
		want string // "": no warning
	}{
		"static by the directory":   {[]AppOption{StayInGroup()}, ""},
		"static membership off":     {[]AppOption{StayInGroup(), props("millrace.static.membership", "false")}, stay},
		"in memory":                 {[]AppOption{StayInGroup(), InMemoryState()}, stay},
		"in memory, with an id":     {[]AppOption{StayInGroup(), InMemoryState(), props("group.instance.id", "i")}, ""},
		"static off, does not stay": {[]AppOption{props("millrace.static.membership", "false")}, ""},
		"a tag that it has":         {[]AppOption{props("rack.aware.assignment.tags", "zone", "client.tag.zone", "a")}, ""},
		"a tag that it has not":     {[]AppOption{props("rack.aware.assignment.tags", "zone,host", "client.tag.host", "h")}, tags},
		"a tag, and no spreading":   {[]AppOption{props("client.tag.zone", "a")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			opts := append([]AppOption{ApplicationID("a"), Brokers("h:1"), StateDir(t.TempDir()), Logger(slog.New(slog.NewTextHandler(&log, nil)))}, x.opts...)
			if _, err := NewApp(countInto(t, "in", "out"), opts...); err != nil {
				t.Fatal(err)
			}
			if got := strings.Count(log.String(), "level=WARN"); x.want == "" && got > 0 || x.want != "" && (got != 1 || !strings.Contains(log.String(), x.want)) {
				t.Errorf("wanted %q, it says:\n%s", x.want, &log)
			}
		})
	}
}

// The line of a record that has failed leaves out what there is not.
func TestApp_failedRecordIsLoggedWithoutEmptyFields(t *testing.T) {
	var log bytes.Buffer
	a := &App{log: slog.New(slog.NewTextHandler(&log, nil))}
	f := processor.Failure{Task: processor.TaskID{Subtopology: 1, Partition: 2}, Err: errors.New("bad")}
	a.logged(LogAndFail())(f)
	if s := log.String(); strings.Contains(s, "output_topic") || strings.Contains(s, "dead_letters") || !strings.Contains(s, "task=1_2") {
		t.Error(s)
	}
	log.Reset()
	f.OutputTopic = "out"
	a.logged(DeadLetters("dead"))(f)
	if s := log.String(); !strings.Contains(s, "output_topic=out") || !strings.Contains(s, "dead_letters=1") {
		t.Error(s)
	}
}
