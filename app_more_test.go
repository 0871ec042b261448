package millrace

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-io/millrace/internal/runtime"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// A global table is full before the first record is joined with it, and follows its topic.
func TestApp_globalTable(t *testing.T) {
	k := newKafka(t)
	k.topic("in", 2)
	k.topic("names", 3)
	k.topic("out", 1)
	for i := range 50 {
		k.produce(rec("names", fmt.Sprint("id", i), fmt.Sprint("name", i), 1))
	}
	for i := range 50 {
		k.produce(rec("in", "k", fmt.Sprint("id", i), int64(i)))
	}
	topology := mustBuild(t, func(b *Builder) {
		names := GlobalTableFrom(b, strTopic("names"), As("names"))
		JoinGlobal(From(b, strTopic("in")), names, func(_, v string) string { return v }, func(v, name string) string { return v + ":" + name }).
			To(strTopic("out"))
	})
	a := k.start(topology)
	for _, v := range values(k.read("out", 50)) {
		id, name, _ := strings.Cut(strings.TrimPrefix(v, "k="), ":")
		if strings.TrimPrefix(id, "id") != strings.TrimPrefix(name, "name") {
			t.Errorf("joined %s", v)
		}
	}
	k.produce(rec("names", "id7", "other", 2))
	// The table is no part of the stream's order: wait until it shows.
	n := 50
	a.until("the table has followed", func() bool {
		k.produce(rec("in", "k", "id7", 100))
		n++
		return slices.Contains(values(k.read("out", n)), "k=id7:other")
	})
	a.stop()
}

// A pattern takes up topics that are made later.
func TestApp_patternSource(t *testing.T) {
	k := newKafka(t)
	k.topic("orders-a", 1)
	k.topic("out", 1)
	k.produce(rec("orders-a", "k", "one", 1))
	topology := mustBuild(t, func(b *Builder) {
		From(b, NewTopicPattern("orders-.*", serde.String, serde.String)).To(strTopic("out"))
	})
	a := k.start(topology, FromProperties(map[string]string{"metadata.max.age.ms": "100"}))
	k.read("out", 1)
	k.topic("orders-b", 2)
	k.produceAt(at(rec("orders-b", "k", "two", 2), 0), at(rec("orders-b", "k", "three", 3), 1))
	got := values(k.read("out", 3))
	slices.Sort(got)
	wantEqual(t, "out", got, []string{"k=one", "k=three", "k=two"})
	a.untilDone()
	a.stop()
}

// Where to begin without a committed offset is the source's choice.
func TestApp_startPolicies(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		name string
		opt  StepOption
		want []string
	}{
		{"earliest", StartEarliest(), []string{"k=old", "k=young", "k=new"}},
		{"latest", StartLatest(), []string{"k=new"}},
		{"back", StartBack(time.Hour), []string{"k=young", "k=new"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newKafka(t)
			k.topic("in", 1)
			k.topic("out", 1)
			k.produce(rec("in", "k", "old", now.Add(-2*time.Hour).UnixMilli()))
			k.produce(rec("in", "k", "young", now.Add(-time.Minute).UnixMilli()))
			a := k.start(mustBuild(t, func(b *Builder) { From(b, strTopic("in"), c.opt).To(strTopic("out")) }))
			a.untilRunning()
			k.produce(rec("in", "k", "new", now.UnixMilli()))
			wantEqual(t, "out", values(k.read("out", len(c.want))), c.want)
			a.stop()
		})
	}
	t.Run("none", func(t *testing.T) {
		k := newKafka(t)
		k.topic("in", 1)
		k.topic("out", 1)
		err := k.start(mustBuild(t, func(b *Builder) { From(b, strTopic("in"), NoStart()).To(strTopic("out")) })).fails()
		var none *NoOffsetError
		if !errors.As(err, &none) || none.Topic != "in" {
			t.Errorf("error %v", err)
		}
	})
}

