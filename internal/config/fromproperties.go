package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Changes are settings that were given by property name, checked and ready to be put over a Config. The zero value changes
// nothing.
type Changes struct {
	// Warnings are texts for the log: settings without effect, and old names.
	Warnings []string

	sets   []func(*Config)
	topics map[string]string
	tags   map[string]string
}

// Apply puts the changes over c; what they do not name stays.
func (ch Changes) Apply(c *Config) {
	for _, set := range ch.sets {
		set(c)
	}
	if len(ch.topics) > 0 {
		merged := maps.Clone(c.TopicConfigs)
		if merged == nil {
			merged = make(map[string]string, len(ch.topics))
		}
		maps.Copy(merged, ch.topics)
		c.TopicConfigs = merged
	}
	if len(ch.tags) > 0 {
		merged := make(map[string]string, len(ch.tags)+len(c.ClientTags))
		maps.Copy(merged, c.ClientTags)
		maps.Copy(merged, ch.tags)
		c.ClientTags = merged
	}
}

// FromProperties reads settings by the names that Kafka Streams and Kafka's clients have for them, with the prefixes
// consumer., main.consumer., restore.consumer., global.consumer., producer., admin. and topic. (the more specific one
// wins, in whatever order they are given), and by those of millrace.
//
// All errors are found and joined: an unknown key names the nearest known one, a value says what is allowed, and a key
// that is not supported why, and what to do instead.
//
// In Kafka Streams: StreamsConfig.
func FromProperties(props map[string]string) (Changes, error) {
	r := &propertyReader{known: make(map[string]Setting)}
	for _, s := range Settings() {
		r.known[s.Name] = s
	}
	for _, key := range sortedKeys(props) {
		r.read(key, props[key])
	}
	// Sorted by how specific a name is, so that the last write wins.
	slices.SortStableFunc(r.found, func(a, b foundSetting) int { return a.rank - b.rank })
	out := Changes{Warnings: r.warnings, topics: r.topics, tags: r.tags}
	for _, f := range r.found {
		out.sets = append(out.sets, f.set)
	}
	return out, errors.Join(r.errs...)
}

type foundSetting struct {
	rank int
	set  func(*Config)
}

type propertyReader struct {
	known    map[string]Setting
	found    []foundSetting
	topics   map[string]string
	tags     map[string]string
	warnings []string
	errs     []error
}

// prefixes of properties, longest first where one ends with another.
func prefixes() []struct {
	text    string
	clients []client
	rank    int
} {
	return []struct {
		text    string
		clients []client
		rank    int
	}{
		{"main.consumer.", []client{mainConsumer}, 3},
		{"restore.consumer.", []client{restoreConsumer}, 3},
		{"global.consumer.", []client{globalConsumer}, 3},
		{"consumer.", []client{mainConsumer, restoreConsumer, globalConsumer}, 2},
		{"producer.", []client{producerClient}, 2},
		{"admin.", []client{adminClient}, 2},
	}
}

func (r *propertyReader) fail(key, value, reason, hint string) {
	r.errs = append(r.errs, &SettingError{Name: key, Value: value, Reason: reason, Hint: hint})
}

func (r *propertyReader) warn(key, text string) {
	r.warnings = append(r.warnings, fmt.Sprintf("setting %s %s", key, text))
}

func (r *propertyReader) read(key, value string) {
	if s, ok := r.known[key]; ok {
		rank := 1
		if s.ReplacedBy != "" {
			rank = 0
			r.warn(key, "is the old name of "+s.ReplacedBy)
		}
		r.setting(s, key, value, s.targets(), rank)
		return
	}
	for _, p := range prefixes() {
		name, ok := strings.CutPrefix(key, p.text)
		if !ok {
			continue
		}
		s, ok := r.known[name]
		if !ok {
			r.unknown(key, value, p.text, name)
			return
		}
		if s.Scope&p.clients[0].scope() == 0 {
			r.fail(key, shown(s, value), "is not a setting of the "+strings.TrimSuffix(p.text, "."), "use "+strings.Join(names(s), " or "))
			return
		}
		var targets []client
		for _, c := range p.clients {
			if slices.Contains(s.targets(), c) {
				targets = append(targets, c)
			}
		}
		if len(targets) == 0 {
			r.warn(key, "has no effect: millrace sets "+name+" for this client itself")
			return
		}
		r.setting(s, key, value, targets, p.rank)
		return
	}
	switch {
	case strings.HasPrefix(key, "topic."):
		name := strings.TrimPrefix(key, "topic.")
		if !knownTopicConfig(name) {
			r.fail(key, value, "is no config of a topic", "the nearest known one is topic."+nearest(name, topicConfigs()))
			return
		}
		if r.topics == nil {
			r.topics = make(map[string]string)
		}
		r.topics[name] = strings.TrimSpace(value)
	case strings.HasPrefix(key, "client.tag."):
		r.tag(key, strings.TrimPrefix(key, "client.tag."), strings.TrimSpace(value))
	case strings.HasPrefix(key, "config.providers."):
		r.fail(key, value, "is not supported", r.known["config.providers"].Note)
	case strings.HasPrefix(key, "schema.registry."):
		r.fail(key, value, "is a setting of a serde, not of the App", "give it to the serde in Go")
	default:
		r.unknown(key, value, "", key)
	}
}

