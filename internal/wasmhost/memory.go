package wasmhost

import "bytes"

// Memory is a cluster in memory whose streams a test plays by hand: it sees
// what was sent, and says when what comes back.
type Memory struct {
	// Refuse, if not 0, is the status that streams are closed with inside
	// proxy_grpc_stream.
	Refuse uint32
	// OnSend, if not nil, sees each message inside proxy_grpc_send. It may call
	// the methods of the Conn.
	OnSend func(c *Conn, message []byte)
	// Conns are the streams that were opened, in order.
	Conns []*Conn
}

// A Conn is the far end of one stream to a Memory.
type Conn struct {
	// Sent is the messages that were sent and not taken yet.
	Sent [][]byte
	// Cancelled is set by proxy_grpc_cancel and by the end of the plugin context, Closed by Close.
	Cancelled, Closed bool

	memory *Memory
	near   NearEnd
}

// Open implements Cluster.
func (m *Memory) Open(near NearEnd) Peer {
	c := &Conn{memory: m, near: near}
	if m.Refuse != 0 {
		near.Close(m.Refuse)
		return c
	}
	m.Conns = append(m.Conns, c)
	return c
}

// Last is the stream that was opened last, or nil.
func (m *Memory) Last() *Conn {
	if len(m.Conns) == 0 {
		return nil
	}
	return m.Conns[len(m.Conns)-1]
}

// Open says that neither end has ended the stream.
func (c *Conn) Open() bool { return !c.Closed && !c.Cancelled }

// Take is all that was sent since the last call, in one piece.
func (c *Conn) Take() []byte {
	b := bytes.Join(c.Sent, nil)
	c.Sent = nil
	return b
}

// Connected says that the stream has a connection, where a Bridge waits for one.
func (c *Conn) Connected() { c.near.Connected() }

// Reply sends the guest one message.
func (c *Conn) Reply(message string) { c.near.Receive([]byte(message)) }

// Close ends the stream with a gRPC status.
func (c *Conn) Close(status uint32) {
	c.Closed = true
	c.near.Close(status)
}

// Send implements Peer.
func (c *Conn) Send(message []byte) {
	c.Sent = append(c.Sent, message)
	if c.memory.OnSend != nil {
		c.memory.OnSend(c, message)
	}
}

// Cancel implements Peer.
func (c *Conn) Cancel() { c.Cancelled = true }