// A group of another kind is waited for, and refused in the end.
func TestApp_mixedGroup(t *testing.T) {
	k := newKafka(t)
	k.topic("in", 1)
	k.topic("out", 1)
	other, err := kgo.NewClient(kgo.SeedBrokers(k.addr...), kgo.ConsumerGroup("app"), kgo.ConsumeTopics("in"), kgo.ClientID("java-streams"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	joined := make(chan struct{})
	go func() {
		defer close(joined)
		ctx, cancel := context.WithTimeout(context.Background(), appTimeout)
		defer cancel()
		for id := ""; id == "" && ctx.Err() == nil; id, _ = other.GroupMetadata() {
			short, stop := context.WithTimeout(ctx, 20*time.Millisecond)
			other.PollFetches(short)
			stop()
		}
	}()
	<-joined
	k.k.WaitGroupStable(k.ctx(), "app", 1)
	topology := mustBuild(t, func(b *Builder) { From(b, strTopic("in")).To(strTopic("out")) })
	a := k.start(topology, tuned(func(c *runtime.RunnerConfig) { c.ForeignWait = 500 * time.Millisecond }))
	err = a.fails()
	if !errors.Is(err, ErrMixedGroup) || !strings.Contains(err.Error(), "java-streams") {
		t.Errorf("error %v", err)
	}
	if !a.logged("WARN", "waiting for them to leave") {
		t.Error("the log does not say that it waits")
	}
	other.LeaveGroup()
	a = k.start(topology)
	a.untilRunning()
	a.stop()
}

// C078: windowed state of records of long ago is deleted by the broker as it is written. The log says so.
func TestC078_WarnsOfOldChangelogRecords(t *testing.T) {
	k := newKafka(t)
	k.topic("in", 1)
	k.topic("out", 1)
	topology := mustBuild(t, func(b *Builder) {
		c, _ := CountWindows(From(b, strTopic("in")).GroupByKey().WindowBy(window.Tumbling(10*time.Millisecond).Grace(5*time.Millisecond)), As("counts"))
		c.ToStream().To(NewTopic("out", serde.Windowed(serde.String, 10*time.Millisecond), serde.Int64))
	})
	k.produce(rec("in", "a", "x", 1), rec("in", "a", "x", 4))
	a := k.start(topology, CacheBytes(0))
	a.untilDone()
	a.stop()
	if !a.logged("WARN", "older than its topic keeps records", "app-counts-changelog", "windowstore.changelog.additional.retention.ms") {
		t.Error("no warning")
	}
	a = k.start(topology, CacheBytes(0), ApplicationID("kept"), AdditionalRetention(100*365*24*time.Hour))
	a.untilDone()
	a.stop()
	if a.logged("WARN", "older than its topic keeps records") {
		t.Error("warned although the topic keeps the records")
	}
}

// testTLS makes a certificate for 127.0.0.1, as a server's and as a client's configuration.
func testTLS(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, &tls.Config{RootCAs: pool}
}

// An App on a broker that demands TLS and a login.
func TestApp_security(t *testing.T) {
	for _, c := range []struct {
		mechanism string
		good, bad AppOption
	}{
		{"PLAIN", SASLPlain("user", "secret"), SASLPlain("user", "wrong")},
		{"SCRAM-SHA-256", SASLScram256("user", "secret"), SASLScram256("user", "wrong")},
		{"SCRAM-SHA-512", SASLScram512("user", "secret"), SASLScram512("user", "wrong")},
	} {
		t.Run(c.mechanism, func(t *testing.T) {
			server, client := testTLS(t)
			k, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser(c.mechanism, "user", "secret"), kfake.TLS(server),
				kfake.GroupMinSessionTimeout(50*time.Millisecond), kfake.SeedTopics(1, "in", "out"))
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			kk := &kafkaInProcess{t: t, k: k, addr: k.ListenAddrs()}
			topology := mustBuild(t, func(b *Builder) { From(b, strTopic("in")).To(strTopic("out")) })
			// A wrong address beside the right one does no harm.
			addrs := Brokers("127.0.0.1:1", kk.addr[0])
			a := kk.start(topology, addrs, TLS(client), c.good)
			a.untilRunning()
			a.stop()
			for what, opts := range map[string][]AppOption{
				"wrong password":      {TLS(client), c.bad},
				"no login":            {TLS(client)},
				"no TLS":              {c.good},
				"unknown certificate": {TLS(&tls.Config{RootCAs: x509.NewCertPool()}), c.good},
			} {
				err := kk.start(topology, append([]AppOption{FromProperties(map[string]string{"socket.connection.setup.timeout.ms": "1000"})}, opts...)...).fails()
				if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), kk.addr[0]) {
					t.Errorf("%s: error %v", what, err)
				}
			}
		})
	}
}

