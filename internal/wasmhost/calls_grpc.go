package wasmhost

import "slices"

// proxy_grpc_stream(cluster, service, method, metadata, token), like all calls
// of gRPC, is for the plugin context, whatever context it is called in. If the
// far end closes the stream at once, the call fails and writes no token, and yet
// proxy_on_grpc_close comes, with a token the guest has not heard of.
func grpcOpen(c *arguments) Status {
	name, ok1 := c.text(0)
	_, ok2 := c.text(2)
	_, ok3 := c.text(4)
	_, ok4 := c.bytes(6)
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return StatusInvalidMemoryAccess
	}
	cluster := c.h.options.Clusters[name]
	if cluster == nil {
		return StatusParseFailure // as Envoy has it
	}
	c.h.nextToken += tokenStep
	g := &grpcStream{plugin: c.plugin, token: c.h.nextToken | grpcStreamToken}
	c.plugin.grpc[g.token] = g
	g.peer = cluster.Open(g)
	if g.closed {
		g.forget()
		return StatusInternalFailure
	}
	return c.put(8, g.token)
}

// grpcStream is the one that argument 0 names. Some calls are for the streams of
// proxy_grpc_call, too, of which there are none.
func (c *arguments) grpcStream(kinds ...uint32) (*grpcStream, Status) {
	token := c.u32(0)
	if !slices.Contains(kinds, token&tokenKindMask) {
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

// proxy_grpc_send(token, message, end of stream)
func grpcSend(c *arguments) Status {
	message, ok := c.bytes(1)
	if !ok {
		return StatusInvalidMemoryAccess
	}
	g, status := c.grpcStream(grpcStreamToken)
	switch {
	case status != StatusOK:
		return status
	case g.stale("proxy_grpc_send"):
		return StatusInternalFailure
	case !g.closed && !g.localClosed:
		g.localClosed = c.u32(3) != 0
		g.peer.Send(message, g.localClosed)
	}
	return StatusOK
}

// proxy_grpc_close(token) ends the sending side. In proxy_on_grpc_close it
// removes the stream from Envoy's table.
func grpcClose(c *arguments) Status {
	g, status := c.grpcStream(grpcStreamToken, grpcCallToken)
	switch {
	case status != StatusOK:
		return status
	case g.closed && (g.telling || !g.told):
		g.forget()
	case g.stale("proxy_grpc_close"):
		return StatusInternalFailure
	case !g.localClosed:
		g.localClosed = true
		g.peer.CloseSend()
	}
	return StatusOK
}

// proxy_grpc_cancel(token) resets the stream. No callback follows, unless the
// far end has just closed it.
func grpcCancel(c *arguments) Status {
	g, status := c.grpcStream(grpcStreamToken, grpcCallToken)
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
