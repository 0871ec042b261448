//go:build synctests

package sim_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// link is one instance's way to the brokers. Requests and answers take time on it, and it can be cut, stalled, or cut for good,
// at a moment or at a request of one's choice.
type link struct {
	vn   *kfake.VirtualNetwork
	name string
	note func(format string, args ...any)

	mu      sync.Mutex
	rng     *rand.Rand
	slowest time.Duration // a request and its answer take up to that long each
	conns   map[*linkConn]struct{}
	resume  chan struct{}      // closed when the link goes on; nil while it does
	off     map[string]bool    // addresses that cannot be reached
	ended   chan struct{}      // closed when the link is cut for good
	traps   []*trap            // what waits for a request
	sprung  func(*trap)        // told when a trap with kill has sprung
	frames  map[kmsg.Key]int64 // requests so far
}

// trap is a fault at the nth request of a kind from now on.
type trap struct {
	key    kmsg.Key
	nth    int
	answer bool // it is the answer that is met, and the request has been carried out
	what   trapKind
	wait   time.Duration
}

type trapKind int

const (
	trapCut   trapKind = iota // the connection breaks
	trapLate                  // it takes longer
	trapStall                 // the whole link stands still
	trapKill                  // the link is cut for good
)

func (k trapKind) String() string { return [...]string{"cut", "late", "stall", "kill"}[k] }

func (t *trap) String() string {
	at := "request"
	if t.answer {
		at = "answer"
	}
	s := fmt.Sprintf("%s at %s %d of %s", t.what, at, t.nth, t.key.Name())
	if t.wait > 0 {
		s += fmt.Sprintf(" for %v", t.wait)
	}
	return s
}

func newLink(vn *kfake.VirtualNetwork, name string, seed uint64, slowest time.Duration, note func(string, ...any)) *link {
	return &link{
		vn: vn, name: name, note: note, rng: rand.New(rand.NewPCG(seed, 7)), slowest: slowest,
		conns: make(map[*linkConn]struct{}), off: make(map[string]bool), ended: make(chan struct{}), frames: make(map[kmsg.Key]int64),
	}
}

// Dial connects to a broker.
func (l *link) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if err := l.through(ctx.Done()); err != nil && !errors.Is(err, errLinkEnded) {
		return nil, err
	}
	l.mu.Lock()
	takes := time.Duration(l.rng.Int64N(int64(l.slowest)) + 1)
	l.mu.Unlock()
	select {
	case <-time.After(takes): // a refusal takes time too
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	l.mu.Lock()
	off := l.off[address] || l.over()
	l.mu.Unlock()
	if off {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	c, err := l.vn.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	lc := &linkConn{Conn: c, link: l, address: address, closed: make(chan struct{}), asked: make(map[int32]kmsg.Key)}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over() {
		c.Close()
		return nil, errLinkEnded
	}
	l.conns[lc] = struct{}{}
	return lc, nil
}

// errLinkEnded is what whoever is still there sees of a process that is dead.
var errLinkEnded = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

// over tells whether the link is cut for good.
func (l *link) over() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// through waits until the link carries, or the channel is closed.
func (l *link) through(gone <-chan struct{}) error {
	for {
		l.mu.Lock()
		resume := l.resume
		l.mu.Unlock()
		if l.over() {
			return errLinkEnded
		}
		if resume == nil {
			return nil
		}
		select {
		case <-resume:
		case <-l.ended:
		case <-gone:
			return net.ErrClosed
		}
	}
}

// stall makes the link stand still: nothing is lost, and nothing gets through.
func (l *link) stall() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.resume == nil {
		l.resume = make(chan struct{})
	}
}

func (l *link) goOn() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.resume != nil {
		close(l.resume)
		l.resume = nil
	}
}

// cut breaks the connections to an address, "" for all.
func (l *link) cut(address string) {
	for _, c := range l.open(address) {
		c.Close()
	}
}

func (l *link) open(address string) (out []*linkConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if address == "" || c.address == address {
			out = append(out, c)
		}
	}
	return out
}

// reach sets whether an address can be reached.
func (l *link) reach(address string, yes bool) {
	l.mu.Lock()
	l.off[address] = !yes
	l.mu.Unlock()
	if !yes {
		l.cut(address)
	}
}

// end cuts the link for good, as the death of the process does.
func (l *link) end() {
	l.mu.Lock()
	if !l.over() {
		close(l.ended)
	}
	l.mu.Unlock()
	l.cut("")
}

func (l *link) lay(t *trap) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.traps = append(l.traps, t)
}

// clear takes all traps up and reaches everything.
func (l *link) clear() {
	l.mu.Lock()
	l.traps = nil
	clear(l.off)
	l.mu.Unlock()
	l.goOn()
}