func TestNewApp_errors(t *testing.T) {
	topology := mustBuild(t, func(b *Builder) { From(b, strTopic("in")).To(strTopic("out")) })
	for what, c := range map[string]struct {
		opts []AppOption
		say  []string
	}{
		"nothing": {nil, []string{"application.id", "bootstrap.servers"}},
		"a long commit interval": {[]AppOption{ApplicationID("a"), Brokers("h:1"), Guarantee(ExactlyOnceV2), CommitInterval(11 * time.Second)},
			[]string{"transaction.timeout.ms", `"10000" (default)`, "commit.interval.ms", "11000"}},
		"by property":    {[]AppOption{ApplicationID("a"), Brokers("h:1"), FromProperties(map[string]string{"processing.guarantee": "exactly_once"})}, []string{"processing.guarantee"}},
		"misspelt":       {[]AppOption{ApplicationID("a"), Brokers("h:1"), FromProperties(map[string]string{"comit.interval.ms": "1"})}, []string{"comit.interval.ms", "commit.interval.ms"}},
		"negative":       {[]AppOption{ApplicationID("a"), Brokers("h:1"), CommitInterval(-time.Second)}, []string{"commit.interval.ms"}},
		"address":        {[]AppOption{ApplicationID("a"), Brokers("nohost")}, []string{"nohost", "bootstrap.servers"}},
		"small memory":   {[]AppOption{ApplicationID("a"), Brokers("h:1"), MemoryLimit(1)}, []string{"millrace.memory.limit.bytes"}},
		"standbys":       {[]AppOption{ApplicationID("a"), Brokers("h:1"), Standbys(-1)}, []string{"num.standby.replicas (millrace.Standbys) = "}},
		"replication":    {[]AppOption{ApplicationID("a"), Brokers("h:1"), ReplicationFactor(70000)}, []string{"ReplicationFactor"}},
		"retention":      {[]AppOption{ApplicationID("a"), Brokers("h:1"), AdditionalRetention(-time.Second)}, []string{"windowstore.changelog.additional.retention.ms"}},
		"several at one": {[]AppOption{ApplicationID("a b"), Brokers("nohost")}, []string{"application.id", "bootstrap.servers"}},
	} {
		_, err := NewApp(topology, c.opts...)
		if err == nil {
			t.Errorf("%s: no error", what)
			continue
		}
		for _, s := range c.say {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: the error does not name %s: %v", what, s, err)
			}
		}
	}
	if _, err := NewApp(nil, ApplicationID("a"), Brokers("h:1")); err == nil {
		t.Error("a nil topology is accepted")
	}
	// One property that is wrong does not make the others count as missing.
	_, err := NewApp(topology, FromProperties(map[string]string{
		"application.id": "a", "bootstrap.servers": "h:1", "processing.guarantee": "exactly_once", "transaction.timeout.ms": "100",
	}))
	if err == nil || strings.Contains(err.Error(), "application.id") || strings.Contains(err.Error(), "bootstrap.servers") {
		t.Errorf("error %v", err)
	}
}

