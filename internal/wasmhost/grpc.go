package wasmhost

// A Cluster is the far side that proxy_grpc_stream finds under the name of an Envoy cluster.
type Cluster interface {
	// Open makes the far end of a stream. It is called inside proxy_grpc_stream,
	// so a near.Close here is one that Envoy does there, too, when no connection
	// can be made: the result is then ignored.
	Open(near NearEnd) Peer
}

// A Peer is the far end of a gRPC stream: what the guest does to it. It is
// called inside the host call.
type Peer interface {
	// Send is proxy_grpc_send. The peer may keep the message.
	Send(message []byte)
	// Cancel is proxy_grpc_cancel, or the end of the plugin context or VM.
	Cancel()
}

// NearEnd is the guest's end of a gRPC stream: what the far end does to it.
type NearEnd interface {
	// Connected is the arrival of the response's headers, of which the guest does not hear.
	Connected()
	// Receive is the arrival of one message. Envoy delivers messages from its
	// event loop only, so inside a host call it takes effect with the next Drain
	// of the host.
	Receive(message []byte)
	// Close ends the stream with a gRPC status. Inside a host call the guest hears
	// of it when its callback has returned.
	Close(status uint32)
}

// gRPC statuses that Envoy closes streams with.
const (
	GRPCUnknown     uint32 = 2  // the far end closed the connection in good order
	GRPCInternal    uint32 = 13 // the connection was lost
	GRPCUnavailable uint32 = 14 // no connection could be made
)

// The two low bits of a token say what it is of.
const (
	grpcStreamToken = 2
	tokenStep       = 4
)

// A grpcStream is the near end.
type grpcStream struct {
	plugin *Plugin
	token  uint32
	peer   Peer

	closed  bool // by the far end
	told    bool // proxy_on_grpc_close has been called
	telling bool // proxy_on_grpc_close runs
	gone    bool // the guest gave it up, or never got it
}

func (g *grpcStream) host() *Host { return g.plugin.host }

// inGuest says that a callback of the guest is running, so that this is a host
// call of it.
func (g *grpcStream) inGuest() bool { return g.host().current != nil }

// Post has f run by the next Drain of the host.
func (g *grpcStream) Post(f func()) { g.host().events = append(g.host().events, f) }

// Connected implements NearEnd.
func (g *grpcStream) Connected() {}

// Receive implements NearEnd. Messages go through the queue of events, so that
// none overtakes another.
func (g *grpcStream) Receive(message []byte) {
	g.Post(func() { g.deliver(message) })
	if !g.inGuest() {
		g.host().Drain()
	}
}

func (g *grpcStream) deliver(message []byte) {
	const callback = "proxy_on_grpc_receive"
	p := g.plugin
	if g.gone || g.closed || !p.host.guest.Exports(callback) {
		return
	}
	p.message = &message
	p.host.later(func() { p.message = nil })
	p.host.call(p.vmContext, callback, p.id, g.token, uint32(len(message)))
}

// Close implements NearEnd.
func (g *grpcStream) Close(status uint32) {
	if g.gone || g.closed {
		return
	}
	g.closed = true
	g.tellClosed(status)
}

// tellClosed is Envoy's onGrpcCloseWrapper: within a callback it puts itself off until that has
// returned.
func (g *grpcStream) tellClosed(status uint32) {
	if g.inGuest() {
		g.host().later(func() { g.tellClosed(status) })
		return
	}
	g.told, g.telling = true, true
	g.host().call(g.plugin.vmContext, "proxy_on_grpc_close", g.plugin.id, g.token, status)
	g.telling = false
}

// forget is the end of the token.
func (g *grpcStream) forget() {
	g.gone = true
	delete(g.plugin.grpc, g.token)
}

// cancelStreams resets what the plugin has left open.
func (p *Plugin) cancelStreams() {
	for _, g := range p.grpc {
		if !g.closed {
			g.peer.Cancel()
		}
		g.forget()
	}
}
