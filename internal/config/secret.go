package config

import (
	"fmt"
	"log/slog"
)

// Secret is a password, key or token. It shows itself as "[hidden]" wherever it is printed, logged or encoded; Reveal
// gives the text.
type Secret string

const hidden = "[hidden]"

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return string(s) }

// String returns "[hidden]", or the empty string for an empty secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// Format implements fmt.Formatter, so that no verb shows the secret.
func (s Secret) Format(f fmt.State, verb rune) {
	if verb == 'q' || f.Flag('#') {
		fmt.Fprintf(f, "%q", s.String())
		return
	}
	fmt.Fprint(f, s.String())
}

// MarshalText hides the secret from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue hides the secret from loggers.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