func TestApp_runsOnce(t *testing.T) {
	k := newKafka(t)
	k.topic("in", 1)
	k.topic("out", 1)
	a := k.start(mustBuild(t, func(b *Builder) { From(b, strTopic("in")).To(strTopic("out")) }))
	a.untilRunning()
	if err := a.app.Run(t.Context()); !errors.Is(err, ErrRunTwice) {
		t.Errorf("error %v", err)
	}
	a.stop()
	if err := a.app.Run(t.Context()); !errors.Is(err, ErrRunTwice) {
		t.Errorf("error %v", err)
	}
}

// Cancelled before it has begun, or while it begins: it ends at once and without an error.
func TestApp_cancelledWhileStarting(t *testing.T) {
	k := newKafka(t)
	k.topic("in", 1)
	k.topic("out", 1)
	app, err := NewApp(mustBuild(t, func(b *Builder) { From(b, strTopic("in")).To(strTopic("out")) }), ApplicationID("app"), Brokers(k.addr...))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := app.Run(ctx); err != nil {
		t.Errorf("error %v", err)
	}
	if app.State() != Stopped {
		t.Errorf("state %v", app.State())
	}
}

// Two topologies under one application id: the one that comes second is told so, and does no harm.
func TestC103_TwoTopologiesUnderOneId(t *testing.T) {
	k := newKafka(t)
	for _, topic := range []string{"one", "two", "out"} {
		k.topic(topic, 2)
	}
	first := k.start(mustBuild(t, func(b *Builder) { From(b, strTopic("one")).To(strTopic("out")) }))
	first.untilRunning()
	second := k.start(mustBuild(t, func(b *Builder) { From(b, strTopic("two")).To(strTopic("out")) }))
	if err := second.fails(); !errors.Is(err, ErrTopologyMismatch) {
		t.Errorf("error %v", err)
	}
	k.produce(rec("one", "k", "v", 1))
	wantEqual(t, "out", values(k.read("out", 1)), []string{"k=v"})
	first.stop()
}

// Two programs that differ in the name of a store: the error names both stores, and the topic that was made for the second.
func TestC103_StoresOfOtherNames(t *testing.T) {
	k := newKafka(t)
	k.topic("in", 2)
	counting := func(name string) *Topology {
		return mustBuild(t, func(b *Builder) { Count(From(b, strTopic("in")).GroupByKey(), As(name), InMemory()) })
	}
	first := k.start(counting("counts"))
	first.untilRunning()
	err := k.start(counting("totals")).fails()
	if !errors.Is(err, ErrTopologyMismatch) {
		t.Fatalf("error %v", err)
	}
	for _, part := range []string{"only here: store totals", "only on the leader: store counts", "has made internal topics", "app-totals-changelog"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
	first.stop()
}

// A static member that stays in the group when it stops has its tasks kept for it.
func TestApp_stayInGroup(t *testing.T) {
	k := newKafka(t)
	k.topic("in", 4)
	k.topic("out", 1)
	topology := countInto(t, "in", "out")
	dir := t.TempDir()
	stays := k.start(topology, StateDir(dir), StayInGroup())
	other := k.start(topology)
	for _, a := range []*testApp{stays, other} {
		a.until("two tasks each", func() bool {
			return len(stays.app.Metrics().Tasks) == 2 && len(other.app.Metrics().Tasks) == 2
		})
		a.untilRunning()
	}
	before := other.lines("revoked")
	stays.stop()
	again := k.start(topology, StateDir(dir))
	again.untilRunning()
	if n := len(again.app.Metrics().Tasks); n != 2 {
		t.Errorf("it came back to %d tasks, want its 2", n)
	}
	if n := len(other.app.Metrics().Tasks); n != 2 || other.app.State() != Running {
		t.Errorf("the other instance has %d tasks and is %v: it was disturbed", n, other.app.State())
	}
	if other.lines("revoked") != before {
		t.Error("a task was taken from the other instance")
	}
}
