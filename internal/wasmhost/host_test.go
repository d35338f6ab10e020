package wasmhost

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"
)

func TestTrap(t *testing.T) {
	t.Parallel()
	h, err := New(Options{Wasm: guest(t, "custommalloc")})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	p := startPlugin(t, h, "/a request_headers\n panic oops\n")
	s := tell(p, "/a")
	if h.Err() == nil || !strings.Contains(h.Err().Error(), "proxy_on_request_headers") {
		t.Fatalf("got %v, want the trap and where it was", h.Err())
	}
	if s.Upstream.Headers != nil {
		t.Error("the request went on")
	}
	h.Logs = nil
	tell(p, "/b")
	if len(h.Logs) != 0 {
		t.Errorf("the guest was called after a trap: %v", h.Logs)
	}
}

func TestNoPlugin(t *testing.T) {
	t.Parallel()
	empty := []byte("\x00asm\x01\x00\x00\x00")
	for _, code := range [][]byte{nil, []byte("no wasm"), empty} {
		if h, err := New(Options{Wasm: code}); err == nil {
			h.Close()
			t.Errorf("%q was taken for a plugin", code)
		}
	}
}

func TestRefusedConfiguration(t *testing.T) {
	t.Parallel()
	h := Start(t, Options{Wasm: guest(t, "custommalloc")})
	if _, err := h.StartPlugin("plugin configure\n return 1\n"); !errors.Is(err, ErrRefused) {
		t.Errorf("got %v, want %v", err, ErrRefused)
	}
}

func TestHostCallsAreRefusedDuringInitialization(t *testing.T) {
	t.Parallel()
	_, err := New(Options{Wasm: guest(t, "custommalloc"), Env: map[string]string{"INITCALL": "1"}})
	if want := "proxy_set_tick_period_milliseconds: not allowed"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// Envoy allocates with an exported malloc, and TinyGo never frees that.
func TestAllocatorIsEnvoys(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 10_000)
	for _, tc := range []struct {
		tags, allocator string
		leaks           bool
	}{
		{"", "malloc", true},
		{"custommalloc", "proxy_on_memory_allocate", false},
	} {
		h := Start(t, Options{Wasm: guest(t, tc.tags)})
		p := startPlugin(t, h, "/a request_headers\n get 0 large\n")
		if h.Allocator() != tc.allocator {
			t.Errorf("tags %q: memory comes from %s, want %s", tc.tags, h.Allocator(), tc.allocator)
		}
		grown := func() uint32 {
			before := h.MemoryPages()
			for range 500 {
				s := p.NewStream()
				s.RequestHeaders(Request("GET", "/a", "large", large), true)
				s.End()
			}
			h.Logs = nil
			return h.MemoryPages() - before
		}
		grown() // as much as the garbage collector wants
		if pages := grown(); (pages > 0) != tc.leaks {
			t.Errorf("tags %q: grown by %d pages", tc.tags, pages)
		}
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 123_456_789)
	h, p := startGuest(t, Options{
		Env: map[string]string{"NAME": "value"},
		Now: func() time.Time { return now },
	}, `
		/a request_headers
		env NAME
		time
		print printed`)
	now = now.Add(time.Hour)
	h.Logs = nil
	tell(p, "/a")
	expectLog(t, h, `
		/a request_headers 1
		env NAME = 0 value
		time = 0 0
		printed
		print printed = 0`)
}

func TestCallsAreCounted(t *testing.T) {
	t.Parallel()
	h, p := startGuest(t, Options{}, "/a request_headers\n prop x\n prop y\n set 0 a b\n")
	clear(h.Calls)
	tell(p, "/a")
	want := map[string]int{
		"proxy_log": 4, "proxy_get_property": 2, "proxy_replace_header_map_value": 1,
		"proxy_get_header_map_value": 1,
	}
	if !maps.Equal(h.Calls, want) {
		t.Errorf("got %v, want %v", h.Calls, want)
	}
}

func TestProperties(t *testing.T) {
	t.Parallel()
	h, p := startGuest(t, Options{Properties: Properties{"node.id": []byte("host"), "mine": []byte("host")}}, `
		/a request_headers
		prop node.id
		prop source.address
		prop mine
		setprop mine guest
		prop mine
		setprop own guest
		prop own
		enter plugin
		prop node.id
		prop own`)
	h.Logs = nil
	s := p.NewStream()
	s.Properties["source\x00address"] = []byte("192.0.2.1:80")
	s.Properties["mine"] = []byte("stream")
	s.RequestHeaders(Request("GET", "/a"), true)
	expectLog(t, h, `
		/a request_headers 1
		prop node.id = 0 host
		prop source.address = 0 192.0.2.1:80
		prop mine = 0 stream
		setprop mine guest = 0
		prop mine = 0 stream
		setprop own guest = 0
		prop own = 0 guest
		enter plugin = 0
		prop node.id = 0 host
		prop own = 1`)
	if got := string(s.FilterState["wasm.own"]); got != "guest" {
		t.Errorf("filter state %q", s.FilterState)
	}
}

func TestTicks(t *testing.T) {
	t.Parallel()
	h, p := startGuest(t, Options{}, "/on request_headers\n tick 250\n/off request_headers\n tick 0\n")
	if got := p.TickPeriod(); got != 0 {
		t.Errorf("at first: %v", got)
	}
	tell(p, "/on")
	if got := p.TickPeriod(); got != 250*time.Millisecond {
		t.Errorf("asked for 250 ms, got %v", got)
	}
	tell(p, "/off")
	if got := p.TickPeriod(); got != 0 {
		t.Errorf("in the end: %v", got)
	}
	h.Logs = nil
	p.Tick()
	expectLog(t, h, "plugin tick")
}
