package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/millrace-io/millrace/internal/demo"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// readingEngine commits what it reads and derives nothing from it.
type readingEngine struct{ cfg demo.EngineConfig }

func (e readingEngine) Dropped() int64 { return 3 }

func (e readingEngine) Run(ctx context.Context) error {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(e.cfg.Brokers...),
		kgo.ConsumerGroup(demo.ApplicationID),
		kgo.ConsumeTopics(demo.FlightsTopic, demo.PlanesTopic, demo.ArrivalsTopic, demo.WeatherTopic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		if err := client.PollFetches(ctx).Err(); ctx.Err() != nil {
			return nil
		} else if err != nil {
			return err
		}
		if err := client.CommitUncommittedOffsets(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
}

// call runs a command line to its end.
func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return callWith(t.Context(), func(cfg demo.EngineConfig) (demo.Engine, error) { return readingEngine{cfg}, nil }, args...)
}

func callWith(ctx context.Context, engine demo.NewEngine, args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = Main(ctx, args, Config{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &err, Engine: engine})
	return code, out.String(), err.String()
}

// smallData is a data directory of three flights.
func smallData(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"flights.csv": "dep_time,dep_delay,carrier,flight,tailnum,origin,dest,air_time,distance,minute,time_hour\n" +
			"517,2,UA,1545,N14228,EWR,IAH,227,1400,15,2013-01-01T10:00:00Z\n" +
			"533,4,UA,1714,N24211,LGA,IAH,227,1416,29,2013-01-01T10:00:00Z\n" +
			"NA,NA,EV,4308,N18120,EWR,RDU,NA,416,30,2013-01-01T21:00:00Z\n",
		"weather.csv":  "origin,temp,dewp,humid,wind_dir,wind_speed,wind_gust,precip,pressure,visib,time_hour\nEWR,39.02,26.06,59.37,270,10.36,NA,0,1012,10,2013-01-01T10:00:00Z\n",
		"planes.csv":   "tailnum,year,type,manufacturer,model,engines,seats,speed,engine\nN14228,NA,NA,NA,NA,NA,149,NA,NA\n",
		"airlines.csv": "carrier,name\nUA,United Air Lines Inc.\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func wantParts(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%s does not say %q:\n%s", what, p, text)
		}
	}
}

func TestUsageErrors(t *testing.T) {
	for line, want := range map[string]string{
		"demos":                               `unknown command "demos"`,
		"--nope":                              "unknown flag",
		"demo --nope":                         "unknown flag: --nope",
		"demo now":                            `takes no argument, but got "now"`,
		"demo --rate -1":                      "--rate -1",
		"demo --rate NaN":                     "--rate NaN",
		"demo --rate fast":                    `"fast"`,
		"demo --partitions 0":                 "--partitions 0",
		"demo --partitions 100000":            "--partitions 100000",
		"demo --grace -1s":                    "--grace -1s",
		"demo --grace 6":                      `"6"`,
		"demo --guarantee exactly_once":       "exactly_once_v2 or at_least_once",
		"demo --topology svg":                 "one of text, dot, mermaid",
		"demo --brokers localhost":            "--brokers localhost: HOST:PORT",
		"demo --brokers localhost:9092,:9092": "--brokers :9092",
		"demo --brokers=":                     "HOST:PORT",
		"broker --partitions 0":               "--partitions 0",
		"broker 9092":                         `takes no argument, but got "9092"`,
		"version 2":                           `takes no argument, but got "2"`,
	} {
		t.Run(line, func(t *testing.T) {
			code, stdout, stderr := call(t, strings.Fields(line)...)
			if code != exitUsage || stdout != "" {
				t.Errorf("exit code %d, stdout %q", code, stdout)
			}
			wantParts(t, "stderr", stderr, "millrace: ", want, "--help' for usage")
		})
	}
}

func TestHelp_namesEveryFlagAndGivesExamples(t *testing.T) {
	for line, want := range map[string][]string{
		"--help": {"demo", "broker", "reset", "version", "millrace demo --once --out out"},
		"":       {"Usage:", "demo", "broker"},
		"demo --help": {"--once", "--out DIR", "--json FILE", "--rate", "--partitions", "--grace", "--state-dir DIR",
			"--brokers HOST:PORT", "--topology FORMAT", "--data DIR", "Examples:", "departures-late"},
		"reset --help":  {"--application-id ID", "--input-topics TOPICS", "--to-datetime TIME", "--shift-by N", "--state-dir DIR", "--dry-run", "--force", "Examples:"},
		"broker --help": {"--listen HOST:PORT", "--advertise HOST:PORT", "--data DIR", "Examples:", "127.0.0.1:9092"},
	} {
		code, stdout, stderr := call(t, strings.Fields(line)...)
		if code != exitOK || stderr != "" {
			t.Errorf("%q: exit code %d, stderr %q", line, code, stderr)
		}
		wantParts(t, "help of "+line, stdout, want...)
	}
}

func TestVersion(t *testing.T) {
	code, stdout, _ := call(t, "version")
	if code != exitOK || !strings.HasPrefix(stdout, "millrace ") {
		t.Errorf("exit code %d, stdout %q", code, stdout)
	}
	var out bytes.Buffer
	if err := printVersion(&out, &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}}}); err != nil {
		t.Fatal(err)
	}
	wantParts(t, "version", out.String(), "millrace v1.2.3, commit abc with changes, go1.")
}

