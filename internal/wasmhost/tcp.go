package wasmhost

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
)

// TCP is a cluster reached over TCP. What the guest sends is written as it is,
// and what is read comes back as messages: a cluster with a bridge in it, as
// seen from the limiter. The guest gets it by Pump.
type TCP struct {
	Address string
	// MaxMessage is the most bytes that come as one message; 0: 64 KiB.
	MaxMessage int
}

// Open implements Cluster.
func (t TCP) Open(near NearEnd) Peer {
	if t.MaxMessage == 0 {
		t.MaxMessage = 64 << 10
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &tcpPeer{near: near, maxMessage: t.MaxMessage, cancel: cancel, filled: make(chan struct{}, 1)}
	p.running.Go(func() { p.run(ctx, t.Address) })
	return p
}

type tcpPeer struct {
	near       NearEnd
	maxMessage int
	cancel     context.CancelFunc
	running    sync.WaitGroup

	mu     sync.Mutex
	unsent []byte
	last   bool          // nothing follows the unsent
	filled chan struct{} // has room for one: unsent or last has changed
}

// Send implements Peer.
func (p *tcpPeer) Send(message []byte, endOfStream bool) {
	p.mu.Lock()
	p.unsent = append(p.unsent, message...)
	p.last = p.last || endOfStream
	p.mu.Unlock()
	select {
	case p.filled <- struct{}{}:
	default:
	}
}

// CloseSend implements Peer.
func (p *tcpPeer) CloseSend() { p.Send(nil, true) }

// Cancel implements Peer. It returns when the connection is closed.
func (p *tcpPeer) Cancel() {
	p.cancel()
	p.running.Wait()
}

func (p *tcpPeer) run(ctx context.Context, address string) {
	defer p.cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		p.near.Post(func() { p.near.Close(GRPCUnavailable) })
		return
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	p.near.Post(p.near.Connected)
	p.running.Go(func() { p.write(ctx, conn) })
	status := p.read(conn)
	conn.Close()
	p.near.Post(func() { p.near.Close(status) })
}

// read passes on what comes, and returns the status to close with.
func (p *tcpPeer) read(conn net.Conn) uint32 {
	for {
		b := make([]byte, p.maxMessage)
		n, err := conn.Read(b)
		if n > 0 {
			p.near.Post(func() { p.near.Receive(b[:n]) })
		}
		if errors.Is(err, io.EOF) {
			return GRPCUnknown
		}
		if err != nil {
			return GRPCInternal
		}
	}
}

// write writes at once all that was sent in the meantime.
func (p *tcpPeer) write(ctx context.Context, conn net.Conn) {
	for {
		select {
		case <-p.filled:
		case <-ctx.Done():
			return
		}
		p.mu.Lock()
		b, last := p.unsent, p.last
		p.unsent = nil
		p.mu.Unlock()
		if _, err := conn.Write(b); err != nil {
			return
		}
		if tcp, ok := conn.(*net.TCPConn); ok && last {
			tcp.CloseWrite()
			return
		}
	}
}
