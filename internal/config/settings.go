package config

import (
	"slices"
	"strings"
)

// Scope says which parts of an App know a setting.
type Scope uint8

const (
	ScopeApp      Scope = 1 << iota // a StreamsConfig key of Kafka Streams, or a millrace.* key
	ScopeConsumer                   // a key of Kafka's consumer: also with consumer., main.consumer., restore.consumer., global.consumer.
	ScopeProducer                   // a key of Kafka's producer: also with producer.
	ScopeAdmin                      // a key of Kafka's admin client: also with admin.

	// ScopeClients is what every client knows.
	ScopeClients = ScopeConsumer | ScopeProducer | ScopeAdmin
)

// Kind is the type of a setting's value.
type Kind uint8

const (
	String   Kind = iota
	List          // comma-separated
	Bool          // true, false
	Int           // 32 bits
	Long          // 64 bits
	Double        // a decimal number
	Millis        // a whole number of milliseconds
	Bytes         // a whole number of bytes
	Class         // the name of a Java class
	Password      // never shown
)

// String returns the kind's name in documentation.
func (k Kind) String() string {
	return [...]string{"text", "list", "true or false", "number", "number", "decimal number", "ms", "bytes", "class", "secret"}[k]
}

// Status says what a setting does here.
type Status uint8

const (
	// Supported settings have the effect that they have in Java.
	Supported Status = iota
	// Fixed settings have one or a few values that describe what millrace does; others are refused.
	Fixed
	// Ignored settings are accepted and have no effect, which a warning says.
	Ignored
	// Refused settings cannot be given: their effect is missing, and going on without it would be wrong.
	Refused
)

// String returns the word that documentation has for it.
func (s Status) String() string { return [...]string{"yes", "fixed", "no effect", "refused"}[s] }

// Setting describes one property.
type Setting struct {
	// Name is the property's name without a prefix.
	Name string
	// Scope says who knows it.
	Scope Scope
	// Kind is the type of its value.
	Kind Kind
	// Status says what becomes of it here.
	Status Status
	// Java is the default in Kafka 4.4.0 as text: that of StreamsConfig, else of the clients; "-" is none. Empty for
	// settings that Kafka does not have.
	Java string
	// Doc says in a line what it does.
	Doc string
	// Note says, for one that is Supported, how it differs from Java's (if it does); for others why, and what to do.
	Note string
	// ReplacedBy names the setting that has taken this one's place, and wins over it.
	ReplacedBy string
	// Values are those that a Fixed setting may have.
	Values []string
	// MainOnly says that it has an effect on the main consumer, but not on the restore and the global one.
	MainOnly bool

	bind *binding // of a Supported setting
}

// Settings returns the table of all settings, sorted by name: every key of StreamsConfig, of the consumer, the producer
// and the admin client of Kafka 4.4.0, and those of millrace.
func Settings() []Setting {
	var all []Setting
	for _, part := range [][]Setting{
		applicationSettings(), taskSettings(), topologySettings(), clusterSettings(), observabilitySettings(),
		connectionSettings(), consumerSettings(), producerSettings(), adminSettings(), tlsSettings(), saslSettings(),
	} {
		all = append(all, part...)
	}
	slices.SortFunc(all, func(a, b Setting) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Default returns the value that Default has for the setting, as text; ok is false for one that is not Supported.
func (s Setting) Default() (value string, ok bool) {
	if s.Status != Supported {
		return "", false
	}
	cfg := Default()
	return s.bind.get(target{cfg: &cfg, client: s.targets()[0]}), true
}

// targets are the clients that an unprefixed value goes to; noClient alone for a setting of the App as a whole.
func (s Setting) targets() []client {
	var out []client
	for _, c := range clients() {
		if s.Scope&c.scope() == 0 || s.MainOnly && (c == restoreConsumer || c == globalConsumer) {
			continue
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return []client{noClient}
	}
	return out
}
