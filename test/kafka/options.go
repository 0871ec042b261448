package kafkatest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
)

// Options say what cluster to start. The zero value is one broker with a plaintext listener.
type Options struct {
	// Brokers is 1 or 3; 0 is 1. Each is a broker and a controller at once.
	Brokers int
	// Config holds lines of server.properties that replace or add to the ones the harness writes: see defaults in
	// properties.go, QuickCleaner, SmallSegments.
	Config map[string]string
	// Racks are the racks of the brokers, in order. Empty is none.
	Racks []string
	// Features are feature levels to format the cluster with, such as transaction.version=1 for a broker without the
	// second part of KIP-890. Those not named have their default.
	Features map[string]int
	// Listeners are listeners beside the plaintext one that Bootstrap names. Cluster.Addrs gives their addresses.
	Listeners []Listener
	// Users are the names and passwords that listeners with SASL PLAIN and SCRAM accept.
	Users map[string]string
	// HeapMB is the heap of each broker in megabytes; 0 is 512.
	HeapMB int
	// Throughput leaves the just-in-time compiler at its default. Without it the broker starts faster and serves slower,
	// which suits tests and would falsify a measurement.
	Throughput bool
}

// Mechanism is a SASL mechanism.
type Mechanism string

// The mechanisms that a Listener can demand. OAuthBearer is Kafka's unsecured variety for tests: see UnsecuredToken.
const (
	NoSASL      Mechanism = ""
	Plain       Mechanism = "PLAIN"
	ScramSHA256 Mechanism = "SCRAM-SHA-256"
	ScramSHA512 Mechanism = "SCRAM-SHA-512"
	OAuthBearer Mechanism = "OAUTHBEARER"
)

// Listener is an endpoint of every broker that demands encryption, authentication, or both.
type Listener struct {
	// Name is upper case letters and digits; it is what Cluster.Addrs is asked for.
	Name string
	// TLS encrypts. The brokers' certificates are signed by Cluster.TLS's authority.
	TLS bool
	// ClientCert demands a certificate of the client too, signed by the same authority.
	ClientCert bool
	// SASL is the mechanism demanded.
	SASL Mechanism
}

var listenerName = regexp.MustCompile(`^[A-Z][A-Z0-9]*$`)

// The listeners that every broker has.
const (
	plainListener      = "PLAINTEXT"
	controllerListener = "CONTROLLER"
)

func (o Options) check() error {
	if o.Brokers != 1 && o.Brokers != 3 {
		return fmt.Errorf("kafkatest: %d brokers: only 1 and 3 are supported", o.Brokers)
	}
	seen := map[string]bool{plainListener: true, controllerListener: true}
	for _, l := range o.Listeners {
		if !listenerName.MatchString(l.Name) {
			return fmt.Errorf("kafkatest: listener %q: a name is upper case letters and digits", l.Name)
		}
		if seen[l.Name] {
			return fmt.Errorf("kafkatest: listener %q: the name is taken", l.Name)
		}
		seen[l.Name] = true
		switch l.SASL {
		case NoSASL, OAuthBearer:
		case Plain, ScramSHA256, ScramSHA512:
			if len(o.Users) == 0 {
				return fmt.Errorf("kafkatest: listener %q demands %s, but Options.Users is empty", l.Name, l.SASL)
			}
		default:
			return fmt.Errorf("kafkatest: listener %q: unknown SASL mechanism %q", l.Name, l.SASL)
		}
		if l.ClientCert && !l.TLS {
			return fmt.Errorf("kafkatest: listener %q: a client certificate needs TLS", l.Name)
		}
	}
	for name, password := range o.Users {
		if !plainWord.MatchString(name) || !plainWord.MatchString(password) {
			return fmt.Errorf("kafkatest: user %q: name and password must be letters, digits, - and _", name)
		}
	}
	return nil
}

// plainWord is what needs no quoting in JAAS and StorageTool arguments.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// withDefaults fills in what was left at zero.
func (o Options) withDefaults() Options {
	if o.Brokers == 0 {
		o.Brokers = 1
	}
	if o.HeapMB == 0 {
		o.HeapMB = 512
	}
	return o
}

func (o Options) usesTLS() bool {
	return slices.ContainsFunc(o.Listeners, func(l Listener) bool { return l.TLS })
}

// scramArgs are the arguments with which StorageTool stores the users' SCRAM credentials.
func (o Options) scramArgs() []string {
	var args []string
	for _, m := range []Mechanism{ScramSHA256, ScramSHA512} {
		if !slices.ContainsFunc(o.Listeners, func(l Listener) bool { return l.SASL == m }) {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(o.Users)) {
			args = append(args, "--add-scram", fmt.Sprintf("%s=[name=%s,password=%s]", m, name, o.Users[name]))
		}
	}
	return args
}

func (o Options) featureArgs() []string {
	var args []string
	for _, name := range slices.Sorted(maps.Keys(o.Features)) {
		args = append(args, "--feature", name+"="+strconv.Itoa(o.Features[name]))
	}
	return args
}

// QuickCleaner are broker settings under which the log cleaner looks for work all the time, so that a test sees a
// compacted topic within a second or two (the topic's side of it is QuickCompaction), and records past their retention
// are deleted as soon. Without them a broker of this package does neither.
func QuickCleaner() map[string]string {
	return map[string]string{
		"log.cleaner.backoff.ms":          "100",
		"log.retention.check.interval.ms": "500",
		"log.initial.task.delay.ms":       "100",
	}
}

// QuickCompaction are topic settings under which all but the newest segment is compacted at the cleaner's next look, a
// segment ends with each batch that is a millisecond younger, and tombstones are dropped at once.
func QuickCompaction() map[string]string {
	return map[string]string{
		"cleanup.policy":            "compact",
		"segment.ms":                "1",
		"min.cleanable.dirty.ratio": "0.001",
		"min.compaction.lag.ms":     "0",
		"delete.retention.ms":       "0",
	}
}

// SmallSegments are topic settings with segments of the given size, far below the megabyte that Kafka demands otherwise.
func SmallSegments(bytes int) map[string]string {
	return map[string]string{"internal.segment.bytes": strconv.Itoa(bytes)}
}

// Merge joins maps of settings; a later one wins.
func Merge(settings ...map[string]string) map[string]string {
	out := make(map[string]string)
	for _, s := range settings {
		maps.Copy(out, s)
	}
	return out
}