func TestDemo_topology(t *testing.T) {
	for format, begin := range map[string]string{"text": "Topologies:", "dot": "digraph", "mermaid": "flowchart"} {
		code, stdout, stderr := call(t, "demo", "--topology", format, "--grace", "2h")
		if code != exitOK || stderr != "" {
			t.Errorf("%s: exit code %d, stderr %q", format, code, stderr)
		}
		if !strings.HasPrefix(strings.TrimSpace(stdout), begin) || !strings.HasSuffix(stdout, "\n") {
			t.Errorf("%s: stdout %q", format, stdout)
		}
		wantParts(t, format, stdout, demo.FlightsTopic, demo.DeparturesLateTopic, "planes-by-hour", "flights-by-plane")
	}
}

func TestDemo_onceWritesFilesAndSummary(t *testing.T) {
	dir := t.TempDir()
	out, file := filepath.Join(dir, "out"), filepath.Join(dir, "new", "summary.json")
	code, stdout, stderr := call(t, "demo", "--once", "--out", out, "--json", file, "--data", smallData(t))
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	wantParts(t, "stdout", stdout, "3 flights", "seats-by-carrier")
	wantParts(t, "stderr", stderr, "broker in this process at 127.0.0.1:", "fed 3 of 3  processed 3", "event time 2013-01-01T21:30:00Z")
	for _, d := range demo.DerivedTopics() {
		if _, err := os.Stat(filepath.Join(out, d.Name+".jsonl")); err != nil {
			t.Error(err)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var s map[string]any
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	if s["fed"] != 3.0 || s["departed"] != 2.0 || s["dropped"] != 3.0 || len(s) != 8 {
		t.Errorf("summary %s", b)
	}
}

func TestDemo_errors(t *testing.T) {
	data := smallData(t)
	file := filepath.Join(data, "planes.csv")
	for line, want := range map[string]string{
		"--data " + filepath.Join(data, "none"):                              "--data",
		"--json " + filepath.Join(file, "summary.json"):                      "check --json",
		"--data " + data + " --out " + file:                                  "check --out",
		"--data " + data + " --state-dir " + file:                            "check --state-dir",
		"--data " + data + " --brokers " + closedPort(t) + " --partitions 1": "no Kafka broker answers",
	} {
		code, stdout, stderr := call(t, append([]string{"demo", "--once"}, strings.Fields(line)...)...)
		if code != exitError || stdout != "" {
			t.Errorf("%q: exit code %d, stdout %q", line, code, stdout)
		}
		wantParts(t, "stderr", stderr, "millrace: demo: ", want)
	}
}

func TestDemo_interruptedOnce(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	code, stdout, stderr := callWith(ctx, func(demo.EngineConfig) (demo.Engine, error) { return interrupting(interrupt), nil },
		"demo", "--once", "--data", smallData(t))
	if code != exitError {
		t.Errorf("exit code %d", code)
	}
	wantParts(t, "stdout", stdout, "flights in")
	wantParts(t, "stderr", stderr, "interrupted", "--brokers")
}

// interrupting is an engine that interrupts its run.
type interrupting func()

func (interrupting) Dropped() int64 { return 0 }
func (f interrupting) Run(ctx context.Context) error {
	f()
	<-ctx.Done()
	return nil
}

func TestDemo_engineError(t *testing.T) {
	code, _, stderr := callWith(t.Context(), func(demo.EngineConfig) (demo.Engine, error) {
		return nil, errors.New("millrace: the state directory belongs to another cluster")
	}, "demo", "--once", "--data", smallData(t))
	if code != exitError {
		t.Errorf("exit code %d", code)
	}
	wantParts(t, "stderr", stderr, "belongs to another cluster")
}

// closedPort is an address that nobody listens on.
func closedPort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

func TestBroker_servesUntilItIsStopped(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r, w := io.Pipe()
	var stderr bytes.Buffer
	var code int
	var done sync.WaitGroup
	done.Go(func() {
		defer w.Close()
		code = Main(ctx, []string{"broker", "--listen", "127.0.0.1:0", "--data", data}, Config{Stdout: w, Stderr: &stderr})
	})
	lines := bufio.NewScanner(r)
	var said strings.Builder
	addr := ""
	for lines.Scan() {
		said.WriteString(lines.Text() + "\n")
		if _, a, ok := strings.Cut(lines.Text(), "bootstrap.servers="); ok {
			addr = a
		}
		if strings.Contains(lines.Text(), "Ctrl-C") {
			break
		}
	}
	wantParts(t, "broker", said.String(), "127.0.0.1:", "--brokers "+addr, data)

	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.AllowAutoTopicCreation())
	if err != nil {
		t.Fatal(err)
	}
	if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "any", Value: []byte("v")}).FirstErr(); err != nil {
		t.Error(err)
	}
	client.Close()

	other, _, otherErr := call(t, "broker", "--listen", addr)
	if other != exitError {
		t.Errorf("a second broker on the same port: exit code %d", other)
	}
	wantParts(t, "stderr of the second", otherErr, addr, "in use", "--listen")

	stop()
	_, _ = io.Copy(io.Discard, r)
	done.Wait()
	if code != exitOK || stderr.Len() > 0 {
		t.Errorf("exit code %d, stderr %q", code, stderr.String())
	}
}

func TestBroker_warnsBeyondThisMachine(t *testing.T) {
	for host, loopback := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "::1": true, "localhost": true, "0.0.0.0": false, "": false, "devbox": false, "10.0.0.1": false,
	} {
		if isLoopback(host) != loopback {
			t.Errorf("isLoopback(%q) = %v", host, !loopback)
		}
	}
}

func TestIsTerminal(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	file, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, s := range []any{null, file, &bytes.Buffer{}} {
		if isTerminal(s) {
			t.Errorf("%v is taken for a terminal", s)
		}
	}
}
