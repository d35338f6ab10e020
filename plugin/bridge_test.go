package main

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/bridge"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

// frame is a gRPC message with its header.
func frame(message string) []byte {
	b := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	return append(b, message...)
}

// bridgeStream is a stream to Redis. The bridge takes any configuration, or none.
func bridgeStream(t *testing.T) (w *worker, x *exchange) {
	t.Helper()
	w = newWorker(t, func(_ *worker, options *wasmhost.Options) { options.Wasm = bridge.Wasm })
	return w, w.load(`{"role": "bridge"}`).open(wasmhost.Request("POST", "/sluice.Redis/Stream", "content-type",
		"application/grpc"))
}

// However the message headers are cut up and merged, what goes to Redis is the
// messages without them.
func TestBridgeStripsFrames(t *testing.T) {
	t.Parallel()
	ping, get := "*1\r\n$4\r\nPING\r\n", "*2\r\n$3\r\nGET\r\n$3\r\nabc\r\n"
	long := strings.Repeat("x", 70_000)
	one := frame(ping)
	two := slices.Concat(frame(ping), frame(get))
	for _, test := range []struct {
		name   string
		pieces [][]byte
		want   string
	}{
		{name: "one message", pieces: [][]byte{one}, want: ping},
		{name: "one after the other", pieces: [][]byte{one, frame(get)}, want: ping + get},
		{name: "two in one piece", pieces: [][]byte{two}, want: ping + get},
		{name: "a long one", pieces: [][]byte{frame(long)}, want: long},
		{
			name: "an empty one between two", pieces: [][]byte{slices.Concat(frame(ping), frame(""), frame(get))},
			want: ping + get,
		},
		{name: "cut within the first header", pieces: [][]byte{one[:3], one[3:]}, want: ping},
		{name: "cut behind the header", pieces: [][]byte{one[:5], one[5:]}, want: ping},
		{name: "cut within the content", pieces: [][]byte{one[:9], one[9:]}, want: ping},
		{name: "cut within the second header", pieces: [][]byte{two[:len(one)+2], two[len(one)+2:]}, want: ping + get},
		{name: "a long one in pieces", pieces: slices.Collect(slices.Chunk(frame(long), 16_384)), want: long},
		{
			name:   "the end of one, two whole ones and the beginning of another",
			pieces: [][]byte{two[:9], slices.Concat(two[9:], two, one[:7]), one[7:]},
			want:   ping + get + ping + get + ping,
		},
		{name: "a content that looks like a message", pieces: [][]byte{frame(string(one))[:5], one}, want: string(one)},
		{name: "byte by byte", pieces: slices.Collect(slices.Chunk(two, 1)), want: ping + get},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, x := bridgeStream(t)
			defer x.End()
			for _, piece := range test.pieces {
				if x.RequestBody(piece, false) != wasmhost.Continue {
					t.Error("held a piece back")
				}
			}
			if got := x.Upstream.Body; string(got) != test.want {
				t.Errorf("went to Redis: %.80q, want %.80q", got, test.want)
			}
		})
	}
}

// Whatever length a peer states, what it sends goes on at once, and no byte is kept.
func TestBridgeKeepsNothing(t *testing.T) {
	t.Parallel()
	for _, stated := range []uint32{1 << 20, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
		_, x := bridgeStream(t)
		defer x.End()
		x.RequestBody(binary.BigEndian.AppendUint32([]byte{0}, stated), false)
		want := 0
		for range 40 {
			piece := bytes.Repeat([]byte{1}, 16_384)
			if x.RequestBody(piece, false) != wasmhost.Continue {
				t.Errorf("stated %d: held a piece back", stated)
			}
			if want += len(piece); len(x.Upstream.Body) != want {
				t.Fatalf("stated %d: %d bytes went on, want %d", stated, len(x.Upstream.Body), want)
			}
		}
	}
}

// grpcUnimplemented answers a message in a compression that the server does not know
// (https://github.com/grpc/grpc/blob/master/doc/compression.md).
const grpcUnimplemented = 12

