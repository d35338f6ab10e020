package e2e

import (
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

	mu    sync.Mutex
	conns map[net.Conn]bool // both sides
	done  bool
}

// fault handles a piece of a reply: it writes what is to arrive in its place. sent
// is how many bytes of replies the connection has passed on before. An error
// closes the connection.
type fault func(to io.Writer, piece []byte, sent int) error

func pass(to io.Writer, piece []byte, _ int) error {
	_, err := to.Write(piece)
	return err
}

// newWire starts a wire that passes everything on.
func newWire(t testing.TB, target string) *wire {
	t.Helper()
	return newWireWith(t, target, func(server io.Writer, client io.Reader) { _, _ = io.Copy(server, client) })
}

// newWireWith starts one on which carry brings Redis the commands.
func newWireWith(t testing.TB, target string, carry func(server io.Writer, client io.Reader)) *wire {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	testenv.OK(t, err)
	w := &wire{addr: listener.Addr().String(), target: target, carry: carry, conns: map[net.Conn]bool{}}
	w.set(pass)
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			group.Go(func() { w.serve(conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		w.shut()
		group.Wait()
	})
	return w
}

func (w *wire) set(f fault) { w.fault.Store(&f) }

// serve carries one connection.
func (w *wire) serve(client net.Conn) {
	defer w.close(client)
	if !w.keep(client) {
		return
	}
	server, err := net.Dial("tcp", w.target)
	if err != nil {
		return
	}
	defer w.close(server)
	if !w.keep(server) {
		return
	}
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() {
		defer w.close(server)
		defer w.close(client)
		w.carry(server, client) // its end is the connection's
	})
	w.reply(client, server)
	w.close(client)
	w.close(server)
}

// reply carries what Redis says.
func (w *wire) reply(client, server net.Conn) {
	buffer, sent := make([]byte, 64<<10), 0
	for {
		n, err := server.Read(buffer)
		if n > 0 {
			if (*w.fault.Load())(client, buffer[:n], sent) != nil {
				return
			}
			sent += n
			w.passed.Add(int64(n))
		}
		if err != nil {
			return
		}
	}
}

func (w *wire) keep(c net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		c.Close()
		return false
	}
	w.conns[c] = true
	return true
}

func (w *wire) close(c net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.Close()
	delete(w.conns, c)
}

// cut closes the connections there are.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		c.Close()
	}
}

func (w *wire) shut() {
	w.mu.Lock()
	w.done = true
	w.mu.Unlock()
	w.cut()
}
