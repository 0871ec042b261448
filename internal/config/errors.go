package config

import (
	"fmt"
	"strconv"
)

// SettingError is one setting that is wrong. Validate and FromProperties join all that they find, so errors.As finds the
// first and a walk over Unwrap() []error each of them.
type SettingError struct {
	Name   string // the property name, with the prefix under which it was given
	Value  string // the value; "[hidden]" where it is a secret
	Reason string // what is allowed, or why it is not supported
	Hint   string // what to do; may be empty
	// Default says that the value is the default: the mistake lies in another setting, which does not go with it.
	Default bool
}

func (e *SettingError) Error() string {
	name := e.Name
	if o := option(name); o != "" {
		name += " (millrace." + o + ")"
	}
	s := fmt.Sprintf("millrace: setting %s = %s", name, strconv.Quote(e.Value))
	if e.Default {
		s += " (default)"
	}
	s += ": " + e.Reason
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

// option names the option of millrace that sets a property too, so that an error is understood by who has used it; empty if there is none.
func option(property string) string {
	switch property {
	case "acceptable.recovery.lag":
		return "AcceptableLag"
	case "application.id":
		return "ApplicationID"
	case "bootstrap.servers":
		return "Brokers"
	case "client.id":
		return "ClientID"
	case "client.rack":
		return "Rack"
	case "commit.interval.ms":
		return "CommitInterval"
	case "max.task.idle.ms":
		return "MaxTaskIdle"
	case "max.warmup.replicas":
		return "MaxWarmups"
	case "millrace.memory.limit.bytes":
		return "MemoryLimit"
	case "num.standby.replicas":
		return "Standbys"
	case "num.stream.threads":
		return "Workers"
	case "processing.guarantee":
		return "Guarantee"
	case "replication.factor":
		return "ReplicationFactor"
	case "session.timeout.ms":
		return "SessionTimeout"
	case "state.cleanup.delay.ms":
		return "StateCleanupDelay"
	case "state.dir":
		return "StateDir"
	case "statestore.cache.max.bytes":
		return "CacheBytes"
	case "windowstore.changelog.additional.retention.ms":
		return "AdditionalRetention"
	}
	return ""
}
