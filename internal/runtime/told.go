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
	var list []string
	stores := keptStores(inputs, cfg)
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

// keptStores lists the stores of a task that may hold what was processed before: they were on disk and go on from there, or records came from
// their changelogs, or the task has processed input on them in this process. A store that was emptied, or whose changelog was made
// anew, holds nothing that could be taken twice.
func keptStores(inputs []task.ByHand, cfg *task.Config) (stores []string) {
	processed := slices.ContainsFunc(inputs, func(h task.ByHand) bool { return h.Stored >= 0 })
	for _, st := range cfg.Sub.Stores {
		_, restored := cfg.RestoredTimeMs[st.Name]
		o, _ := cfg.Set.Opened(st.Name)
		onDisk := o.Existed && o.Emptied == "" && (!o.Header.HasPosition || o.Header.Position.Offset > 0)
		if processed || restored || onDisk {
			stores = append(stores, st.Name)
		}
	}
	return stores
}
