package wasmhost

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

const grpcScript = `
	/open request_headers
	open redis
	send hello
	/send request_headers
	send more
	/cancel request_headers
	gcancel
	plugin grpc_receive
	buf 5 0 100`

func TestMemoryByHand(t *testing.T) {
	t.Parallel()
	redis := &Memory{}
	h, p := startGuest(t, Options{Clusters: map[string]Cluster{"redis": redis}}, grpcScript)
	tell(p, "/open")
	tell(p, "/send")
	c := redis.Last()
	if got := string(bytes.Join(c.Sent, []byte{'|'})); got != "hello|more" {
		t.Errorf("sent %q", got)
	}
	testenv.Same(t, "what is taken first", string(c.Take()), "hellomore")
	testenv.Same(t, "what is taken then", string(c.Take()), "")
	h.Logs = nil
	c.Reply("one")
	c.Reply("two")
	c.Close(GRPCInternal)
	c.Reply("late")
	expectLog(t, h, `
		plugin grpc_receive 6 3
		buf 5 0 100 = 0 one
		plugin grpc_receive 6 3
		buf 5 0 100 = 0 two
		plugin grpc_close 6 13`)
	if c.Open() {
		t.Error("still open")
	}
}

// What a peer does inside a host call reaches the guest when Envoy would let it:
// messages with the next event, the close when the callback has returned.
func TestPeerInsideHostCall(t *testing.T) {
	t.Parallel()
	redis := &Memory{OnSend: func(c *Conn, message []byte) {
		c.Reply("reply to " + string(message))
		if string(message) == "more" {
			c.Close(GRPCInternal)
		}
	}}
	h, p := startGuest(t, Options{Clusters: map[string]Cluster{"redis": redis}}, grpcScript)
	h.Logs = nil
	tell(p, "/open")
	expectLog(t, h, `
		/open request_headers 1
		open redis = 0 6
		send hello = 0`)
	h.Drain()
	expectLog(t, h, `
		plugin grpc_receive 6 14
		buf 5 0 100 = 0 reply to hello`)
	tell(p, "/send")
	h.Drain() // the reply was lost with the connection
	expectLog(t, h, `
		/send request_headers 1
		send more = 0
		plugin grpc_close 6 13`)
}

// A stream that is refused inside the call has no token, and is closed.
func TestRefusedStream(t *testing.T) {
	t.Parallel()
	redis := &Memory{Refuse: GRPCUnavailable}
	h, p := startGuest(t, Options{Clusters: map[string]Cluster{"redis": redis}}, grpcScript)
	h.Logs = nil
	tell(p, "/open")
	expectLog(t, h, `
		/open request_headers 1
		open redis = 10 no token
		send hello = 2
		plugin grpc_close 6 14`)
	if redis.Last() != nil {
		t.Error("there is a stream")
	}
}

func TestCancelByTheGuest(t *testing.T) {
	t.Parallel()
	redis := &Memory{}
	h, p := startGuest(t, Options{Clusters: map[string]Cluster{"redis": redis}}, grpcScript)
	tell(p, "/open")
	tell(p, "/cancel")
	h.Logs = nil
	c := redis.Last()
	c.Close(GRPCInternal)
	tell(p, "/send")
	expectLog(t, h, `
		/send request_headers 1
		send more = 1`)
	testenv.Same(t, "what was sent before", string(c.Take()), "hello")
	testenv.Same(t, "that the stream was cancelled", c.Cancelled, true)
}

func TestHostCloseCancels(t *testing.T) {
	t.Parallel()
	redis := &Memory{}
	h, err := New(Options{Wasm: guest(t, "custommalloc"), Clusters: map[string]Cluster{"redis": redis}})
	if err != nil {
		t.Fatal(err)
	}
	tell(startPlugin(t, h, grpcScript), "/open")
	if err := h.Close(); err != nil || !redis.Last().Cancelled {
		t.Errorf("%v, %+v", err, redis.Last())
	}
}

// Inside proxy_on_grpc_close the guest may drop the token, as Envoy's table
// wants; afterwards it must not touch it.
func TestUseAfterClose(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ inClose, after, want string }{
		{"gcancel", "gcancel", ""},
		{"gcancel", "send x", ""},
		{"time", "send x", "proxy_grpc_send(6)"},
		{"time", "gcancel", "proxy_grpc_cancel(6)"},
		{"send x", "time", "proxy_grpc_send(6)"},
	} {
		redis := &Memory{}
		h, err := New(Options{Wasm: guest(t, "custommalloc"), Clusters: map[string]Cluster{"redis": redis}})
		if err != nil {
			t.Fatal(err)
		}
		p := startPlugin(t, h, "/open request_headers\n open redis\nplugin grpc_close\n "+tc.inClose+
			"\n/after request_headers\n "+tc.after)
		tell(p, "/open")
		redis.Last().Close(GRPCInternal)
		tell(p, "/after")
		got := ""
		if err := h.Err(); err != nil {
			got = err.Error()
		}
		testenv.Same(t, tc.inClose+", then "+tc.after+": that the plugin died", got != "", tc.want != "")
		if !strings.Contains(got, tc.want) {
			t.Errorf("%s, then %s: %s, want %s", tc.inClose, tc.after, got, tc.want)
		}
		h.Close()
	}
}
