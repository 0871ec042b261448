package config

import "time"

// Connection holds what each client needs to reach the brokers.
type Connection struct {
	// RequestTimeout is how long an answer is waited for. Property: request.timeout.ms.
	RequestTimeout time.Duration
	// ConnectionSetup is how long a connection may take to be made. Property: socket.connection.setup.timeout.ms.
	ConnectionSetup time.Duration
	// RetryBackoff is the wait before the first retry of a request; it doubles up to RetryBackoffMax. Property:
	// retry.backoff.ms.
	RetryBackoff time.Duration
	// RetryBackoffMax is the longest wait between two retries. Property: retry.backoff.max.ms.
	RetryBackoffMax time.Duration
	// MetadataMaxAge is the age at which metadata is fetched anew. Property: metadata.max.age.ms.
	MetadataMaxAge time.Duration
	// Rack is where the client runs, as brokers name racks, to read from a replica near by; empty if unknown. The group
	// knows that of the main client. Property: client.rack.
	Rack string
	// Security is how the connection is protected and who the client is.
	Security Security
}

// Backoff is the wait before the n-th retry (from 1) by RetryBackoff and RetryBackoffMax.
func (c *Connection) Backoff(n int) time.Duration {
	d := c.RetryBackoff
	for i := 1; i < n && d > 0 && d < c.RetryBackoffMax; i++ {
		d *= 2
	}
	return min(d, max(c.RetryBackoff, c.RetryBackoffMax))
}

// Consumer holds the settings of a client that reads.
type Consumer struct {
	Connection

	// FetchMaxBytes bounds one fetch; 0 derives it from the memory limit. Property: fetch.max.bytes.
	FetchMaxBytes int64
	// MaxPartitionFetchBytes bounds one partition in it; 0 derives it from the memory limit. Property:
	// max.partition.fetch.bytes.
	MaxPartitionFetchBytes int64
	// FetchMinBytes is what a broker waits for before it answers, up to FetchMaxWait. Property: fetch.min.bytes.
	FetchMinBytes int64
	// FetchMaxWait is how long a broker waits for FetchMinBytes. Property: fetch.max.wait.ms.
	FetchMaxWait time.Duration
	// AutoOffsetReset is where reading starts when no offset is committed, or the committed one is gone. It has an effect
	// on the main client only. Property: auto.offset.reset.
	AutoOffsetReset Reset
	// Isolation says whether records of open or aborted transactions are read. It has an effect on the main client and
	// the user's topics only: internal topics are always read committed. Property: isolation.level.
	Isolation Isolation
}

// Producer holds the settings of the client that writes.
type Producer struct {
	Connection

	// Linger is how long a record waits for others to go in one batch. Property: linger.ms.
	Linger time.Duration
	// DeliveryTimeout is how long the delivery of a record is tried. Property: delivery.timeout.ms.
	DeliveryTimeout time.Duration
	// MaxBlock is how long a record waits for its topic to be found. Property: max.block.ms.
	MaxBlock time.Duration
	// MaxRequestBytes is the largest record, and the largest batch, that is sent. Property: max.request.size.
	MaxRequestBytes int64
	// BufferBytes is the size of records that wait to be sent; 0 derives it from the memory limit. Property:
	// buffer.memory.
	BufferBytes int64
	// Compression is how batches are compressed. Property: compression.type.
	Compression Compression
	// TransactionTimeout is after how long a coordinator aborts a transaction that was not ended, under ExactlyOnceV2.
	// Property: transaction.timeout.ms.
	TransactionTimeout time.Duration
}

// Admin holds the settings of the client that manages topics.
type Admin struct {
	Connection

	// APITimeout is how long a call with its retries may take. Property: default.api.timeout.ms.
	APITimeout time.Duration
}

// Compression is how batches are compressed, at the codec's default level.
type Compression struct {
	Codec Codec
}
