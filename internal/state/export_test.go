package state

import (
	"context"
	"errors"
	"time"
)

// Settle writes Pebble's memory to disk and waits until Pebble has nothing left to do by itself: what it would delete is
// deleted.
func (db *DB) Settle(ctx context.Context) error {
	if err := db.p.Flush(); err != nil {
		return err
	}
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for quiet := 0; quiet < 5; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), db.failed())
		}
		m := db.p.Metrics()
		busy := m.Flush.NumInProgress > 0 || m.Compact.NumInProgress > 0 || !m.Table.InitialStatsCollectionComplete || m.Table.PendingStatsCollectionCount > 0
		if quiet++; busy {
			quiet = 0
		}
	}
	db.p.TestOnlyWaitForCleaning()
	return nil
}
