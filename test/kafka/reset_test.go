package kafkatest_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/cli"
	"github.com/millrace-io/millrace/serde"
	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// leftBehind is what a reset finds and leaves of one application: its offsets, and the topics under its name. Both are named
// without the application id.
type leftBehind struct {
	Offsets map[string]int64
	Topics  []string
}

// resetWorld makes what an application leaves behind.
func resetWorld(t *testing.T, b kafkatest.Broker, app string) {
	t.Helper()
	admin := kadm.NewClient(kafkatest.NewClient(t, b))
	for name, partitions := range map[string]int32{
		"clicks": 2, "users": 1, "results": 1, "count-changelog": 2, "count-repartition": 2, "prices-subscription-registration-topic": 1,
		"prices-subscription-response-topic": 1, "KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000006-topic": 1, "count-changelog-copy": 1,
	} {
		kafkatest.CreateTopicNamed(t, b, app+"-"+name, partitions)
	}
	var records []*kgo.Record
	for i := range 12 {
		records = append(records, &kgo.Record{Value: []byte("v"), Timestamp: time.UnixMilli(1_000_000 + 1000*int64(i))})
	}
	for _, topic := range []string{"clicks", "count-repartition"} {
		kafkatest.LoadPartition(t, b, app+"-"+topic, 0, records...)
		kafkatest.LoadPartition(t, b, app+"-"+topic, 1, records[:5]...)
	}
	kafkatest.LoadPartition(t, b, app+"-users", 0, records...)
	// The first records of a partition are gone.
	var gone kadm.Offsets
	gone.Add(kadm.Offset{Topic: app + "-clicks", Partition: 0, At: 2})
	if r, err := admin.DeleteRecords(t.Context(), gone); err != nil || r.Error() != nil {
		t.Fatal(err, r.Error())
	}
	var offsets kadm.Offsets
	for topic, at := range map[string][]int64{"clicks": {9, 4}, "users": {11}, "count-repartition": {8, 2}} {
		for p, o := range at {
			offsets.Add(kadm.Offset{Topic: app + "-" + topic, Partition: int32(p), At: o, LeaderEpoch: -1, Metadata: "AQ=="})
		}
	}
	if err := admin.CommitAllOffsets(t.Context(), app, offsets); err != nil {
		t.Fatal(err)
	}
}

func lookAt(t *testing.T, b kafkatest.Broker, app string) leftBehind {
	t.Helper()
	l := leftBehind{Offsets: map[string]int64{}}
	for topic, partitions := range kafkatest.GroupOffsets(t, b, app) {
		for p, o := range partitions {
			l.Offsets[fmt.Sprintf("%s-%d", strings.TrimPrefix(topic, app+"-"), p)] = o.At
		}
	}
	for _, topic := range kafkatest.Topics(t, b, app) {
		l.Topics = append(l.Topics, strings.TrimPrefix(topic, app+"-"))
	}
	slices.Sort(l.Topics)
	return l
}

func millraceReset(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	var b bytes.Buffer
	code = cli.Main(t.Context(), append([]string{"reset"}, args...), cli.Config{Stdin: strings.NewReader(""), Stdout: &b, Stderr: &b})
	return code, b.String()
}

