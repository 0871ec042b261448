package op

import (
	"fmt"

	"github.com/millrace-io/millrace/serde"
)

// keptHeaders are the headers that a store which keeps them takes from the context of a write.
func (c current) keptHeaders() serde.Headers { return c.headers }

// withHeaders is the context of a write by user code that brings headers of its own. keeps says whether the store has a
// place for them.
func (e *Env) withHeaders(store string, keeps bool, headers serde.Headers) (current, error) {
	c := e.cur
	c.raw = nil
	if !keeps {
		if len(headers) > 0 {
			return c, fmt.Errorf("millrace: store %s keeps no headers: define it with millrace.KeepHeaders(), or put the value without", store)
		}
		return c, nil
	}
	c.headers = headers.Clone()
	return c, nil
}
