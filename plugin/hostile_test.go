package main

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

// hostileValues are values that clients may put where rules look. Envoy itself refuses
// some of them; the plugin must not rely on that.
var hostileValues = map[string]string{
	"nothing":               "",
	"8 KB":                  strings.Repeat("k", 8<<10),
	"8 KB of escapes":       strings.Repeat("%7C", 2700),
	"NUL":                   "a\x00b",
	"no UTF-8":              "\xff\xfe\x80",
	"line ends":             "a\r\nx-evil: 1",
	"RESP":                  "\r\n$5\r\nEVALX\r\n",
	"key syntax":            "a|b}:{%7C",
	"control characters":    "\x01\a\b\t\v\f\x1b\x1f\x7f\x80\xa0",
	"broken escapes":        "%%%zz%f",
	"an open quote":         `"abc`,
	"an IPv6 zone":          "[fe80::1%25eth0]:80",
	"a huge number":         strings.Repeat("9", 400),
	"dots and slashes":      strings.Repeat("/.././/%2e%2E/", 500),
	"semicolons and equals": strings.Repeat(";=&?", 2000),
}

// Whatever a header holds, a request is decided, its identity is its own, and
// the next request is served as ever.
func TestHostileHeaders(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(withRedis(`{"name": "a", "cost": {"header": "x-cost", "default": 1, "max": 2},
				"key": [{"header": "x-id", "default": "none"}, {"cookie": "c", "default": "none"},
					{"query": "q", "default": "none"}, {"path": true}, {"host": true}],
				"limits": [{"algorithm": "fixed_window", "limit": 3, "window": "1h", "anchor": "first_request"}]},
			{"name": "b", "match": {"headers": {"x-id": {"regex": "^(a+)+$"}}}, "key": [{"header": "x-id", "hash": true}],
				"limits": [{"algorithm": "gcra", "limit": 3, "window": "1h"}]}`))
		for name, value := range hostileValues {
			for _, headers := range []wasmhost.Pairs{
				wasmhost.Request("GET", "/", "x-id", value),
				wasmhost.Request("GET", "/", "cookie", "c="+value),
				wasmhost.Request("GET", "/?q="+value),
				wasmhost.Request("GET", value),
				wasmhost.Request("GET", "/", "x-cost", value),
				wasmhost.Request(value, "/"),
				{{":method", "GET"}, {":authority", value}, {":path", "/"}},
				wasmhost.Request("GET", "/", "content-type", "application/grpc"+value),
			} {
				x := i.open(headers)
				r.settle()
				if x.waits() {
					t.Fatalf("%s: still waits: %.200q", name, headers)
				}
				x.End()
			}
		}
		x := i.get("/fine", "x-id", "fine")
		r.settle()
		testenv.Same(t, "afterwards", x.end(), "200 allowed limit=3 remaining=2 reset=3600")
	})
}

// Two different identities never share a limit, however they are written.
func TestIdentitiesAreApart(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(withRedis(`{"name": "a", "key": [{"header": "x-one", "default": ""}, {"header": "x-two", "default": ` +
			`""}], ` + once + `}`))
		values := maps.Clone(hostileValues)
		delete(values, "nothing") // is also the default
		for name, value := range values {
			for _, headers := range [][]string{{"x-one", value}, {"x-two", value}, {"x-one", value, "x-two", value}} {
				x := i.get("/", headers...)
				r.settle()
				if x.outcome() != "allowed" {
					t.Errorf("%s: the first request of %.100q was %s", name, headers, x.outcome())
				}
				x.End()
			}
		}
		if got, want := len(r.keys("")), 3*len(values); got != want {
			t.Errorf("%d keys in Redis, want %d", got, want)
		}
	})
}

// Any number of requests may come in one go: Redis decides each of them.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(`{"redis": {"cluster": "redis"}, "failure": {"mode": "deny", "max_pending": 500}, "rules": [` +
			perClient("a", 1) + `]}`)
		for _, round := range []struct {
			name             string
			clients          int
			allowed, limited int
		}{
			{name: "first", clients: 600, allowed: 600, limited: 0},
			{name: "second", clients: 600, allowed: 0, limited: 600},
			{name: "one new client among them", clients: 601, allowed: 1, limited: 600},
			{name: "all remembered", clients: 601, allowed: 0, limited: 601},
		} {
			var all []*exchange
			for n := range round.clients {
				all = append(all, i.get("/", client(fmt.Sprint(n))...))
			}
			for range 20 { // one callback concludes some, the ticks that follow the rest
				r.settle()
				i.wait(10 * time.Millisecond)
			}
			outcomes := map[string]int{}
			for _, x := range all {
				outcomes[x.outcome()]++
				x.End()
			}
			testenv.Same(w.t, round.name+": allowed", outcomes["allowed"], round.allowed)
			testenv.Same(w.t, round.name+": limited", outcomes["limited:a"], round.limited)
		}
	})
}

// One client sends thousands of requests in one go. It gets what its limit allows: most
// are never sent to Redis, as the worker remembers what became of the first.
func TestOneClientAtOnce(t *testing.T) {
	t.Parallel()
	const requests, limit = 6000, 10
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(`{"redis": {"cluster": "redis"}, "rules": [` + perClient("a", limit) + `]}`)
		var all []*exchange
		for range requests {
			all = append(all, i.get("/", client("me")...))
		}
		if n := r.writes; n > 540 { // decide/crowd.go: 512 in the pipe, and 16 more of a share; the hand-shake
			w.t.Errorf("%d writes before any reply, want those of 528 requests at most", n)
		}
		for range requests / 50 {
			r.settle()
			i.wait(10 * time.Millisecond)
		}
		outcomes := map[string]int{}
		for _, x := range all {
			outcomes[x.outcome()]++
			x.End()
		}
		testenv.Same(w.t, "allowed", outcomes["allowed"], limit)
		testenv.Same(w.t, "limited", outcomes["limited:a"], requests-limit)
		if n := r.writes; n > 1040 {
			w.t.Errorf("%d writes, want those of few more than 512 requests", n)
		}
	})
}
