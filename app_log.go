package millrace

import (
	"path/filepath"

	"github.com/millrace-io/millrace/internal/config"
)

// sayStart tells what the App runs with, before it asks anything of the brokers. As whom it joins its group is told when it does.
func (a *App) sayStart() {
	c := &a.opts.cfg
	dir := "none: all stores are in memory"
	if a.usesDir() {
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

// usesDir tells whether any store is kept in the state directory.
func (a *App) usesDir() bool {
	if a.opts.cfg.DefaultStore != config.Persistent {
		return false
	}
	for _, s := range a.topology.t.Stores() {
		if s.Persistent && !s.Global {
			return true
		}
	}
	return false
}
