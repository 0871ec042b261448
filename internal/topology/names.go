package topology

import (
	"fmt"
	"strings"
)

// maxNameLength is Kafka's limit on topic names. Names of steps and stores keep to it because they become parts of topic
// names.
const maxNameLength = 249

// CheckName checks a name of a step, a store or an internal topic: letters and digits of ASCII, '.', '_' and '-', at most
// 249 of them, and neither "." nor "..".
//
// In Kafka Streams: Named.validate.
func CheckName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("the name is empty")
	case name == "." || name == "..":
		return fmt.Errorf("the name %q is not allowed: it may be neither \".\" nor \"..\"", name)
	case len(name) > maxNameLength:
		return fmt.Errorf("the name %q is %d characters long; at most %d are allowed", name, len(name), maxNameLength)
	}
	if i := strings.IndexFunc(name, func(r rune) bool { return !nameRune(r) }); i >= 0 {
		r := []rune(name[i:])[0]
		return fmt.Errorf("the name %q has the character %q; only ASCII letters, digits, '.', '_' and '-' are allowed", name, r)
	}
	return nil
}

// CheckTopicName checks the name of a topic by Kafka's rule, which is that of CheckName.
//
// In Kafka: org.apache.kafka.common.internals.Topic.validate.
func CheckTopicName(name string) error {
	if err := CheckName(name); err != nil {
		return fmt.Errorf("topic: %w", err)
	}
	return nil
}

func nameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-'
}

// DecoratedTopic returns the name in the cluster of an internal topic: "<application id>-<name>". The name carries its
// suffix already ("clicks-repartition").
func DecoratedTopic(appID, name string) string { return appID + "-" + name }

// ChangelogTopic returns the name in the cluster of a store's changelog: "<application id>-<store>-changelog".
func ChangelogTopic(appID, store string) string { return appID + "-" + store + "-changelog" }
