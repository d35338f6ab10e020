package main

import (
	"maps"
	"strings"
	"testing"
)

// expectCalls compares the host calls that f makes with those wanted. A call
// costs about as much as everything else that the plugin does between two, so
// one more for each request is a regression.
func (w *worker) expectCalls(what string, f func(), want map[string]int) {
	w.t.Helper()
	maps.DeleteFunc(want, func(_ string, n int) bool { return n == 0 })
	if got := w.callsOf(f); !maps.Equal(got, want) {
		w.t.Errorf("%s: calls %v, want %v", what, got, want)
	}
}

// What a request costs in host calls, for the simple cases. The timer runs
// already. The read of a header in its response finds none, which costs less than one that
// finds the status would.
func TestHostCallsOfARequest(t *testing.T) {
	t.Parallel()
	const (
		header    = "proxy_get_header_map_value"
		headers   = "proxy_get_header_map_pairs"
		context   = "proxy_set_effective_context"
		outcome   = "proxy_set_property"
		send      = "proxy_grpc_send"
		reply     = "proxy_get_buffer_bytes"
		resume    = "proxy_continue_stream"
		respond   = "proxy_send_local_response"
		setHeader = "proxy_replace_header_map_value"
	)
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(withRedis(`{"name": "health", "match": {"path": "/healthz"}, "exempt": true},` + perClient("a", 3)))
		warm := i.get("/", client("warm")...)
		r.settle()
		warm.end()

		var x *exchange
		open := func() { x = i.get("/", client("x")...) }
		settle := func() { r.settle() }
		end := func() { x.end() }
		contexts := 0 // a native host call names its context
		if strings.HasSuffix(t.Name(), "/wasm") {
			contexts = 1
		}
		health := func() { i.get("/healthz").end() }
		w.expectCalls("exempt", health, map[string]int{headers: 1, outcome: 1})
		health()
		w.expectCalls("exempt, as those before", health, map[string]int{header: 1, outcome: 1})
		for range 3 {
			i.get("/").end()
		}
		w.expectCalls("no rule applies", func() { i.get("/").end() }, map[string]int{headers: 1, outcome: 1})
		w.expectCalls("asked", open, map[string]int{headers: 1, context: contexts, send: 1})
		w.expectCalls("admitted", settle, map[string]int{reply: 1, context: contexts, outcome: 1, resume: 1})
		w.expectCalls("its response", end, map[string]int{header: 1, setHeader: 3})
		for range 2 {
			open()
			settle()
			end()
		}
		w.expectCalls("asked again", open, map[string]int{headers: 1, context: contexts, send: 1})
		w.expectCalls("rejected", settle, map[string]int{reply: 1, context: contexts, header: 1, outcome: 2, respond: 1})
		w.expectCalls("its response", end, map[string]int{})
		w.expectCalls("rejected from memory", open, map[string]int{header: 1, headers: 1, outcome: 2, respond: 1})

		i = w.load(withRedis(`{"name": "b", "key": [{"header": "x-client"}], "settle": {"status": ["401"]},
			"limits": [{"algorithm": "gcra", "limit": 3, "window": "1h"}]}`))
		open()
		settle()
		w.expectCalls("the response of one that settles", func() { x.respond("200") },
			map[string]int{header: 1, setHeader: 3})
	})
}
