package processor_test

import (
	"fmt"
	"testing"

	"github.com/millrace-io/millrace/processor"
)

// A task reads as it does in the log, by itself and inside other values.
func TestTaskID_String(t *testing.T) {
	id := processor.TaskID{Subtopology: 10, Partition: 3}
	if s := fmt.Sprintf("%v %v", id, struct{ Task processor.TaskID }{id}); s != "10_3 {10_3}" {
		t.Errorf("it reads %q", s)
	}
}
