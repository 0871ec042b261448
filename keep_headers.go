package millrace

// KeepHeaders makes a store keep, beside each value, the headers of the record that set it. store.Stamped and iterators
// return them, the changelog carries them, and they outlast restarts, crashes and moves to another instance.
//
// Which headers: those of the record that set the row last, which is also whose headers the update carries downstream. For an
// aggregate that is the last record that went into it, even where an older one has the higher timestamp, and for a join of
// tables the record that led to the result. Where a cache holds updates back, the last write before the flush counts. In a
// store of a user-written step Put takes the headers of the record in process (none inside a timer), and PutStamped those that
// it is given.
//
// Nulls: a deletion leaves no headers in the store; its changelog record carries those of the record that deletes.
//
// Cost: the bytes of the headers with each row, on disk and in the changelog, and one more read of the store for whoever asks
// for the headers of a row that does not wait in a cache. Stores without the option are as they were. A store that exists when
// the option comes or goes is rebuilt from its changelog at the next start; the rows that were written before have no headers
// then. One without a changelog starts empty.
//
// It is a mistake on a table that has no store because it has no name, and together with Versioned: versions have no headers.
//
// In Kafka Streams: Stores.timestampedKeyValueStoreWithHeadersBuilder and its kin, and dsl.store.format=HEADERS. There the
// tables of the DSL keep empty headers.
func KeepHeaders() StepOption {
	return stepOption(func(o *stepOptions) { o.keepHeaders = true; o.given(optHeaders) })
}

const noVersionedHeaders = "a versioned store keeps no headers: leave out KeepHeaders or Versioned"

// needsHeaderName refuses KeepHeaders where only a name would make a store.
func (s *step) needsHeaderName() {
	s.errorf("%s has no store that could keep headers unless it is named: use millrace.As(\"…\"), or leave out KeepHeaders", s.verb)
}
