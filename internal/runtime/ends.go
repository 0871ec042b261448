package runtime

import "github.com/millrace-io/millrace/internal/broker"

// sayJoin tells as whom the instance joins its group. It is known only when the state directory is open.
func (r *Runner) sayJoin(who Member) {
	r.static = who.InstanceID != ""
	attrs := []any{"group", r.cfg.AppID, "static", r.static}
	if r.static {
		attrs = append(attrs, "instance_id", who.InstanceID)
	}
	if who.Transactional != "" {
		attrs = append(attrs, "transactional_id", who.Transactional)
	}
	r.log.Info("joining the group", attrs...)
}

// leaves notes what becomes of the instance's place in the group. Only a static member can keep it.
func (r *Runner) leaves(stay bool) {
	r.place = "left"
	if stay && r.static {
		r.place = "place kept until the session timeout"
	}
}

// sayEnd is the last line of an instance.
func (r *Runner) sayEnd(err error) {
	place := r.place
	if place == "" {
		place = "never joined"
	}
	if err != nil {
		r.log.Error("ended with an error", "group", place, "error", broker.OnePrefix(err))
		return
	}
	r.log.Info("stopped", "group", place)
}