// unknown reports a name that no client knows. Its value may be a misspelt password, so it is not shown.
func (r *propertyReader) unknown(key, _, prefix, name string) {
	var candidates []string
	for _, k := range sortedKeys(r.known) {
		if s := r.known[k]; prefix == "" || s.Scope&ScopeClients != 0 {
			candidates = append(candidates, k)
		}
	}
	r.fail(key, "...", "is not known", "the nearest known setting is "+prefix+nearest(name, candidates))
}

// Limits of tags, as Kafka Streams has them.
const (
	maxTagName  = 20
	maxTagValue = 30
)

// tag takes a tag of the instance.
func (r *propertyReader) tag(key, name, value string) {
	if name == "" || len(name) > maxTagName || value == "" || len(value) > maxTagValue {
		r.fail(key, value, "is no tag", fmt.Sprintf("the name has at most %d and the value at most %d characters, neither is empty", maxTagName, maxTagValue))
		return
	}
	if r.tags == nil {
		r.tags = make(map[string]string)
	}
	r.tags[name] = value
}

// setting takes one property of which the name and the clients are clear.
func (r *propertyReader) setting(s Setting, key, value string, targets []client, rank int) {
	if s.Kind != Password && s.Kind != String {
		value = strings.TrimSpace(value)
	}
	switch s.Status {
	case Refused:
		r.fail(key, shown(s, value), "is not supported", s.Note)
	case Fixed:
		if value == "" && s.Values[0] != "" {
			return // Java's unset
		}
		if !slices.ContainsFunc(s.Values, func(v string) bool { return strings.EqualFold(v, value) }) {
			reason := "must be " + orList(s.Values)
			if s.Values[0] == "" {
				reason = "must be empty"
			}
			r.fail(key, value, reason, s.Note)
		}
	case Ignored:
		if err := checkKind(s.Kind, value); err != nil {
			r.fail(key, shown(s, value), err.Error(), "")
			return
		}
		r.warn(key, "has no effect: "+s.Note)
	case Supported:
		set, err := s.bind.parse(value)
		if err != nil {
			hint := ""
			if s.Kind == Class || s.Name == "processing.guarantee" {
				hint = s.Note
			}
			r.fail(key, shown(s, value), err.Error(), hint)
			return
		}
		for _, c := range targets {
			r.found = append(r.found, foundSetting{rank, func(cfg *Config) { set(target{cfg: cfg, client: c}) }})
		}
	}
}

// names are the property names under which a setting may be given.
func names(s Setting) []string {
	if s.Scope&ScopeApp != 0 {
		return []string{s.Name}
	}
	var out []string
	for _, p := range []struct {
		scope  Scope
		prefix string
	}{{ScopeConsumer, "consumer."}, {ScopeProducer, "producer."}, {ScopeAdmin, "admin."}} {
		if s.Scope&p.scope != 0 {
			out = append(out, p.prefix+s.Name)
		}
	}
	return out
}

func shown(s Setting, value string) string {
	if s.Kind == Password {
		return Secret(value).String()
	}
	return value
}

// checkKind checks a value that is not used, so that a mistake in it does not wait for the release that uses it.
func checkKind(k Kind, value string) error {
	var err error
	switch k {
	case Bool:
		_, err = boolean().parse(value)
	case Int, Long, Bytes:
		_, err = integer[int64](-1<<63, 1<<63-1).parse(value)
		if err != nil {
			err = errors.New("must be a whole number")
		}
	case Millis:
		_, err = millis(0).parse(value)
		if err != nil {
			err = errors.New("must be a number of milliseconds")
		}
	case Double:
		_, err = float(-1e300, 1e300).parse(value)
		if err != nil {
			err = errors.New("must be a number")
		}
	}
	return err
}
