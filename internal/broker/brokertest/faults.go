package brokertest

import (
	"context"
	"fmt"
	"slices"

	"github.com/millrace-io/millrace/internal/broker"
)

// Op is a kind of request, for faults and for the list of calls.
type Op string

// The kinds of requests.
const (
	OpClusterID        Op = "cluster id"
	OpTopics           Op = "topics"
	OpMatchTopics      Op = "match topics"
	OpCreateTopic      Op = "create topic"
	OpTopicConfigs     Op = "topic configs"
	OpListOffsets      Op = "list offsets"
	OpDeleteRecords    Op = "delete records"
	OpCommittedOffsets Op = "committed offsets"
	OpCommitOffsets    Op = "commit offsets"
	OpEpochEnds        Op = "epoch ends"
	OpGroup            Op = "group"
	OpRead             Op = "read"
	OpFetch            Op = "fetch" // one partition of a Poll
	OpProve            Op = "prove" // InitProducerID
	OpBegin            Op = "begin" // asks no broker
	OpTxnOffsets       Op = "txn offsets"
	OpEndTxn           Op = "end txn"
)

// Fault makes requests fail. The first one that matches is used, in the order of Inject.
type Fault struct {
	Op Op
	// Err is answered. For OpFetch it becomes the Err of the partition's batch.
	Err error
	// Applied lets the request take effect before its answer is replaced by Err: a lost answer. Otherwise the request
	// itself is lost.
	Applied bool
	// Late keeps the request on its way: it takes effect when ApplyLate says so, whatever its answer was. With Applied it takes
	// effect now and once more then.
	Late bool
	// Block holds the request back until Release or the end of its context, before it takes effect or (if Applied) after.
	// Without an Err it goes on then as if nothing had been. The call must be made on a goroutine of its own; Do tells that
	// it is held. OpFetch cannot be held.
	Block bool
	// Times is how many requests fail; 0 is one, below 0 is all.
	Times int
	// When limits the fault to some requests of the kind.
	When func(Call) bool
	// Do, if set, runs when the fault strikes, after the request took effect (if Applied). It must not call the Cluster.
	Do func(Call)

	hits     int
	released bool
}

// Inject adds a fault to come. Hits of the returned fault tells how often it struck.
func (c *Cluster) Inject(f Fault) *Injected {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.Times == 0 {
		f.Times = 1
	}
	c.faults = append(c.faults, &f)
	return &Injected{c: c, f: &f}
}

// LoseCommits makes the next n offset commits end without an answer; applied tells whether they take effect.
func (c *Cluster) LoseCommits(n int, applied bool) *Injected {
	return c.Inject(Fault{Op: OpCommitOffsets, Err: broker.ErrNoAnswer, Applied: applied, Times: n})
}

// Injected is a fault that was put into a cluster.
type Injected struct {
	c *Cluster
	f *Fault
}

// Hits is how often the fault has struck.
func (i *Injected) Hits() int {
	i.c.mu.Lock()
	defer i.c.mu.Unlock()
	return i.f.hits
}

// Remove ends the fault.
func (i *Injected) Remove() {
	i.c.mu.Lock()
	defer i.c.mu.Unlock()
	i.c.faults = slices.DeleteFunc(i.c.faults, func(f *Fault) bool { return f == i.f })
}

// Release lets go the requests that the fault holds back, and does not hold any more of them.
func (i *Injected) Release() {
	i.c.mu.Lock()
	defer i.c.mu.Unlock()
	i.f.released = true
	i.c.changed.Broadcast()
}

// lateRequest is a request that was answered for and is still on its way.
type lateRequest struct {
	call  Call
	apply func() error
}

// Late counts the requests that are still on their way, see Fault.
func (c *Cluster) Late() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.late)
}

// ApplyLate lets a request that is still on its way arrive: the i-th of those that Late counts. It returns it with what the
// broker had to say, which nobody hears.
func (c *Cluster) ApplyLate(i int) Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.late[i]
	c.late = slices.Delete(c.late, i, i+1)
	r.call.Err = r.apply()
	c.changed.Broadcast()
	return r.call
}

// fault takes the fault that strikes a request, nil if none. The cluster is locked.
func (c *Cluster) fault(call Call) *Fault {
	for i, f := range c.faults {
		if f.Op != call.Op || f.When != nil && !f.When(call) {
			continue
		}
		f.hits++
		if f.Times > 0 && f.hits >= f.Times {
			c.faults = slices.Delete(c.faults, i, i+1)
		}
		return f
	}
	return nil
}

// do carries out a request: under the lock, with the faults of its kind, and with a note in the list of calls.
func (c *Cluster) do(ctx context.Context, call Call, apply func() error) error {
	f := c.fault(call)
	if f == nil {
		call.Err = apply()
	} else {
		call.Err = c.strike(ctx, f, call, apply)
	}
	c.calls = append(c.calls, call)
	return call.Err
}

func (c *Cluster) strike(ctx context.Context, f *Fault, call Call, apply func() error) error {
	var err error
	if f.Applied {
		err = apply()
	}
	if f.Late {
		c.late = append(c.late, lateRequest{call, apply})
	}
	if f.Do != nil {
		f.Do(call)
	}
	if f.Block {
		if !c.wait(ctx, func() bool { return f.released }) {
			return fmt.Errorf("millrace: %s: %w: %w", call.Op, broker.ErrNoAnswer, context.Cause(ctx))
		}
		if !f.Applied && f.Err == nil {
			err = apply()
		}
	}
	if f.Err == nil {
		return err
	}
	return f.Err // what was answered is lost
}
