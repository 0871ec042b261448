// Package runtime runs the tasks of one application instance: it is one member of its group, restores the tasks that the
// group gives it, feeds them with records, commits, and hands them over when the group takes them away.
//
// # Stepped, then threaded
//
// [Machine] is a state machine: [Machine.Step] takes one event (assigned, revoked, lost, fetched, acknowledged, committed,
// work done, restored, tick, stop) with the time at which it happened, and the actions that follow from it are taken with
// [Machine.Actions]. It starts no goroutine, reads no clock and waits for nothing, and the same events give the same
// actions. [Runner] carries: its goroutines fetch, run tasks, restore, commit and heartbeat, and all they do is to turn
// actions into events. docs/state-machine.md draws both.
//
// # Who owns what
//
// A task, its stores and its way out belong to whoever runs its [Work]; the machine gives out one Work of a task at a
// time, and touches the task only through it. What the machine shares with others is small and guarded: the [outbox] of
// a task, which counts acknowledgements as they come in on the client's goroutines.
package runtime
