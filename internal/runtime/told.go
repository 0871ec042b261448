package runtime

import (
	"log/slog"
	"slices"

	"github.com/millrace-io/millrace/internal/task"
)

// tellByHand tells that a task goes on from offsets that the application has not committed, and what that does to its stores.
func (l *life) tellByHand(log *slog.Logger, inputs []task.ByHand, cfg *task.Config) {
	// Of one that the log does not have any more the restore has told.
	inputs = slices.DeleteFunc(slices.Clone(inputs), func(h task.ByHand) bool { return h.Gone })
	if len(inputs) == 0 {
		return
	}
	var stores, list []string
	for _, st := range cfg.Sub.Stores {
		stores = append(stores, st.Name)
	}
	for _, h := range inputs {
		list = append(list, h.String())
	}
	if len(stores) == 0 {
		log.Info("offsets were set by hand or deleted: the task goes on from there", "task", l.name, "inputs", list)
		return
	}
	log.Warn("offsets were set by hand or deleted, but the stores were kept: what is read again comes on top of what they hold, so that counts and sums take it twice, and what is passed over is missing in them; all times of the task start unset, so that windows which had closed open again. If the results should be built anew, stop all instances and reset the application (docs/reset.md)",
		"task", l.name, "inputs", list, "stores", stores)
}
