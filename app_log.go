package millrace

import "path/filepath"

// sayStart tells what the App runs with, before it asks anything of the brokers. As whom it joins its group is told when it does.
func (a *App) sayStart() {
	c := &a.opts.cfg
	dir := "none: all stores are in memory"
	if a.opts.usesDir(a.topology) {
		dir = filepath.Join(c.StateDir, c.ApplicationID)
	}
	a.mu.Lock()
	workers, paused := a.workers, a.paused
	a.mu.Unlock()
	attrs := []any{"application_id", c.ApplicationID, "brokers", c.BootstrapServers, "guarantee", c.Guarantee.String(), "state_dir", dir,
		"group_protocol", c.GroupProtocol.String()}
	if workers == 0 {
		attrs = append(attrs, "workers", "as many as there are processors")
	} else {
		attrs = append(attrs, "workers", workers)
	}
	if paused {
		attrs = append(attrs, "paused", true)
	}
	a.log.Info("starting", attrs...)
}
