package runtime

import (
	"fmt"
	"strings"

	"github.com/millrace-io/millrace/internal/broker"
)

// eventText tells an event in a line of a trace.
func eventText(e Event) string {
	switch e := e.(type) {
	case MemberEvent:
		return fmt.Sprintf("member %d %v gen %d", e.Kind, e.Tasks, e.Identity.Generation)
	case Fetched:
		var b strings.Builder
		for _, x := range e.Batches {
			fmt.Fprintf(&b, " %s-%d:%d@%d err %v", x.Topic, x.Partition, len(x.Records), x.Position, x.Err)
		}
		return "fetched" + b.String()
	case Looked:
		return "looked " + e.life.name
	case Worked:
		return fmt.Sprintf("worked %s processed %d err %v", e.Done.work.life.name, e.Done.Processed, e.Done.Err)
	case Restored:
		return fmt.Sprintf("restored %s err %v", e.life.name, e.Err)
	case Levelled:
		return "levelled " + e.standby.slot.name
	case Unfollowed:
		return fmt.Sprintf("unfollowed %s kept %t err %v", e.standby.slot.name, e.Set != nil, e.Err)
	case CommitAnswered:
		return fmt.Sprintf("commit %d sent %t err %v", e.Round, e.Sent, e.Err)
	case TransactionEnded:
		return fmt.Sprintf("transaction %d ended err %v", e.Round, e.Err)
	case Judged:
		return fmt.Sprintf("judged %s verdict %d err %v", e.question.slot.name, e.verdict, e.err)
	case StateDropped:
		return fmt.Sprintf("state dropped of %s err %v", e.Task, e.Err)
	case Proved:
		return fmt.Sprintf("proved err %v", e.Err)
	}
	return fmt.Sprintf("%T", e)
}

// actionText tells an action in a line of a trace.
func actionText(a Action) string {
	switch a := a.(type) {
	case Assign:
		return fmt.Sprintf("assign %s-%d@%d epoch %d", a.Topic, a.Partition, a.Offset, a.Epoch)
	case Unassign:
		return fmt.Sprintf("unassign %v", a.Partitions)
	case Pause:
		return fmt.Sprintf("pause %v", a.Partitions)
	case Resume:
		return fmt.Sprintf("resume %v", a.Partitions)
	case Restore:
		return "restore " + a.life.name
	case CancelRestore:
		return "cancel restore " + a.life.name
	case Follow:
		return "follow " + a.standby.slot.name
	case Unfollow:
		return fmt.Sprintf("unfollow %s keep %t", a.standby.slot.name, a.Keep)
	case Run:
		w := a.Work
		return fmt.Sprintf("run %s open %t seal %d failed %d unit %t batches %d process %t finish %d",
			w.life.name, w.open != nil, len(w.seal), len(w.failed), w.handOver, len(w.batches), w.process, w.finish)
	case Commit:
		var tps []broker.TopicPartition
		for tp := range a.Offsets {
			tps = append(tps, tp)
		}
		broker.SortPartitions(tps)
		var b strings.Builder
		for _, tp := range tps {
			fmt.Fprintf(&b, " %s-%d=%d", tp.Topic, tp.Partition, a.Offsets[tp].Offset)
		}
		return fmt.Sprintf("commit %d generation %d%s", a.Round, a.Identity.Generation, b.String())
	case Send:
		return fmt.Sprintf("send %d begin %t records %d", a.Round, a.Begin, len(a.Records))
	case CommitInTransaction:
		return fmt.Sprintf("commit %d in transaction, generation %d, partitions %d", a.Round, a.Identity.Generation, len(a.Offsets))
	case EndTransaction:
		return fmt.Sprintf("end %d commit %t", a.Round, a.Commit)
	case Refuse:
		return fmt.Sprint("refuse ", a.Tasks)
	case DropState:
		return fmt.Sprint("drop state of ", a.Tasks)
	case Ask:
		return fmt.Sprintf("ask about %s, %d times: %v", a.question.slot.name, a.question.uncaught.Times, a.question.uncaught.Err)
	case Report:
		return "report " + a.State.String()
	}
	return fmt.Sprintf("%T", a)
}
