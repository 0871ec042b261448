package milltest_test

import (
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/window"
)

func onClose(opts []millrace.StepOption) []millrace.StepOption {
	return append([]millrace.StepOption{millrace.EmitOnClose()}, opts...)
}

// After a jump in time both windows come out; Kafka Streams loses them, because their store's retention has passed.
func TestC027_EmitOnCloseWithAJumpInTime(t *testing.T) {
	everyStore(t, func(t *testing.T, stepOpts []millrace.StepOption, opts ...milltest.Option) {
		for _, c := range []struct {
			name string
			w    window.Time
			at   string // of the last record
			want string
			more []millrace.StepOption
		}{
			{"16 minutes", window.Tumbling(10 * time.Minute).Grace(5 * time.Minute), "960000", "a[0,600000)=1@60000", nil},
			{"32 minutes", window.Tumbling(10 * time.Minute).Grace(5 * time.Minute), "1920000", "a[0,600000)=1@60000 b[600000,1200000)=1@720000", nil},
			{"a day", window.Tumbling(10 * time.Minute).Grace(5 * time.Minute), "86400000", "a[0,600000)=1@60000 b[600000,1200000)=1@720000", nil},
			{"32 minutes, longer retention", window.Tumbling(10 * time.Minute).Grace(5 * time.Minute), "1920000", "a[0,600000)=1@60000 b[600000,1200000)=1@720000",
				[]millrace.StepOption{millrace.Retain(24 * time.Hour)}},
		} {
			t.Run(c.name, func(t *testing.T) {
				d, out, _ := countIn(t, c.w, append(onClose(stepOpts), c.more...), opts...)
				steps{
					{"in", "a=x@60000", ""},
					{"in", "b=x@720000", ""},
					{"in", "c=x@" + c.at, c.want},
				}.run(t, d, out)
			})
		}
	})
}