// meets counts a request or an answer down on the traps, and tells how long it takes; a trap that it has sprung is returned.
func (l *link) meets(key kmsg.Key, answer bool) (*trap, time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !answer {
		l.frames[key]++
	}
	takes := time.Duration(l.rng.Int64N(int64(l.slowest)) + 1)
	for i, t := range l.traps {
		if t.key != key || t.answer != answer {
			continue
		}
		if t.nth--; t.nth <= 0 {
			l.traps = append(l.traps[:i:i], l.traps[i+1:]...)
			return t, takes
		}
	}
	return nil, takes
}

// spring does what a trap does, and returns an error if the connection does not live on.
func (c *linkConn) spring(t *trap) error {
	l := c.link
	l.note("%s: sprung: %v", l.name, t)
	switch t.what {
	case trapLate:
		return c.wait(t.wait)
	case trapStall:
		l.stall()
		time.AfterFunc(t.wait, l.goOn)
		return l.through(c.closed)
	case trapKill:
		l.end()
		l.sprung(t)
	}
	c.Close()
	return net.ErrClosed
}

// linkConn is a connection over a link. It knows which answer belongs to which request.
type linkConn struct {
	net.Conn
	link    *link
	address string
	once    sync.Once
	closed  chan struct{}

	mu       sync.Mutex
	asked    map[int32]kmsg.Key // by correlation id
	deadline time.Time          // of reads

	// Of the goroutine that reads.
	head []byte // of an answer, to be given out
	rest int    // bytes of the answer that follow
}

func (c *linkConn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.link.mu.Lock()
		delete(c.link.conns, c)
		c.link.mu.Unlock()
	})
	return c.Conn.Close()
}

func (c *linkConn) SetDeadline(t time.Time) error {
	c.setRead(t)
	return c.Conn.SetDeadline(t)
}

func (c *linkConn) SetReadDeadline(t time.Time) error {
	c.setRead(t)
	return c.Conn.SetReadDeadline(t)
}

func (c *linkConn) setRead(t time.Time) {
	c.mu.Lock()
	c.deadline = t
	c.mu.Unlock()
}

// wait passes time, up to the read deadline.
func (c *linkConn) wait(d time.Duration) error {
	c.mu.Lock()
	end := c.deadline
	c.mu.Unlock()
	late := false
	if left := time.Until(end); !end.IsZero() && left < d {
		d, late = left, true
	}
	select {
	case <-time.After(d):
	case <-c.closed:
		return net.ErrClosed
	}
	if late {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// errNotWhole says that the client does not write as this file expects.
var errNotWhole = errors.New("a write to a broker is not one whole request")

// Write sends one request.
func (c *linkConn) Write(p []byte) (int, error) {
	if len(p) < 12 || int(binary.BigEndian.Uint32(p)) != len(p)-4 {
		c.link.note("%s: %v", c.link.name, errNotWhole)
		return 0, errNotWhole
	}
	key := kmsg.Key(binary.BigEndian.Uint16(p[4:]))
	if err := c.link.through(c.closed); err != nil {
		return 0, err
	}
	if t, _ := c.link.meets(key, false); t != nil {
		if err := c.spring(t); err != nil {
			return 0, err
		}
	}
	c.mu.Lock()
	c.asked[int32(binary.BigEndian.Uint32(p[8:]))] = key
	c.mu.Unlock()
	return c.Conn.Write(p)
}

// Read gives out answers, each when its time has come.
func (c *linkConn) Read(p []byte) (int, error) {
	if len(c.head) == 0 && c.rest == 0 {
		head := make([]byte, 8)
		if _, err := io.ReadFull(c.Conn, head); err != nil {
			return 0, err
		}
		corr := int32(binary.BigEndian.Uint32(head[4:]))
		c.mu.Lock()
		key, known := c.asked[corr]
		delete(c.asked, corr)
		c.mu.Unlock()
		if !known {
			c.link.note("%s: an answer without a request", c.link.name)
		}
		t, takes := c.link.meets(key, true)
		if err := c.wait(takes); err != nil {
			return 0, err
		}
		if t != nil {
			if err := c.spring(t); err != nil {
				return 0, err
			}
		}
		if err := c.link.through(c.closed); err != nil {
			return 0, err
		}
		c.head, c.rest = head, int(binary.BigEndian.Uint32(head))-4
	}
	if len(c.head) > 0 {
		n := copy(p, c.head)
		c.head = c.head[n:]
		return n, nil
	}
	n, err := c.Conn.Read(p[:min(len(p), c.rest)])
	c.rest -= n
	return n, err
}
