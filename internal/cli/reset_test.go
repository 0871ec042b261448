package cli

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/devbroker"
	"github.com/millrace-io/millrace/serde"
)

// counting is an application that counts words, over a repartition topic, and its broker.
type counting struct {
	*testing.T
	ctx        context.Context
	brokers    string
	client     *kgo.Client // reads counts
	admin      *kadm.Client
	stateDir   string
	properties string
	topology   *millrace.Topology
}

func newCounting(t *testing.T) *counting {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	broker, err := devbroker.Start(devbroker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := broker.Close(); err != nil {
			t.Error(err)
		}
	})
	c := &counting{T: t, ctx: ctx, brokers: strings.Join(broker.Addrs(), ","), stateDir: t.TempDir()}
	c.client, err = kgo.NewClient(kgo.SeedBrokers(broker.Addrs()...), kgo.MetadataMinAge(10*time.Millisecond), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"counts": {0: kgo.NewOffset().At(0)}}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.client.Close)
	c.admin = kadm.NewClient(c.client)
	if _, err := c.admin.CreateTopics(ctx, 1, 1, nil, "words", "counts"); err != nil {
		t.Fatal(err)
	}
	for _, w := range []string{"hop", "barley", "hop", "hop"} {
		if err := c.client.ProduceSync(ctx, &kgo.Record{Topic: "words", Key: []byte("k"), Value: []byte(w)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	c.properties = filepath.Join(t.TempDir(), "counting.properties")
	text := fmt.Sprintf("application.id=counting\nbootstrap.servers=%s\nstate.dir=%s\nprocessing.guarantee=exactly_once_v2\n", c.brokers, c.stateDir)
	if err := os.WriteFile(c.properties, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	b := millrace.NewBuilder()
	byWord := millrace.SelectKey(millrace.From(b, millrace.NewTopic("words", serde.String, serde.String)), func(_, word string) string { return word })
	counted := millrace.Count(byWord.GroupByKey(millrace.WithKey(serde.String)), millrace.As("count"))
	counted.ToStream().To(millrace.NewTopic("counts", serde.String, serde.Int64))
	if c.topology, err = b.Build(); err != nil {
		t.Fatal(err)
	}
	return c
}

// start runs the application until stop is called.
func (c *counting) start() (stop func()) {
	c.Helper()
	app, err := millrace.NewApp(c.topology, millrace.ApplicationID("counting"), millrace.Brokers(strings.Split(c.brokers, ",")...),
		millrace.StateDir(c.stateDir), millrace.CacheBytes(0), millrace.Guarantee(millrace.ExactlyOnceV2))
	if err != nil {
		c.Fatal(err)
	}
	ctx, cancel := context.WithCancel(c.ctx)
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			c.Error(err)
		}
	}
}

// wantNext reads the next results.
func (c *counting) wantNext(want ...string) {
	c.Helper()
	var got []string
	for len(got) < len(want) {
		f := c.client.PollRecords(c.ctx, len(want)-len(got))
		if err := f.Err(); err != nil {
			c.Fatalf("after %q: %v", got, err)
		}
		f.EachRecord(func(r *kgo.Record) {
			got = append(got, fmt.Sprintf("%s=%d", r.Key, binary.BigEndian.Uint64(r.Value)))
		})
	}
	if d := cmp.Diff(want, got); d != "" {
		c.Errorf("results (-want +got):\n%s", d)
	}
}

// topics asks the broker: what the client's admin answers may be what it has heard a while ago.
func (c *counting) topics() (names []string) {
	c.Helper()
	all, err := kmsg.NewPtrMetadataRequest().RequestWith(c.ctx, c.client)
	if err != nil {
		c.Fatal(err)
	}
	for _, t := range all.Topics {
		names = append(names, *t.Topic)
	}
	slices.Sort(names)
	return names
}

// An application that was reset gives its results once more, from the first one on.
func TestReset(t *testing.T) {
	c := newCounting(t)
	results := []string{"hop=1", "barley=1", "hop=2", "hop=3"}
	stop := c.start()
	c.wantNext(results...)

	line := []string{"reset", "--command-config", c.properties, "--input-topics", "words", "--state-dir", c.stateDir}
	code, stdout, stderr := call(t, line...)
	if code != exitError || stdout != "" {
		t.Errorf("beside an instance on this machine: exit code %d, stdout %q", code, stdout)
	}
	wantParts(t, "stderr", stderr, "state directory is in use", filepath.Join(c.stateDir, "counting"), "stop this instance")
	if strings.Contains(stderr, "of its own") {
		t.Errorf("advice for whoever starts an instance: %q", stderr)
	}
	code, stdout, stderr = call(t, append(line, "--dry-run", "--force")...)
	if code != exitError {
		t.Errorf("a dry run beside an instance on this machine: exit code %d", code)
	}
	wantParts(t, "stdout", stdout, "group: it has 1 member, to be taken out", "counting-count-changelog", "is in use by a running instance, which has to be stopped first", "dry run: nothing was changed")
	wantParts(t, "stderr", stderr, "state directory is in use", "stop this instance")
	code, _, stderr = call(t, "reset", "--command-config", c.properties, "--state-dir", filepath.Join(c.stateDir, "counting"))
	if code != exitError {
		t.Errorf("the application's own directory: exit code %d", code)
	}
	wantParts(t, "stderr", stderr, "the application id is added to it", "give --state-dir "+c.stateDir)

	code, stdout, stderr = call(t, "reset", "--application-id", "counting", "--bootstrap-server", c.brokers, "--input-topics", "words", "--dry-run")
	if code != exitError {
		t.Errorf("a dry run beside an instance elsewhere: exit code %d", code)
	}
	wantParts(t, "stdout", stdout, "refused, it has 1 member\n", "counting-count-changelog", "dry run: nothing was changed")
	wantParts(t, "stderr", stderr, "the application is running", "counting-", "--force")
	stop()

	before := c.topics()
	code, stdout, stderr = call(t, append(line, "--dry-run")...)
	if code != exitOK || stderr != "" {
		t.Errorf("dry run: exit code %d, stderr %q", code, stderr)
	}
	wantParts(t, "stdout", stdout, "reset of application counting", "group: no members", "counting-count-changelog\n", "counting-count-repartition\n",
		"words  0          4     0", "state to be deleted: "+filepath.Join(c.stateDir, "counting"), "dry run: nothing was changed")
	if d := cmp.Diff(before, c.topics()); d != "" {
		t.Errorf("a dry run changed topics (-before +after):\n%s", d)
	}
	stop = c.start()
	stop()

	code, stdout, stderr = call(t, line...)
	if code != exitOK || stderr != "" {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	wantParts(t, "stdout", stdout, "done: deleted 2 internal topics", "done: deleted the state in", "done: set the offsets of 1 partition", "application counting is reset")
	if d := cmp.Diff([]string{"counts", "words"}, c.topics()); d != "" {
		t.Errorf("topics (-want +got):\n%s", d)
	}
	code, stdout, stderr = call(t, line...)
	if code != exitOK || stderr != "" {
		t.Errorf("once more: exit code %d, stderr %q", code, stderr)
	}
	wantParts(t, "stdout", stdout, "internal topics to be deleted: none")

	stop = c.start()
	c.wantNext(results...)
	stop()
}

// From the middle of the input, with what is on disk left as it is: it is of topics that are gone, and not used.
func TestReset_toAnOffset(t *testing.T) {
	c := newCounting(t)
	stop := c.start()
	c.wantNext("hop=1", "barley=1", "hop=2", "hop=3")
	stop()
	code, _, stderr := call(t, "reset", "--command-config", c.properties, "--input-topics", "words", "--shift-by=-2", "--internal-topics=", "--dry-run")
	if code != exitOK {
		t.Errorf("dry run: exit code %d", code)
	}
	wantParts(t, "stderr", stderr, "millrace: reset: warning: ", "counting-count-changelog stay")
	code, stdout, stderr := call(t, "reset", "--command-config", c.properties, "--input-topics", "words", "--shift-by=-2")
	if code != exitOK || stderr != "" {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	wantParts(t, "stdout", stdout, "words  0          4     2", "delete "+filepath.Join(c.stateDir, "counting"))
	stop = c.start()
	c.wantNext("hop=1", "hop=2")
	stop()
}

func TestReset_usage(t *testing.T) {
	for line, want := range map[string]string{
		"":                             "--application-id is needed",
		"--application-id a b":         `takes no argument, but got "b"`,
		"--application-id a --nope":    "unknown flag: --nope",
		"--application-id a --brokers": "flag needs an argument",
		"--application-id a --bootstrap-servers kafka":                  "--brokers kafka: HOST:PORT",
		"--application-id a --to-latest":                                "--to-latest sets the offsets of the topics that --input-topics names",
		"--application-id a --input-topics t --to-earliest --to-latest": "--to-earliest and --to-latest exclude each other",
		"--application-id a --input-topics t --to-offset -1":            "--to-offset -1",
		"--application-id a --input-topics t --to-datetime yesterday":   `--to-datetime: "yesterday" is no time`,
		"--application-id a --input-topics t --by-duration -PT1H":       `--by-duration: "-PT1H"`,
		"--application-id a --input-topics s,t --intermediate-topics t": "topic t is both in --input-topics and in --intermediate-topics",
		"--application-id a --input-topics t, --dry-run":                "--input-topics: a name is empty",
	} {
		t.Run(line, func(t *testing.T) {
			code, stdout, stderr := call(t, append([]string{"reset"}, strings.Fields(line)...)...)
			if code != exitUsage || stdout != "" {
				t.Errorf("exit code %d, stdout %q", code, stdout)
			}
			wantParts(t, "stderr", stderr, "millrace: ", want, "--help' for usage")
		})
	}
}

func TestReset_errors(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"no broker":        {[]string{"--bootstrap-server", "127.0.0.1:1"}, []string{"127.0.0.1:1", "no broker can be reached"}},
		"no file":          {[]string{"--command-config", filepath.Join(dir, "none")}, []string{"--command-config", "none"}},
		"misspelt setting": {[]string{"--command-config", write("p", "securty.protocol=SSL\n")}, []string{"security.protocol", "--command-config"}},
		"no offsets":       {[]string{"--input-topics", "t", "--from-file", filepath.Join(dir, "none")}, []string{"--from-file", "none"}},
		"bad offsets":      {[]string{"--input-topics", "t", "--from-file", write("o", "t,0,x\n")}, []string{"--from-file", "line 1", `"x" is no offset`}},
		"bad application":  {[]string{"--application-id", "a b"}, []string{"application.id"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, stderr := call(t, append([]string{"reset", "--application-id", "a"}, c.args...)...)
			if code != exitError {
				t.Errorf("exit code %d", code)
			}
			wantParts(t, "stderr", stderr, append(c.want, "millrace: ")...)
		})
	}
}

func TestReset_settingsOfTheFileAndOfFlags(t *testing.T) {
	path := filepath.Join(t.TempDir(), "client.properties")
	text := "application.id=by-file\nbootstrap.servers=h:1\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n" +
		`sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";` + "\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string][2]string{
		"":                            {"by-file", "h:1"},
		"--application-id a":          {"a", "h:1"},
		"--brokers k:2":               {"by-file", "k:2"},
		"--bootstrap-servers k:2,k:3": {"by-file", "k:2 k:3"},
	} {
		var f resetFlags
		cmd := newReset(&f)
		if err := cmd.ParseFlags(append([]string{"--command-config", path}, strings.Fields(line)...)); err != nil {
			t.Fatal(err)
		}
		cfg, spec, err := f.settings(cmd)
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]string{spec.ApplicationID, strings.Join(cfg.BootstrapServers, " ")}; got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
		if cfg.Admin.Security.SASL.Login.Username != "u" {
			t.Errorf("%q: the login was not taken", line)
		}
	}
}