// What the tool of Kafka Streams and millrace reset leave behind is the same.
func TestReset_leavesWhatTheToolOfKafkaStreamsLeaves(t *testing.T) {
	shared := kafkatest.Shared(t)
	java, err := kafkatest.Java(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	classpath, err := kafkatest.Classpath(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bootstrap := strings.Join(shared.Bootstrap(), ",")
	for name, c := range map[string]struct {
		args string // APP stands for the application id
		file string
	}{
		"earliest":       {args: "--input-topics APP-clicks"},
		"intermediate":   {args: "--input-topics APP-clicks --intermediate-topics APP-users --to-datetime 1970-01-01T00:16:43.000"},
		"shift":          {args: "--input-topics APP-clicks,APP-users --shift-by -8"},
		"file":           {args: "--input-topics APP-clicks --from-file FILE", file: "APP-clicks,0,1\nAPP-clicks,1,400\n"},
		"some topics":    {args: "--internal-topics APP-count-changelog,APP-prices-subscription-response-topic --input-topics APP-users --to-offset 3"},
		"without offset": {args: "--input-topics APP-results,APP-count-changelog-copy --shift-by 3"},
	} {
		t.Run(name, func(t *testing.T) {
			b := kafkatest.Renamed(t, shared)
			run := map[string]func(args []string) (int, string){
				"java": func(args []string) (int, string) {
					cmd := exec.CommandContext(t.Context(), java, append([]string{"-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", classpath, "org.apache.kafka.tools.StreamsResetter"}, args...)...)
					out, _ := cmd.CombinedOutput()
					return cmd.ProcessState.ExitCode(), string(out)
				},
				"millrace": func(args []string) (int, string) { return millraceReset(t, args...) },
			}
			left := make(map[string]leftBehind)
			for _, who := range slices.Sorted(maps.Keys(run)) {
				app := b.Name(who)
				resetWorld(t, b, app)
				file := filepath.Join(t.TempDir(), "offsets.csv")
				if err := os.WriteFile(file, []byte(strings.ReplaceAll(c.file, "APP", app)), 0o644); err != nil {
					t.Fatal(err)
				}
				args := strings.Fields("--bootstrap-server " + bootstrap + " --application-id " + app + " " + strings.NewReplacer("APP", app, "FILE", file).Replace(c.args))
				code, out := run[who](args)
				if code != 0 {
					t.Fatalf("%s: exit code %d\n%s", who, code, out)
				}
				left[who] = lookAt(t, b, app)
			}
			if d := cmp.Diff(left["java"], left["millrace"]); d != "" {
				t.Errorf("-Java's tool +millrace reset:\n%s", d)
			}
			if !slices.Contains(left["java"].Topics, "results") || len(left["java"].Offsets) == 0 {
				t.Errorf("the comparison shows nothing: %+v", left["java"])
			}
		})
	}
}

// A static member that is gone without a word blocks a reset for its session timeout. It is named, and goes by force.
func TestReset_ofADeadStaticMember(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		app := b.Name("app")
		resetWorld(t, b, app)
		before := lookAt(t, b, app)
		joined := make(chan struct{}, 16)
		member, err := kgo.NewClient(kgo.SeedBrokers(b.Bootstrap()...), kgo.ConsumerGroup(app), kgo.ConsumeTopics(app+"-clicks"), kgo.InstanceID("the-one"),
			kgo.DisableAutoCommit(), kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) { joined <- struct{}{} }))
		if err != nil {
			t.Fatal(err)
		}
		defer member.Close()
		select {
		case <-joined:
		case <-time.After(time.Minute):
			t.Fatal("the member has not joined")
		}
		member.Close() // without leaving: it is static
		args := []string{"--bootstrap-server", strings.Join(b.Bootstrap(), ","), "--application-id", app, "--input-topics", app + "-clicks"}
		code, out := millraceReset(t, args...)
		if code != 1 || !strings.Contains(out, "instance id the-one") {
			t.Errorf("exit code %d:\n%s", code, out)
		}
		if d := cmp.Diff(before, lookAt(t, b, app)); d != "" {
			t.Errorf("a refused reset changed something:\n%s", d)
		}
		if code, out = millraceReset(t, append(args, "--force")...); code != 0 {
			t.Fatalf("by force: exit code %d:\n%s", code, out)
		}
		want := leftBehind{map[string]int64{"clicks-0": 2, "clicks-1": 0, "users-0": 11}, []string{"clicks", "count-changelog-copy", "results", "users"}}
		if d := cmp.Diff(want, lookAt(t, b, app)); d != "" {
			t.Errorf("-want +got:\n%s", d)
		}
	})
}

// A group of the streams protocol is reset as any other once its instances have left; while they run, nobody can take them out.
func TestReset_ofAStreamsGroup(t *testing.T) {
	b := kafkatest.Shared(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	app, in, out := b.Name("app"), kafkatest.CreateTopic(t, b, "in", 1), kafkatest.CreateTopic(t, b, "out", 1)
	kafkatest.LoadPartition(t, b, in, 0, record("a", "x"), record("b", "x"), record("a", "x"))
	builder := millrace.NewBuilder()
	words := millrace.From(builder, millrace.NewTopic(in, serde.String, serde.String))
	millrace.Count(words.GroupByKey(), millrace.As("counts")).ToStream().To(millrace.NewTopic(out, serde.String, serde.Int64))
	topology, err := builder.Build()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	start := func() (stop func()) {
		a, err := millrace.NewApp(topology, millrace.ApplicationID(app), millrace.Brokers(b.Bootstrap()...), millrace.StateDir(dir), millrace.CacheBytes(0),
			millrace.Guarantee(millrace.ExactlyOnceV2), millrace.FromProperties(map[string]string{"group.protocol": "streams"}))
		if err != nil {
			t.Fatal(err)
		}
		running, end := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- a.Run(running) }()
		return func() {
			end()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	wantResults := func(n int) {
		t.Helper()
		var got, want []string
		kafkatest.ReadUntil(t, b, out, kafkatest.Committed, func(rs []*kgo.Record) bool {
			got = nil
			for _, r := range rs {
				got = append(got, fmt.Sprintf("%s=%d", r.Key, binary.BigEndian.Uint64(r.Value)))
			}
			return len(got) >= n
		})
		for len(want) < n {
			want = append(want, "a=1", "b=1", "a=2")
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("results (-want +got):\n%s", d)
		}
	}
	stop := start()
	wantResults(3)
	args := []string{"--bootstrap-server", strings.Join(b.Bootstrap(), ","), "--application-id", app, "--input-topics", in}
	for _, force := range [][]string{nil, {"--force"}} {
		code, text := millraceReset(t, append(slices.Clone(args), force...)...)
		if code != 1 || !strings.Contains(text, "type streams") || !strings.Contains(text, app+"-") {
			t.Errorf("while an instance runs, with %q: exit code %d:\n%s", force, code, text)
		}
	}
	stop()
	code, text := millraceReset(t, append(slices.Clone(args), "--state-dir", dir)...)
	if code != 0 || !strings.Contains(text, app+"-counts-changelog") {
		t.Fatalf("exit code %d:\n%s", code, text)
	}
	stop = start()
	wantResults(6)
	stop()
}
