package wasmhost

import "testing"

// A request that is paused, asks a Redis in memory and goes on when that has
// answered.
func BenchmarkRequest(b *testing.B) {
	redis := &Memory{}
	h, p := startGuest(b, Options{Clusters: map[string]Cluster{"redis": redis}}, `
		/open request_headers
		open redis
		/a request_headers
		send *1
		return 1
		plugin grpc_receive
		buf 5 0 100
		enter /a
		continue 0`)
	tell(p, "/open").End()
	headers := Request("GET", "/a")
	b.ReportAllocs()
	for b.Loop() {
		s := p.NewStream()
		s.RequestHeaders(headers, true)
		redis.Last().Take()
		redis.Last().Reply(":1")
		if s.RequestPaused() {
			b.Fatal("still paused: ", h.Err())
		}
		s.End()
		h.Logs = h.Logs[:0]
	}
}

// The way into the guest and back.
func BenchmarkTick(b *testing.B) {
	h, p := startGuest(b, Options{}, "")
	b.ReportAllocs()
	for b.Loop() {
		p.Tick()
		h.Logs = h.Logs[:0]
	}
}

func BenchmarkNew(b *testing.B) {
	code := guest(b, "custommalloc")
	b.ReportAllocs()
	for b.Loop() {
		h, err := New(Options{Wasm: code})
		if err != nil {
			b.Fatal(err)
		}
		h.Close()
	}
}
