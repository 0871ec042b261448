// Package restore makes a task ready to run: it finds where its inputs go on and brings its stores level with their
// changelogs.
//
// A [Job] does this for one task, in small steps that each send one request or read one chunk. It owns no goroutine: the
// runtime gives each job one, a simulation steps several of them on its own. The order of the steps is what keeps state
// and offsets together:
//
//  1. the committed offsets are fetched, and the fetch waits for transactions that hold one of them;
//  2. then the high watermark of each changelog is taken, as read uncommitted: a record that counts for the committed
//     offsets may stand behind the last stable offset, because the marker of its transaction is late;
//  3. then each changelog is read, committed records only, until the position has reached that mark. Where a transaction
//     is open below it, that waits for its end.
//
// A changelog that is also an input of the task ends at the committed offset instead: what lies behind it comes in as
// input.
//
// In Kafka Streams: StoreChangelogReader and ProcessorStateManager.
package restore
