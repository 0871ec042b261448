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
	s := fmt.Sprintf("millrace: setting %s = %s", e.Name, strconv.Quote(e.Value))
	if e.Default {
		s += " (default)"
	}
	s += ": " + e.Reason
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}
