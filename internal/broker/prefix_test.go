package broker

import (
	"errors"
	"fmt"
	"testing"
)

func TestOnePrefix(t *testing.T) {
	cause := fmt.Errorf("millrace: topic %q: %w", "out", ErrUnknownTopic)
	for _, c := range []struct {
		err  error
		want string
		same bool
	}{
		{cause, `millrace: topic "out": unknown topic or partition`, true},
		{fmt.Errorf("millrace: task 0_0: millrace: %w", cause), `millrace: task 0_0: topic "out": unknown topic or partition`, false},
		{errors.Join(cause, cause), "millrace: topic \"out\": unknown topic or partition\nmillrace: topic \"out\": unknown topic or partition", true},
	} {
		got := OnePrefix(c.err)
		if got.Error() != c.want || !errors.Is(got, ErrUnknownTopic) || (got == c.err) != c.same {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	if OnePrefix(nil) != nil {
		t.Error("no error became one")
	}
}
