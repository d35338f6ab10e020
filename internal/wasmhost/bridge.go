package wasmhost

import "encoding/binary"

// A Bridge is a cluster with an upstream HTTP filter, the bridge role: what the
// limiter sends becomes the body of a request that goes through the filter, and
// what comes back the body of its response, both in gRPC's frames. As in Envoy
// the filter runs inside the limiter's host call, so it needs a Host of its own.
type Bridge struct {
	Plugin *Plugin // in the role of the bridge
	Next   Cluster // what the filter's output goes to
	// Connecting keeps what is sent until the far end says Connected, and then the
	// filter gets it in one piece.
	Connecting bool
	// Streams are those that were opened, in order.
	Streams []*Stream
}

// Open implements Cluster.
func (b *Bridge) Open(near NearEnd) Peer {
	s := &bridged{near: near, stream: b.Plugin.NewStream(), waiting: b.Connecting}
	s.stream.Unlogged = true
	b.Streams = append(b.Streams, s.stream)
	s.stream.RequestHeaders(Request("POST", "/sluice.Redis/Stream", "content-type", "application/grpc", "te", "trailers"),
		false)
	s.next = b.Next.Open(s)
	return s
}

// bridged is one stream through the filter: the peer of the limiter, and the
// near end of what is behind the filter.
type bridged struct {
	near    NearEnd
	stream  *Stream
	next    Peer
	waiting bool
	unsent  []byte // frames that wait for the connection
	partial []byte // of a frame that has not come whole
}

// frameHeader: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md#requests
const frameHeader = 5

// Send implements Peer.
func (s *bridged) Send(message []byte) {
	frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	s.unsent = append(append(s.unsent, frame...), message...)
	if !s.waiting {
		s.flush()
	}
}

func (s *bridged) flush() {
	s.stream.RequestBody(s.unsent, false)
	s.unsent = nil
	if b := s.stream.Upstream.TakeBody(); len(b) > 0 {
		s.next.Send(b)
	}
}

// Cancel implements Peer.
func (s *bridged) Cancel() {
	s.stream.End()
	s.next.Cancel()
}

// Connected implements NearEnd.
func (s *bridged) Connected() {
	s.stream.ResponseHeaders(Response("200"), false)
	s.near.Connected()
	if s.waiting = false; len(s.unsent) > 0 {
		s.flush()
	}
}

// Receive implements NearEnd.
func (s *bridged) Receive(message []byte) {
	s.stream.ResponseBody(message, false)
	s.partial = append(s.partial, s.stream.Downstream.TakeBody()...)
	for len(s.partial) >= frameHeader {
		size := uint64(binary.BigEndian.Uint32(s.partial[1:]))
		if uint64(len(s.partial)-frameHeader) < size {
			return
		}
		end := frameHeader + int(size)
		s.near.Receive(s.partial[frameHeader:end:end])
		s.partial = s.partial[end:]
	}
}

// Close implements NearEnd.
func (s *bridged) Close(status uint32) {
	if status == GRPCUnknown {
		s.stream.ResponseBody(nil, true)
	}
	s.stream.End()
	s.near.Close(status)
}
