package wasmhost

import (
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// bridgeScript takes the frame's head off what goes to Redis, if it is one frame
// only, and puts one before what comes back.
const bridgeScript = `
	/sluice.Redis/Stream request_body
	setbuf 0 0 5 _
	/sluice.Redis/Stream response_body
	setbuf 1 0 0 \0\0\0\0\4`

func startBridge(t *testing.T, redis Cluster, script string) (*Bridge, *Host, *Plugin) {
	t.Helper()
	_, filter := startGuest(t, Options{VMID: "bridge"}, script)
	b := &Bridge{Plugin: filter, Next: redis}
	h, p := startGuest(t, Options{VMID: "limiter", Clusters: map[string]Cluster{"redis": b}}, grpcScript)
	return b, h, p
}

func TestBridge(t *testing.T) {
	t.Parallel()
	redis := &Memory{}
	b, h, p := startBridge(t, redis, bridgeScript)
	tell(p, "/open")
	if got := string(redis.Last().Take()); got != "hello" {
		t.Errorf("Redis got %q", got)
	}
	h.Logs = nil
	redis.Last().near.Connected()
	redis.Last().Reply("pong")
	expectLog(t, h, `
		plugin grpc_receive 6 4
		buf 5 0 100 = 0 pong`)
	b.Plugin.host.Logs = nil
	redis.Last().Close(GRPCUnknown)
	expectLog(t, h, `plugin grpc_close 6 2`)
	expectLog(t, b.Plugin.host, `
		/sluice.Redis/Stream response_body 0 1
		setbuf 1 0 0 \0\0\0\0\4 = 0
		/sluice.Redis/Stream done
		/sluice.Redis/Stream delete`)
}

// While there is no connection the filter gets nothing, then all at once.
func TestBridgeConnecting(t *testing.T) {
	t.Parallel()
	redis := &Memory{}
	b, _, p := startBridge(t, redis, bridgeScript)
	b.Connecting = true
	tell(p, "/open")
	tell(p, "/send")
	if sent := redis.Last().Sent; sent != nil {
		t.Fatalf("sent %q before there was a connection", sent)
	}
	b.Plugin.host.Logs = nil
	redis.Last().near.Connected()
	expectLog(t, b.Plugin.host, `
		/sluice.Redis/Stream response_headers 0
		/sluice.Redis/Stream request_body 19 0
		setbuf 0 0 5 _ = 0`)
	if got, want := string(redis.Last().Take()), "hello\x00\x00\x00\x00\x04more"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A frame may come in several pieces, and several in one.
func TestBridgeFrames(t *testing.T) {
	t.Parallel()
	redis := &Memory{}
	b, h, p := startBridge(t, redis, "") // it changes nothing
	tell(p, "/open")
	h.Logs = nil
	for _, piece := range []string{"\x00\x00\x00\x00", "\x03on", "e\x00\x00\x00\x00\x03two\x00\x00\x00\x00\x00\x00"} {
		redis.Last().Reply(piece)
	}
	expectLog(t, h, `
		plugin grpc_receive 6 3
		buf 5 0 100 = 0 one
		plugin grpc_receive 6 3
		buf 5 0 100 = 0 two
		plugin grpc_receive 6 0
		buf 5 0 100 = 0`)
	tell(p, "/cancel")
	testenv.Same(t, "that the far end was cancelled", redis.Last().Cancelled, true)
	testenv.Same(t, "number of streams", len(b.Streams), 1)
	testenv.Same(t, "number of live streams", b.Plugin.streams, 0)
}
