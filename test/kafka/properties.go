package kafkatest

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// endpoint is a listener of one broker with its port.
type endpoint struct {
	Listener
	port int
}

func (e endpoint) addr() string { return "127.0.0.1:" + strconv.Itoa(e.port) }

// protocol is Kafka's name for what the listener demands.
func (e endpoint) protocol() string {
	switch {
	case e.TLS && e.SASL != NoSASL:
		return "SASL_SSL"
	case e.TLS:
		return "SSL"
	case e.SASL != NoSASL:
		return "SASL_PLAINTEXT"
	}
	return "PLAINTEXT"
}

// layout is where one broker stands: its id, folder and endpoints. The first endpoint is the plaintext one.
type layout struct {
	id         int
	dir        string
	controller int // port
	endpoints  []endpoint
}

func (l layout) propertiesFile() string { return filepath.Join(l.dir, "server.properties") }
func (l layout) logFile() string        { return filepath.Join(l.dir, "broker.log") }
func (l layout) dataDir() string        { return filepath.Join(l.dir, "data") }

// properties are the settings of one broker of the cluster.
func properties(o Options, all []layout, me layout, tls *TLSFiles) map[string]string {
	var voters []string
	for _, l := range all {
		voters = append(voters, fmt.Sprintf("%d@127.0.0.1:%d", l.id, l.controller))
	}
	listeners := []string{fmt.Sprintf("%s://127.0.0.1:%d", controllerListener, me.controller)}
	protocols := []string{controllerListener + ":PLAINTEXT"}
	var advertised []string
	for _, e := range me.endpoints {
		url := e.Name + "://" + e.addr()
		listeners = append(listeners, url)
		advertised = append(advertised, url)
		protocols = append(protocols, e.Name+":"+e.protocol())
	}
	p := map[string]string{
		"process.roles":                  "broker,controller",
		"node.id":                        strconv.Itoa(me.id),
		"controller.quorum.voters":       strings.Join(voters, ","),
		"controller.listener.names":      controllerListener,
		"inter.broker.listener.name":     plainListener,
		"listeners":                      strings.Join(listeners, ","),
		"advertised.listeners":           strings.Join(advertised, ","),
		"listener.security.protocol.map": strings.Join(protocols, ","),
		"log.dirs":                       me.dataDir(),
	}
	maps.Copy(p, defaults(len(all)))
	for _, e := range me.endpoints {
		maps.Copy(p, security(e.Listener, o.Users, tls))
	}
	if n := me.id - 1; n < len(o.Racks) {
		p["broker.rack"] = o.Racks[n]
	}
	maps.Copy(p, o.Config)
	return p
}

// defaults are settings that make a small cluster that does not wait: no delay before a first assignment, few partitions
// in the internal topics (each costs a file or two when a coordinator starts), transactions that have timed out found
// within a second, and short session timeouts allowed.
//
// The cleaner's first look at the logs comes right after the start, when there is nothing to clean.
func defaults(brokers int) map[string]string {
	replicas, inSync := strconv.Itoa(brokers), strconv.Itoa((brokers+1)/2)
	return map[string]string{
		"auto.create.topics.enable":                                   "false",
		"num.partitions":                                              "1",
		"default.replication.factor":                                  replicas,
		"min.insync.replicas":                                         inSync,
		"offsets.topic.replication.factor":                            replicas,
		"offsets.topic.num.partitions":                                "4",
		"transaction.state.log.replication.factor":                    replicas,
		"transaction.state.log.min.isr":                               inSync,
		"transaction.state.log.num.partitions":                        "4",
		"share.coordinator.state.topic.replication.factor":            replicas,
		"share.coordinator.state.topic.min.isr":                       inSync,
		"share.coordinator.state.topic.num.partitions":                "4",
		"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
		"group.initial.rebalance.delay.ms":                            "0",
		"group.streams.initial.rebalance.delay.ms":                    "0",
		"group.min.session.timeout.ms":                                "500",
		// Members of a streams group learn of changes with their heartbeats, which otherwise come each 5 s.
		"group.streams.heartbeat.interval.ms":      "500",
		"group.streams.min.heartbeat.interval.ms":  "100",
		"group.streams.session.timeout.ms":         "6000",
		"group.streams.min.session.timeout.ms":     "500",
		"group.streams.assignment.interval.ms":     "0",
		"group.streams.min.assignment.interval.ms": "0",
		// Nothing is deleted or compacted behind a test's back: event times are old, and changelogs of windows have a
		// retention. QuickCleaner is for tests that want it.
		"log.retention.check.interval.ms": "86400000",
		"log.cleaner.backoff.ms":          "86400000",
		// A killed broker may come back only once its session is over, and its partitions are led by nobody until then.
		"broker.session.timeout.ms":    "3000",
		"broker.heartbeat.interval.ms": "500",
		// Only the cleaner's buffer is allocated up front, and 128 MB of it is a quarter of the heap.
		"log.cleaner.dedupe.buffer.size": "16777216",
		"log.segment.delete.delay.ms":    "1000",
	}
}

// security are the settings of one listener that demands more than nothing.
func security(l Listener, users map[string]string, tls *TLSFiles) map[string]string {
	prefix := "listener.name." + strings.ToLower(l.Name) + "."
	p := make(map[string]string)
	if l.TLS {
		p[prefix+"ssl.keystore.type"] = "PEM"
		p[prefix+"ssl.keystore.location"] = tls.ServerKeystore
		p[prefix+"ssl.truststore.type"] = "PEM"
		p[prefix+"ssl.truststore.location"] = tls.CA
		p[prefix+"ssl.client.auth"] = "none"
		if l.ClientCert {
			p[prefix+"ssl.client.auth"] = "required"
		}
	}
	if l.SASL == NoSASL {
		return p
	}
	p[prefix+"sasl.enabled.mechanisms"] = string(l.SASL)
	p[prefix+strings.ToLower(string(l.SASL))+".sasl.jaas.config"] = jaas(l.SASL, users)
	return p
}

// jaas is the login module of a mechanism. Only PLAIN names its users there; SCRAM's are in the cluster's metadata, and
// the unsecured OAUTHBEARER takes whoever brings a token that has not run out.
func jaas(m Mechanism, users map[string]string) string {
	switch m {
	case Plain:
		var b strings.Builder
		b.WriteString("org.apache.kafka.common.security.plain.PlainLoginModule required")
		for _, name := range slices.Sorted(maps.Keys(users)) {
			fmt.Fprintf(&b, " user_%s=\"%s\"", name, users[name])
		}
		b.WriteString(";")
		return b.String()
	case OAuthBearer:
		return "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
	}
	return "org.apache.kafka.common.security.scram.ScramLoginModule required;"
}

// renderProperties writes a Java properties file.
func renderProperties(p map[string]string) string {
	escape := strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`)
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(p)) {
		value := escape.Replace(p[key])
		if strings.HasPrefix(value, " ") {
			value = `\` + value
		}
		fmt.Fprintf(&b, "%s=%s\n", key, value)
	}
	return b.String()
}