// A compressed message ends the stream: Redis would read noise.
func TestBridgeRefusesCompression(t *testing.T) {
	t.Parallel()
	compressed := []byte{1, 0, 0, 0, 4, 'P', 'I', 'N', 'G'}
	for _, test := range []struct {
		name   string
		pieces [][]byte
		want   string // what went to Redis before
	}{
		{name: "the first message", pieces: [][]byte{compressed}},
		{name: "a flag alone", pieces: [][]byte{compressed[:1]}},
		{name: "any other flag", pieces: [][]byte{{0xff, 0, 0, 0, 0}}},
		{name: "a later message", pieces: [][]byte{frame("+OK\r\n"), compressed}, want: "+OK\r\n"},
		{name: "behind another in one piece", pieces: [][]byte{slices.Concat(frame("+OK\r\n"), compressed)}},
	} {
		_, x := bridgeStream(t)
		defer x.End()
		var last wasmhost.Action
		for _, piece := range test.pieces {
			last = x.RequestBody(piece, false)
		}
		if last != wasmhost.Pause {
			t.Errorf("%s: the message went on", test.name)
		}
		if x.Local == nil {
			t.Fatalf("%s: the stream goes on", test.name)
		}
		if x.Local.GRPCStatus != grpcUnimplemented {
			t.Errorf("%s: grpc-status %d, want %d", test.name, x.Local.GRPCStatus, grpcUnimplemented)
		}
		if got := string(x.Upstream.Body); got != test.want {
			t.Errorf("%s: went to Redis: %q, want %q", test.name, got, test.want)
		}
	}
}

// What comes from Redis goes on with a message header in front of each piece, and
// more than one if it is long.
func TestBridgeFramesReplies(t *testing.T) {
	t.Parallel()
	_, x := bridgeStream(t)
	defer x.End()
	x.ResponseHeaders(wasmhost.Response("200"), false)
	var want []byte
	long := strings.Repeat("y", 70_000)
	for _, reply := range []string{
		"+OK\r\n", "*2\r\n:1", "\r\n:2\r\n$0\r\n\r\n", long[:bridge.MaxMessageBytes],
		long[:bridge.MaxMessageBytes+1], long,
	} {
		x.ResponseBody([]byte(reply), false)
		for piece := range slices.Chunk([]byte(reply), bridge.MaxMessageBytes) {
			want = append(want, frame(string(piece))...)
		}
	}
	if got := x.Downstream.Body; !bytes.Equal(got, want) {
		t.Errorf("%.80q, want %.80q", got, want)
	}
}

// The usual case, one whole message, costs two host calls and no copy.
func TestBridgeHostCalls(t *testing.T) {
	t.Parallel()
	w, x := bridgeStream(t)
	defer x.End()
	x.ResponseHeaders(wasmhost.Response("200"), false)
	w.expectCalls("a request", func() { x.RequestBody(frame("*1\r\n$4\r\nPING\r\n"), false) },
		map[string]int{"proxy_get_buffer_bytes": 1, "proxy_set_buffer_bytes": 1})
	w.expectCalls("a reply", func() { x.ResponseBody([]byte("+PONG\r\n"), false) },
		map[string]int{"proxy_set_buffer_bytes": 1})
}

// The whole way: a limiter in one VM, the bridge in another, and Redis.
func TestLimiterThroughBridge(t *testing.T) {
	t.Parallel()
	for _, connecting := range []bool{false, true} {
		t.Run(map[bool]string{false: "connected", true: "messages merged while connecting"}[connecting], func(t *testing.T) {
			t.Parallel()
			upstream := wasmhost.Start(t, wasmhost.Options{Wasm: bridge.Wasm, VMID: "bridge"})
			filter, err := upstream.StartPlugin("")
			if err != nil {
				t.Fatal(err, upstream.Logs)
			}
			w := newWorker(t, wasm)
			r := w.startRedis()
			w.connect(&wasmhost.Bridge{Plugin: filter, Next: r, Connecting: connecting})
			i := w.load(withRedis(perClient("a", 2) + "," + perClient("b", 9)))
			var all []*exchange
			for range 3 {
				all = append(all, i.get("/", client("x")...))
			}
			if connecting {
				if n := r.writes; n != 0 {
					t.Fatalf("%d writes before there was a connection", n)
				}
				r.Conns[0].Connected()
				if n := r.writes; n != 1 {
					t.Errorf("%d writes of what was sent while connecting, want 1", n)
				}
			}
			r.settle()
			for n, want := range []string{
				"200 allowed limit=2 remaining=1 reset=3600",
				"200 allowed limit=2 remaining=0 reset=3600",
				"429 limited:a limit=2 remaining=0 reset=3600 retry-after=3600",
			} {
				testenv.Same(t, "request "+string(rune('1'+n)), all[n].end(), want)
			}
		})
	}
}
