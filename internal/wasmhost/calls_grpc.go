package wasmhost

// OpenGRPC is proxy_grpc_stream to a cluster. Like all calls of gRPC it is for the
// plugin context, whatever context it is called in. If the far end closes the
// stream at once, the call fails and writes no token, and yet
// proxy_on_grpc_close comes, with a token the guest has not heard of.
func (c Caller) OpenGRPC(cluster string) (token uint32, status Status) {
	found := c.h.options.Clusters[cluster]
	if found == nil {
		return 0, StatusParseFailure // as Envoy has it
	}
	c.h.nextToken += tokenStep
	g := &grpcStream{plugin: c.plugin, token: c.h.nextToken | grpcStreamToken}
	c.plugin.grpc[g.token] = g
	g.peer = found.Open(g)
	if g.closed {
		g.forget()
		return 0, StatusInternalFailure
	}
	return g.token, StatusOK
}

// grpcStream is the one of a token.
func (c Caller) grpcStream(token uint32) (*grpcStream, Status) {
	if token%tokenStep != grpcStreamToken {
		return nil, StatusBadArgument
	}
	g := c.plugin.grpc[token]
	if g == nil {
		return nil, StatusNotFound
	}
	return g, StatusOK
}

// stale refuses what makes Envoy use memory that it has freed: its table keeps a
// stream that the far end has closed. Before the guest has heard of that, calls
// are harmless and do nothing.
func (g *grpcStream) stale(call string) bool {
	if g.told {
		g.host().fail("%s(%d) after the stream was closed: a use after free in Envoy", call, g.token)
	}
	return g.told
}

// SendGRPC is proxy_grpc_send, with more to follow.
func (c Caller) SendGRPC(token uint32, message []byte) Status {
	g, status := c.grpcStream(token)
	switch {
	case status != StatusOK:
		return status
	case g.stale("proxy_grpc_send"):
		return StatusInternalFailure
	case !g.closed:
		g.peer.Send(message)
	}
	return StatusOK
}

// CancelGRPC is proxy_grpc_cancel, which resets the stream. No callback follows,
// unless the far end has just closed it.
func (c Caller) CancelGRPC(token uint32) Status {
	g, status := c.grpcStream(token)
	switch {
	case status != StatusOK:
		return status
	case g.closed && (g.telling || !g.told):
	case g.stale("proxy_grpc_cancel"):
		return StatusInternalFailure
	default:
		g.peer.Cancel()
	}
	g.forget()
	return StatusOK
}
