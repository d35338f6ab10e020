package wasmhost

import (
	"errors"
	"maps"
	"slices"
	"testing"
)

// A nativeGuest is callbacks by name.
type nativeGuest struct {
	callbacks map[string]func(id uint32, args []uint32) (uint32, error)
	called    []string
}

func (g *nativeGuest) Exports(callback string) bool { return g.callbacks[callback] != nil }

func (g *nativeGuest) Call(callback string, args ...uint32) (uint32, error) {
	g.called = append(g.called, callback)
	return g.callbacks[callback](args[0], args[1:])
}

func (g *nativeGuest) Close() error { return nil }

// A native guest pauses a request, asks a Redis in memory, and lets it go on when
// that has answered.
func TestNativeGuest(t *testing.T) {
	t.Parallel()
	var h *Host
	var paused, token uint32
	var received string
	guest := &nativeGuest{callbacks: map[string]func(uint32, []uint32) (uint32, error){
		"proxy_on_configure": func(uint32, []uint32) (uint32, error) {
			config, _ := h.Begin("proxy_get_buffer_bytes", 0).GetBuffer(PluginConfiguration, 0, 100)
			token, _ = h.Begin("proxy_grpc_stream", 0).OpenGRPC(string(config))
			return 1, nil
		},
		"proxy_on_request_headers": func(id uint32, _ []uint32) (uint32, error) {
			paused = id
			path, _ := h.Begin("proxy_get_header_map_value", 0).GetHeader(RequestHeaders, ":path")
			h.Begin("proxy_grpc_send", 0).SendGRPC(token, []byte(path))
			return uint32(Pause), nil
		},
		"proxy_on_grpc_receive": func(_ uint32, args []uint32) (uint32, error) {
			b, _ := h.Begin("proxy_get_buffer_bytes", 0).GetBuffer(GRPCMessage, 0, args[1])
			received = string(b)
			h.Begin("proxy_continue_stream", paused).ContinueRequest()
			return 0, nil
		},
	}}
	redis := &Memory{}
	h = Start(t, Options{
		Native:   func(*Host) Guest { return guest },
		Clusters: map[string]Cluster{"redis": redis},
	})
	s := startPlugin(t, h, "redis").NewStream()
	if got := s.RequestHeaders(Request("GET", "/a"), true); got != Pause {
		t.Errorf("action %d, want a pause", got)
	}
	if got := string(redis.Last().Take()); got != "/a" {
		t.Errorf("Redis got %q", got)
	}
	redis.Last().Reply(":1")
	if s.Upstream.Headers == nil {
		t.Error("the request has not gone on")
	}
	if received != ":1" {
		t.Errorf("received %q", received)
	}
	wantCalled := []string{"proxy_on_configure", "proxy_on_request_headers", "proxy_on_grpc_receive"}
	if !slices.Equal(guest.called, wantCalled) {
		t.Errorf("callbacks %q, want %q", guest.called, wantCalled)
	}
	wantCalls := map[string]int{
		"proxy_get_buffer_bytes": 2, "proxy_grpc_stream": 1, "proxy_get_header_map_value": 1,
		"proxy_grpc_send": 1, "proxy_continue_stream": 1,
	}
	if !maps.Equal(h.Calls, wantCalls) {
		t.Errorf("host calls %v, want %v", h.Calls, wantCalls)
	}
}

// What a native guest returns as an error is a trap.
func TestNativeTrap(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	guest := &nativeGuest{callbacks: map[string]func(uint32, []uint32) (uint32, error){
		"proxy_on_tick": func(uint32, []uint32) (uint32, error) { return 0, broken },
	}}
	h, err := New(Options{Native: func(*Host) Guest { return guest }})
	if err != nil {
		t.Fatal(err)
	}
	p := startPlugin(t, h, "")
	p.Tick()
	p.Tick()
	if !errors.Is(h.Err(), broken) {
		t.Errorf("failed with %v, want %v", h.Err(), broken)
	}
	if len(guest.called) != 1 {
		t.Errorf("called %d times, want no call after a trap", len(guest.called))
	}
}

// A guest that acts on a stream that has ended is noticed.
func TestStrays(t *testing.T) {
	t.Parallel()
	h := Start(t, Options{Native: func(*Host) Guest { return &nativeGuest{} }})
	p := startPlugin(t, h, "")
	s := p.NewStream()
	s.RequestHeaders(Request("GET", "/"), true)
	id := s.context.id
	h.Begin("proxy_set_property", id).SetProperty("a", []byte("before"))
	if h.Strays != 0 {
		t.Errorf("%d strays, want none while the stream lives", h.Strays)
	}
	s.End()
	h.Begin("proxy_set_property", id).SetProperty("a", []byte("after"))
	h.Begin("proxy_set_effective_context", p.id).SetEffectiveContext(id)
	if h.Strays != 2 {
		t.Errorf("%d strays, want 2", h.Strays)
	}
	if got := string(s.FilterState["wasm.a"]); got != "before" {
		t.Errorf("filter state %q, want what was set before the end", got)
	}
}
