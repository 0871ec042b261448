package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// client names one of the App's clients.
type client uint8

const (
	noClient client = iota // a setting of the App as a whole
	mainConsumer
	restoreConsumer
	globalConsumer
	producerClient
	adminClient
)

func clients() []client {
	return []client{mainConsumer, restoreConsumer, globalConsumer, producerClient, adminClient}
}

// prefix is the property prefix that names the client alone.
func (c client) prefix() string {
	switch c {
	case mainConsumer:
		return "main.consumer."
	case restoreConsumer:
		return "restore.consumer."
	case globalConsumer:
		return "global.consumer."
	case producerClient:
		return "producer."
	case adminClient:
		return "admin."
	}
	return ""
}

func (c client) scope() Scope {
	switch c {
	case mainConsumer, restoreConsumer, globalConsumer:
		return ScopeConsumer
	case producerClient:
		return ScopeProducer
	case adminClient:
		return ScopeAdmin
	}
	return ScopeApp
}

// target is where a setting is written to: a Config, and in it a client.
type target struct {
	cfg    *Config
	client client
}

func (t target) connection() *Connection {
	switch t.client {
	case producerClient:
		return &t.cfg.Producer.Connection
	case adminClient:
		return &t.cfg.Admin.Connection
	}
	return &t.consumer().Connection
}

func (t target) consumer() *Consumer {
	switch t.client {
	case restoreConsumer:
		return &t.cfg.Restore
	case globalConsumer:
		return &t.cfg.Global
	}
	return &t.cfg.Main
}

// binding ties a property to a field.
type binding struct {
	parse func(s string) (func(target), error)
	get   func(target) string
	check func(target) error
}

// codec turns a property's text into a field's value and back. Errors say what is allowed.
type codec[T any] struct {
	parse  func(string) (T, error)
	format func(T) string
	check  func(T) error // nil: every value is right
}

// where returns the codec with one more rule: what, unless ok.
func (c codec[T]) where(what string, ok func(T) bool) codec[T] {
	inner := c.check
	c.check = func(v T) error {
		if inner != nil {
			if err := inner(v); err != nil {
				return err
			}
		}
		if !ok(v) {
			return errors.New(what)
		}
		return nil
	}
	return c
}

func bind[T any](c codec[T], field func(target) *T) *binding {
	check := func(v T) error {
		if c.check == nil {
			return nil
		}
		return c.check(v)
	}
	return &binding{
		parse: func(s string) (func(target), error) {
			v, err := c.parse(s)
			if err == nil {
				err = check(v)
			}
			if err != nil {
				return nil, err
			}
			return func(t target) { *field(t) = v }, nil
		},
		get:   func(t target) string { return c.format(*field(t)) },
		check: func(t target) error { return check(*field(t)) },
	}
}

// app binds to a field of the Config itself.
func app[T any](c codec[T], field func(*Config) *T) *binding {
	return bind(c, func(t target) *T { return field(t.cfg) })
}

func conn[T any](c codec[T], field func(*Connection) *T) *binding {
	return bind(c, func(t target) *T { return field(t.connection()) })
}

func consumer[T any](c codec[T], field func(*Consumer) *T) *binding {
	return bind(c, func(t target) *T { return field(t.consumer()) })
}

func producer[T any](c codec[T], field func(*Producer) *T) *binding {
	return bind(c, func(t target) *T { return field(&t.cfg.Producer) })
}

func security[T any](c codec[T], field func(*Security) *T) *binding {
	return bind(c, func(t target) *T { return field(&t.connection().Security) })
}

func text() codec[string] {
	return codec[string]{parse: func(s string) (string, error) { return s, nil }, format: func(s string) string { return s }}
}

func secret() codec[Secret] {
	return codec[Secret]{parse: func(s string) (Secret, error) { return Secret(s), nil }, format: Secret.String}
}

func list() codec[[]string] {
	return codec[[]string]{
		parse:  func(s string) ([]string, error) { return splitList(s), nil },
		format: func(v []string) string { return strings.Join(v, ",") },
	}
}

