package wasmhost

import (
	"testing"
)

// A conformanceHost does in a Host what realEnvoy does in Envoy.
type conformanceHost struct {
	*Host
	plugin  *Plugin
	streams []*conformanceStream
}

type conformanceStream struct {
	*Stream
	answered bool
}

// newConformanceHost starts as many VMs as Envoy did, which share data and
// metrics, and uses the last one.
func newConformanceHost(t *testing.T, starts int) *conformanceHost {
	options := Options{
		Wasm:  guest(t, "custommalloc"),
		Envoy: NewEnvoy(),
		Clusters: map[string]Cluster{
			"dead":    &Memory{Refuse: GRPCUnavailable},
			"refused": refusing{},
			"echo":    &Memory{OnSend: echo},
		},
	}
	c := &conformanceHost{}
	for range starts {
		c.Host = Start(t, options)
		c.plugin = startPlugin(t, c.Host, conformanceScript)
	}
	return c
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

func (c *conformanceHost) run(x exchange) {
	s := &conformanceStream{Stream: c.plugin.NewStream()}
	s.Properties["request.path"] = []byte(x.path)
	s.RequestHeaders(Request(x.method, x.path, x.headers...), x.body == "")
	if x.body != "" {
		s.RequestBody([]byte(x.body), false)
		s.RequestBody(nil, true)
	}
	c.streams = append(c.streams, s)
	c.Drain()
	for _, s := range c.streams {
		s.proceed()
	}
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
