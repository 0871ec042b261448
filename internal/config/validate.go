package config

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Validate reports everything that is wrong with the settings, joined; each error is a *SettingError that names the
// setting, its value, and what is allowed. It reads no file and asks no broker.
func (c *Config) Validate() error {
	var errs []error
	report := func(name, value, reason, hint string) {
		errs = append(errs, &SettingError{Name: name, Value: value, Reason: reason, Hint: hint})
	}
	for _, s := range Settings() {
		if s.Status != Supported || s.ReplacedBy != "" {
			continue
		}
		targets := s.targets()
		bad := make([]error, len(targets))
		same := true
		for i, cl := range targets {
			t := target{cfg: c, client: cl}
			bad[i] = s.bind.check(t)
			same = same && bad[i] != nil && s.bind.get(t) == s.bind.get(target{cfg: c, client: targets[0]})
		}
		for i, cl := range targets {
			if bad[i] == nil {
				continue
			}
			name := s.Name
			if !same && len(targets) > 1 {
				name = cl.prefix() + name
			}
			report(name, s.bind.get(target{cfg: c, client: cl}), bad[i].Error(), "")
			if same {
				break // wrong in the same way for each client: say it once
			}
		}
	}
	c.validateNames(report)
	c.validateTimes(func(e *SettingError) { errs = append(errs, e) })
	for name := range c.TopicConfigs {
		if !knownTopicConfig(name) {
			report("topic."+name, c.TopicConfigs[name], "is no config of a topic", "the nearest known one is topic."+nearest(name, topicConfigs()))
		}
	}
	c.validateSecurity(report)
	return errors.Join(errs...)
}

const maxTopicName = 249

func (c *Config) validateNames(report func(name, value, reason, hint string)) {
	switch id := c.ApplicationID; {
	case id == "":
		report("application.id", "", "must be set", "it names the group, the internal topics and the state directory")
	default:
		if reason := topicNameFault(id); reason != "" {
			report("application.id", id, reason, "it is the beginning of internal topics' names")
		}
	}
	if len(c.BootstrapServers) == 0 {
		report("bootstrap.servers", "", "must be set", "give at least one broker as host:port")
	}
	if c.StateDir == "" {
		report("state.dir", "", "must be set", "")
	}
	if t := c.DeadLetterTopic; t != "" {
		if reason := topicNameFault(t); reason != "" {
			report("errors.dead.letter.queue.topic.name", t, reason, "")
		}
	}
}

// topicNameFault says why a text cannot be a topic's name; empty if it can.
func topicNameFault(s string) string {
	switch {
	case s == "." || s == "..":
		return `must not be "." or ".."`
	case len(s) > maxTopicName:
		return fmt.Sprintf("must not be longer than %d characters", maxTopicName)
	case strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.')
	}):
		return "must consist of ASCII letters, digits, dots, underscores and hyphens"
	}
	return ""
}

// commitHeadroom is how much longer than the commit interval a transaction must be allowed to last: behind the last record come the
// acknowledgements, the offsets and the end, each a round trip to another broker.
const commitHeadroom = time.Second

func (c *Config) validateTimes(add func(*SettingError)) {
	d := Default()
	shown := func(v, byDefault time.Duration) string {
		text := millis(0).format(v)
		if v == byDefault {
			text += " (default)"
		}
		return text
	}
	if c.HeartbeatInterval >= c.SessionTimeout {
		add(&SettingError{
			Name: "heartbeat.interval.ms", Value: millis(0).format(c.HeartbeatInterval), Default: c.HeartbeatInterval == d.HeartbeatInterval,
			Reason: "must be below session.timeout.ms, which is " + shown(c.SessionTimeout, d.SessionTimeout),
			Hint:   "a third of it or less lets two heartbeats get lost",
		})
	}
	if t := c.Producer.TransactionTimeout; c.Guarantee == ExactlyOnceV2 && t < c.CommitEvery()+commitHeadroom {
		every := d
		every.Guarantee = c.Guarantee
		commit := shown(c.CommitEvery(), -1)
		if c.CommitInterval == Unset {
			commit = shown(c.CommitEvery(), every.CommitEvery())
		}
		add(&SettingError{
			Name: "transaction.timeout.ms", Value: millis(0).format(t), Default: t == d.Producer.TransactionTimeout,
			Reason: fmt.Sprintf("must be at least %s above commit.interval.ms, which is %s", millis(0).format(commitHeadroom), commit),
			Hint:   "a transaction lasts for up to a commit interval and the round trips of its commit; one that times out is aborted, and its records are processed again. Raise the one or lower the other",
		})
	}
	if r := c.Main.AutoOffsetReset; r.Kind == ResetDuration && r.Back < 0 {
		add(&SettingError{Name: "auto.offset.reset", Value: r.String(), Reason: "must not look into the future"})
	}
}

// validateSecurity checks each client's security, and says once what is wrong with all of them.
func (c *Config) validateSecurity(report func(name, value, reason, hint string)) {
	type fault struct{ name, value, reason, hint string }
	count := make(map[fault][]string)
	var order []fault
	total := 0
	c.Connections(func(client string, conn *Connection) {
		total++
		conn.Security.validate(func(name, value, reason, hint string) {
			f := fault{name, value, reason, hint}
			if count[f] == nil {
				order = append(order, f)
			}
			count[f] = append(count[f], client)
		})
	})
	for _, f := range order {
		if in := count[f]; len(in) == total {
			report(f.name, f.value, f.reason, f.hint)
		} else {
			for _, client := range in {
				report(client+"."+f.name, f.value, f.reason, f.hint)
			}
		}
	}
}