func splitList(s string) []string {
	var out []string
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

func boolean() codec[bool] {
	return codec[bool]{
		parse: func(s string) (bool, error) {
			switch strings.ToLower(s) {
			case "true":
				return true, nil
			case "false":
				return false, nil
			}
			return false, errors.New("must be true or false")
		},
		format: strconv.FormatBool,
	}
}

// integer takes the numbers from lo to hi, both included.
func integer[T ~int | ~int16 | ~int64](lo, hi T) codec[T] {
	c := codec[T]{
		parse: func(s string) (T, error) {
			n, err := strconv.ParseInt(s, 10, 64)
			if err != nil || int64(T(n)) != n {
				return 0, fmt.Errorf("must be %s", rangeText(int64(lo), int64(hi)))
			}
			return T(n), nil
		},
		format: func(v T) string { return strconv.FormatInt(int64(v), 10) },
	}
	return c.where("must be "+rangeText(int64(lo), int64(hi)), func(v T) bool { return v >= lo && v <= hi })
}

func rangeText(lo, hi int64) string {
	if hi >= 1<<30 {
		return fmt.Sprintf("a whole number, %d or more", lo)
	}
	return fmt.Sprintf("a whole number from %d to %d", lo, hi)
}

// millis takes a number of milliseconds, lo or more.
func millis(lo int64) codec[time.Duration] {
	what := fmt.Sprintf("must be a whole number of milliseconds, %d or more", lo)
	return codec[time.Duration]{
		parse: func(s string) (time.Duration, error) {
			n, err := strconv.ParseInt(s, 10, 64)
			if err != nil {
				return 0, errors.New(what)
			}
			return durationMs(n), nil
		},
		format: func(d time.Duration) string {
			if d%time.Millisecond != 0 {
				return d.String() // which is refused: rounded, it would seem to be right
			}
			return strconv.FormatInt(d.Milliseconds(), 10)
		},
	}.where(what, func(d time.Duration) bool { return d >= durationMs(lo) && d%time.Millisecond == 0 })
}

// millisOr is millis(0) for a setting that may be Unset, which is shown as the text given.
func millisOr(unset string) codec[time.Duration] {
	c := millis(0)
	format, check := c.format, c.check
	c.format = func(d time.Duration) string {
		if d == Unset {
			return unset
		}
		return format(d)
	}
	c.check = func(d time.Duration) error {
		if d == Unset {
			return nil
		}
		return check(d)
	}
	return c
}

// durationMs turns milliseconds into a Duration; what is too long for one becomes the longest. (Java users write
// Long.MAX_VALUE for "for ever".)
func durationMs(n int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(min(max(n, -most), most)) * time.Millisecond
}

func float(lo, hi float64) codec[float64] {
	what := fmt.Sprintf("must be a number from %s to %s", formatFloat(lo), formatFloat(hi))
	return codec[float64]{
		parse: func(s string) (float64, error) {
			v, err := strconv.ParseFloat(s, 64)
			if err != nil {
				return 0, errors.New(what)
			}
			return v, nil
		},
		format: formatFloat,
	}.where(what, func(v float64) bool { return v >= lo && v <= hi })
}

func formatFloat(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// enum takes one of several texts, in any case if fold.
func enum[T comparable](values []enumValue[T], fold bool) codec[T] {
	what := "must be " + orList(enumTexts(values))
	return codec[T]{
		parse: func(s string) (T, error) {
			for _, e := range values {
				if e.text == s || fold && strings.EqualFold(e.text, s) {
					return e.value, nil
				}
			}
			var zero T
			return zero, errors.New(what)
		},
		format: func(v T) string { return enumText(values, v) },
	}.where(what, func(v T) bool {
		return slices.ContainsFunc(values, func(e enumValue[T]) bool { return e.value == v })
	})
}

func reset() codec[Reset] {
	return codec[Reset]{parse: ParseReset, format: Reset.String}
}

func orList(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
