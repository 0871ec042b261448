package millrace_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/serde"
)

// A left join keeps records with a null key, also behind the repartition topic that it needs (KIP-962); an inner join that
// shares the topic drops them. The expected results are those of Kafka Streams 4.4.0.
func TestLeftJoinTable_keepsNullKeysBehindARepartitionTopic(t *testing.T) {
	key, value := serde.Nullable(serde.String), serde.String
	in := millrace.NewTopic("in", serde.String, value)
	rows := millrace.NewTopic("rows", key, value)
	left := millrace.NewTopic("left", key, value)
	inner := millrace.NewTopic("inner", key, value)
	for name, c := range map[string]struct {
		options    []millrace.StepOption
		innerFirst bool
	}{
		"named":         {options: []millrace.StepOption{millrace.RepartitionName("by-value")}},
		"shared":        {options: []millrace.StepOption{millrace.AutoName()}},
		"inner's topic": {options: []millrace.StepOption{millrace.AutoName()}, innerFirst: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := millrace.NewBuilder()
			table := millrace.TableFrom(b, rows, millrace.As("rows"))
			byValue := millrace.SelectKey(millrace.From(b, in), func(_, v string) *string {
				if v == "none" {
					return nil
				}
				return &v
			})
			options := append(c.options, millrace.WithKey(key))
			addLeft := func() {
				millrace.LeftJoinTable(byValue, table, func(v, row string, ok bool) string { return fmt.Sprint(v, "/", row, ok) }, options...).
					To(left)
			}
			addInner := func() {
				millrace.JoinTable(byValue, table, func(v, row string) string { return v + "/" + row }, options...).To(inner)
			}
			switch {
			case c.innerFirst:
				addInner()
				addLeft()
			case name == "shared":
				addLeft()
				addInner()
			default:
				addLeft()
			}
			topology, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			d := milltest.New(t, topology)
			k := "a"
			milltest.Input(d, rows).PipeAt(&k, "row", 0)
			for _, v := range []string{"none", "a", "b"} {
				milltest.Input(d, in).PipeAt("k", v, time.Second)
			}
			if got := strings.Join(milltest.Output(d, left).ReadValues(), " "); got != "none/false a/rowtrue b/false" {
				t.Errorf("left join gave %q", got)
			}
			if name == "named" {
				return
			}
			if got := strings.Join(milltest.Output(d, inner).ReadValues(), " "); got != "a/row" {
				t.Errorf("inner join gave %q", got)
			}
		})
	}
}
