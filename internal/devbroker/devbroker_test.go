package devbroker_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/millrace-io/millrace/internal/devbroker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// long ago: older than any retention.
var old = time.Date(2013, 1, 1, 12, 0, 0, 0, time.UTC)

func start(t *testing.T, o devbroker.Options) *devbroker.Broker {
	t.Helper()
	b, err := devbroker.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func client(t *testing.T, b *devbroker.Broker, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.Addrs()...)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func createTopic(t *testing.T, cl *kgo.Client, name string, configs map[string]string) {
	t.Helper()
	values := map[string]*string{}
	for k, v := range configs {
		values[k] = &v
	}
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 1, 1, values, name); err != nil {
		t.Fatal(err)
	}
}

// put writes one batch for each value, since retention and compaction go by batches.
func put(t *testing.T, cl *kgo.Client, topic, key string, at time.Time, values ...string) {
	t.Helper()
	for _, v := range values {
		r := &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte(v), Timestamp: at}
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// contents reads the topic's only partition from its start to its end.
func contents(t *testing.T, b *devbroker.Broker, topic string) []string {
	t.Helper()
	cl := client(t, b, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	ends, err := kadm.NewClient(cl).ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	starts, err := kadm.NewClient(cl).ListStartOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := ends.Lookup(topic, 0)
	first, _ := starts.Lookup(topic, 0)
	var got []string
	for next := first.Offset; next < end.Offset; {
		fs := cl.PollFetches(t.Context())
		if err := fs.Err(); err != nil {
			t.Fatal(err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			got = append(got, string(r.Key)+"="+string(r.Value))
			next = r.Offset + 1
		})
	}
	return got
}

func clusterID(t *testing.T, b *devbroker.Broker) string {
	t.Helper()
	m, err := kadm.NewClient(client(t, b)).BrokerMetadata(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return m.Cluster
}

func wantEqual(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("got %q, want %q", got, want)
	}
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not say %q", err, p)
		}
	}
}

