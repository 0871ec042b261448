package kgoclient

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"sync"
	"syscall"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// wire is a network that does to requests of a kind what it is told.
type wire struct {
	mu    sync.Mutex
	rules map[kmsg.Key]*wireRule
}

type wireRule struct {
	what   wireFault
	left   int // below 0: all
	hits   int
	struck chan struct{} // closed with the first hit
}

type wireFault uint8

const (
	passes     wireFault = iota
	losesAsk             // the request does not arrive, and the connection breaks
	losesReply           // the request is answered, but the connection breaks instead
	hangs                // the request does not arrive, and nobody says so
)

// over makes the connections of a client go over the wire.
func (w *wire) over(cfg Config) Config {
	cfg.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &wireConn{Conn: c, w: w}, nil
	}
	return cfg
}

// set makes the next n requests of a kind fail; below 0: all.
func (w *wire) set(key kmsg.Key, what wireFault, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rules == nil {
		w.rules = make(map[kmsg.Key]*wireRule)
	}
	w.rules[key] = &wireRule{what: what, left: n, struck: make(chan struct{})}
}

// struck waits until the rule of a kind has struck.
func (w *wire) struck(key kmsg.Key) {
	w.mu.Lock()
	c := w.rules[key].struck
	w.mu.Unlock()
	<-c
}

func (w *wire) hits(key kmsg.Key) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.rules[key]; r != nil {
		return r.hits
	}
	return 0
}

func (w *wire) of(request []byte) wireFault {
	if len(request) < 6 {
		return passes
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.rules[kmsg.Key(binary.BigEndian.Uint16(request[4:]))]
	if r == nil || r.left == 0 {
		return passes
	}
	r.left--
	if r.hits++; r.hits == 1 {
		close(r.struck)
	}
	return r.what
}

type wireConn struct {
	net.Conn
	w    *wire
	mu   sync.Mutex
	lose bool
}

// Write gets one whole request.
func (c *wireConn) Write(b []byte) (int, error) {
	switch c.w.of(b) {
	case losesAsk:
		_ = c.Close()
		return 0, &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EPIPE)}
	case losesReply:
		c.mu.Lock()
		c.lose = true
		c.mu.Unlock()
	case hangs:
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *wireConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lose {
		_ = c.Close()
		return 0, io.EOF
	}
	return n, err
}
