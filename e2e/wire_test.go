package e2e

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// wire is a TCP proxy on the way to Redis. What it does to replies can be changed
// at any time.
type wire struct {
	addr   string
	target string
	carry  func(server io.Writer, client io.Reader)
	fault  atomic.Pointer[fault]
	passed atomic.Int64 // bytes of replies
	test   context.Context

	mu      sync.Mutex
	whole   context.Context // until the wire is cut
	breakIt context.CancelFunc
}

// fault handles a piece of a reply: it writes what is to arrive in its place. An error
// closes the connection.
type fault func(to io.Writer, piece []byte) error

func pass(to io.Writer, piece []byte) error {
	_, err := to.Write(piece)
	return err
}

// newWire starts a wire on which carry brings Redis the commands; nil passes them on.
func newWire(t testing.TB, target string, carry func(server io.Writer, client io.Reader)) *wire {
	t.Helper()
	if carry == nil {
		carry = func(server io.Writer, client io.Reader) { _, _ = io.Copy(server, client) }
	}
	w := &wire{target: target, carry: carry, test: t.Context()}
	w.set(pass)
	w.cut()
	w.addr = testenv.Listen(t, w.serve)
	return w
}

func (w *wire) set(f fault) { w.fault.Store(&f) }

// serve carries one connection.
func (w *wire) serve(client net.Conn) {
	w.mu.Lock()
	defer context.AfterFunc(w.whole, func() { client.Close() })()
	w.mu.Unlock()
	server, err := net.Dial("tcp", w.target)
	if err != nil {
		return
	}
	var group sync.WaitGroup
	defer group.Wait()
	defer client.Close()
	defer server.Close()
	group.Go(func() {
		defer server.Close()
		w.carry(server, client) // its end is the connection's
	})
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if n > 0 {
			if (*w.fault.Load())(client, buffer[:n]) != nil {
				return
			}
			w.passed.Add(int64(n))
		}
		if err != nil {
			return
		}
	}
}

// cut closes the connections there are.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.breakIt != nil {
		w.breakIt()
	}
	w.whole, w.breakIt = context.WithCancel(w.test)
}
