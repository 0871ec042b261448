package broker

import "context"

// Transactions is a producer that writes in transactions, one after the other, under a transactional id that it alone may
// use: whoever proves it later fences whoever proved it before.
//
// Its calls are made by one goroutine at a time, in the order Prove, then for each transaction Begin, any number of Produce,
// CommitOffsets at most once at a time, End. Between End and the next Begin nothing may be produced.
type Transactions interface {
	// Producer writes the records of the transaction that is open; outside of one, and behind its offsets if those came
	// first, a record is answered with INVALID_TXN_STATE. A record that fails dooms the transaction: it can only be aborted. A record that is given up with
	// its transaction, by an abort or by Prove, is answered with ErrAborted.
	//
	// Close ends no transaction: an open one stays until the id is proved again or the transaction's time is over.
	Producer

	// Prove makes the transactional id this producer's (InitProducerID): a transaction that was left open under it, by this
	// process or one before it, is aborted, or its commit completed, before it returns. It must be called before the first
	// transaction, and again before the next one whenever an error of the calls below has the course CourseUnknown or
	// CourseRebuild; Begin refuses to go on without. Records that were not acknowledged by then are failed. It asks again
	// while the coordinator is busy or silent, until the context ends.
	Prove(ctx context.Context) error
	// Stray tells whether a request of Prove got no answer within the last minutes. It may arrive late, and take the id from this
	// producer as another process would.
	Stray() bool

	// Begin opens a transaction. It asks no broker.
	Begin() error

	// CommitOffsets makes offsets part of the transaction, under exactly the identity given. If records were produced in it, at
	// least one must have been acknowledged; if none were, none can be any more. It waits out CONCURRENT_TRANSACTIONS within the
	// context and retries no other refusal. Each refused partition is in the error, see CommitError; other errors have a
	// course too (CourseOf). It may be called again with the same offsets under another identity.
	CommitOffsets(ctx context.Context, group string, id Identity, offsets map[TopicPartition]OffsetMeta) error

	// End commits or aborts. A commit must wait until every record has its answer; an abort fails those that have none, and
	// returns when all have been answered. A commit that is refused without asking the coordinator, because a record has no
	// answer or has failed or an error before asks for Prove, leaves the transaction open to be aborted.
	//
	// A nil error says that it was done. An error of a commit leaves it open whether it took effect, whatever its course: it
	// is known only after Prove, from what CommittedOffsets says. An error of an abort with another course than CourseUnknown
	// and CourseRebuild says that the transaction could not be ended now: Prove ends it too.
	End(ctx context.Context, commit bool) error
}