func TestStart_listensOnLoopbackByDefault(t *testing.T) {
	b := start(t, devbroker.Options{})
	if addrs := b.Addrs(); len(addrs) != 1 || !strings.HasPrefix(addrs[0], "127.0.0.1:") {
		t.Errorf("Addrs() = %q, want one address of 127.0.0.1", addrs)
	}
	if err := client(t, b).Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestStart_portInUse(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, err = devbroker.Start(devbroker.Options{Listen: ln.Addr().String()})
	wantError(t, err, "millrace: broker:", ln.Addr().String(), "in use", "--listen")
}

func TestStart_refusesBadAddresses(t *testing.T) {
	for _, c := range []struct {
		listen, advertise string
		want              []string
	}{
		{"9092", "", []string{`"9092"`, "HOST:PORT"}},
		{":9092", "", []string{"--advertise"}},
		{"0.0.0.0:0", "", []string{"--advertise"}},
		{"[::]:0", "", []string{"--advertise"}},
		{"127.0.0.1:0", "here", []string{`"here"`, "HOST:PORT"}},
		{"127.0.0.1:0", "here:0", []string{`"here:0"`, "port"}},
		{"256.0.0.1:0", "", []string{"256.0.0.1", "--listen"}},
	} {
		t.Run(c.listen+" "+c.advertise, func(t *testing.T) {
			_, err := devbroker.Start(devbroker.Options{Listen: c.listen, Advertise: c.advertise})
			wantError(t, err, c.want...)
		})
	}
}

func TestAdvertise_isWhatClientsAreTold(t *testing.T) {
	b := start(t, devbroker.Options{Listen: "127.0.0.1:0", Advertise: "broker.example:9092"})
	wantEqual(t, b.Addrs(), "broker.example:9092")
	// The broker's own client must not need that name.
	if err := b.Maintain(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestClusterID_isNewForEachBrokerAndKeptWithItsData(t *testing.T) {
	dir := t.TempDir()
	first := start(t, devbroker.Options{DataDir: dir})
	id := clusterID(t, first)
	if other := clusterID(t, start(t, devbroker.Options{})); other == id || other == "" {
		t.Errorf("cluster id of another broker is %q, of the first %q", other, id)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if again := clusterID(t, start(t, devbroker.Options{DataDir: dir})); again != id {
		t.Errorf("cluster id after a restart is %q, was %q", again, id)
	}
}

func TestDataDir_keepsRecordsAndIsLocked(t *testing.T) {
	dir := t.TempDir()
	b := start(t, devbroker.Options{DataDir: dir})
	cl := client(t, b)
	createTopic(t, cl, "orders", nil)
	put(t, cl, "orders", "a", time.Now(), "1", "2")

	_, err := devbroker.Start(devbroker.Options{DataDir: dir})
	wantError(t, err, dir, "in use", "--data")

	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, contents(t, start(t, devbroker.Options{DataDir: dir}), "orders"), "a=1", "a=2")
}

func TestDataDir_unreadable(t *testing.T) {
	dir := t.TempDir()
	b := start(t, devbroker.Options{DataDir: dir})
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	writeFile(t, dir, "meta.json", "{")
	_, err := devbroker.Start(devbroker.Options{DataDir: dir})
	wantError(t, err, dir, "meta.json", "--data")

	_, err = devbroker.Start(devbroker.Options{DataDir: writeFile(t, dir, "file", "")})
	wantError(t, err, "cannot make data directory", "--data")
}

func TestMaintain_retentionTakesOnlyWhatSaysSo(t *testing.T) {
	b := start(t, devbroker.Options{Maintenance: -1})
	cl := client(t, b)
	for topic, configs := range map[string]map[string]string{
		"forever":   {"retention.ms": "-1"},
		"default":   nil,
		"changelog": {"cleanup.policy": "compact"},
		"short":     {"retention.ms": "3600000"},
	} {
		createTopic(t, cl, topic, configs)
		put(t, cl, topic, "k", old, "1", "2")
	}
	if err := b.Maintain(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, contents(t, b, "forever"), "k=1", "k=2")
	wantEqual(t, contents(t, b, "default"), "k=1", "k=2")
	wantEqual(t, contents(t, b, "changelog"), "k=1", "k=2") // the newest batch is never compacted
	wantEqual(t, contents(t, b, "short"))
}

func TestMaintain_compacts(t *testing.T) {
	b := start(t, devbroker.Options{Maintenance: -1})
	cl := client(t, b)
	createTopic(t, cl, "table", map[string]string{"cleanup.policy": "compact"})
	put(t, cl, "table", "a", old, "1", "2")
	put(t, cl, "table", "b", old, "3")
	put(t, cl, "table", "a", old, "4")
	put(t, cl, "table", "c", old, "5")
	if err := b.Maintain(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, contents(t, b, "table"), "b=3", "a=4", "c=5")
}

func TestMaintain_doesNotCompactUnderAnOpenTransaction(t *testing.T) {
	b := start(t, devbroker.Options{Maintenance: -1})
	cl := client(t, b)
	createTopic(t, cl, "table", map[string]string{"cleanup.policy": "compact"})
	put(t, cl, "table", "a", old, "committed")

	tx := client(t, b, kgo.TransactionalID("writer"))
	if err := tx.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	put(t, tx, "table", "a", old, "never", "ever")
	if err := b.Maintain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := tx.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	put(t, cl, "table", "b", old, "after")
	if err := b.Maintain(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := contents(t, b, "table")
	if len(got) == 0 || got[0] != "a=committed" {
		t.Errorf("topic holds %q after an aborted overwrite, want the committed value of a first", got)
	}
}

func TestStart_maintainsByItself(t *testing.T) {
	b := start(t, devbroker.Options{Maintenance: time.Millisecond})
	cl := client(t, b)
	createTopic(t, cl, "short", map[string]string{"retention.ms": "1"})
	put(t, cl, "short", "k", old, "1")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		starts, err := kadm.NewClient(cl).ListStartOffsets(ctx, "short")
		if err != nil {
			t.Fatal(fmt.Errorf("the record was never removed: %w", err))
		}
		if o, ok := starts.Lookup("short", 0); ok && o.Offset == 1 {
			return
		}
	}
}

func TestAutoCreateTopics(t *testing.T) {
	produce := func(b *devbroker.Broker) error {
		cl := client(t, b, kgo.AllowAutoTopicCreation(), kgo.UnknownTopicRetries(1))
		return cl.ProduceSync(t.Context(), &kgo.Record{Topic: "new", Value: []byte("v")}).FirstErr()
	}
	b := start(t, devbroker.Options{AutoCreateTopics: true, Partitions: 3})
	if err := produce(b); err != nil {
		t.Error(err)
	}
	topics, err := kadm.NewClient(client(t, b)).ListTopics(t.Context(), "new")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(topics["new"].Partitions); n != 3 {
		t.Errorf("created with %d partitions, want 3", n)
	}
	if err := produce(start(t, devbroker.Options{})); err == nil {
		t.Error("a broker without AutoCreateTopics created a topic")
	}
}

func writeFile(t *testing.T, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
