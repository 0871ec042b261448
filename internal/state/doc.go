// Package state keeps the state of tasks as bytes: key-value stores, window stores and session stores, in memory or on
// disk. Types, serdes and caches are the business of the packages above it; this one knows keys, values, layers and
// changelog positions.
//
// # Layers
//
// A Set holds the stores of one task. Each store is read through four layers, newest first:
//
//	private   writes since the task's last hand-over
//	pending   units handed over and not yet decided, newest to oldest
//	sealed    units whose commit Kafka has confirmed, merged
//	base      Pebble for a persistent store, plain memory for the others
//
// HandOver turns the private layer into a pending Unit; Seal moves the oldest unit into the sealed layer, together with
// the changelog position that the state stands for from then on; Flush writes the sealed layer of all persistent stores
// to Pebble as one sorted batch, positions included. A memory store has no sealed layer: Seal merges into its base.
//
// So what is on disk is always a committed prefix of the task's history together with the position of that prefix, and a
// crash is repaired by replaying the changelog from there. The changelog is the write-ahead log; Pebble's own is off.
//
// # Ownership
//
// A Set, its stores and their iterators belong to one goroutine at a time; different Sets may be used at the same time.
// The one exception is Set.Abandon, which takes the handles away from a goroutine that does not come back. The methods
// of DB are safe for concurrent use.
//
// This package is the only importer of Pebble.
package state
