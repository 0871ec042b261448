package broker

import "strings"

// OnePrefix makes the text of an error begin with "millrace: " once where the errors that it wraps begin with it too. What
// errors.Is and errors.As find stays. Errors get it where they leave the engine: returned, or logged.
func OnePrefix(err error) error {
	if err == nil || !strings.Contains(err.Error(), againPrefix) {
		return err
	}
	return &onePrefixed{err}
}

const againPrefix = ": millrace: "

type onePrefixed struct{ err error }

func (e *onePrefixed) Error() string {
	s := e.err.Error()
	for strings.Contains(s, againPrefix) {
		s = strings.ReplaceAll(s, againPrefix, ": ")
	}
	return s
}

func (e *onePrefixed) Unwrap() error { return e.err }
