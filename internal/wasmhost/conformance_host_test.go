package wasmhost

// A conformanceStream is a stream in the Host, with the upstream and the client that realEnvoy has.
type conformanceStream struct {
	*Stream
	answered bool
}

// proceed is the upstream and the client: they answer and end what went on.
func (s *conformanceStream) proceed() {
	if path, _ := s.Upstream.Headers.Get(":path"); path == "/redirect" {
		s.Stream = s.Redirect(302, Request("GET", "/redirected"), true)
	}
	if over := s.answered || s.Local != nil; s.Upstream.Ended && !over {
		s.answered = true
		s.ResponseHeaders(Response("200"), false)
		s.ResponseBody([]byte("hello"), false)
		s.ResponseBody(nil, true)
	}
	if s.Downstream.Ended || s.Reset {
		s.End()
	}
}

// refusing closes each stream when the host call that has opened it is over.
type refusing struct{ Memory }

func (r refusing) Open(near NearEnd) Peer {
	near.(*grpcStream).Post(func() { near.Close(GRPCUnavailable) })
	return r.Memory.Open(near)
}

// echo sends back what it reads, and ends the connection after "bye".
func echo(c *Conn, message []byte) {
	switch string(message) {
	case "ping":
		c.Reply("pong")
		c.Reply("a")
	case "bye":
		c.near.(*grpcStream).Post(func() { c.Close(GRPCUnknown) })
	}
}
