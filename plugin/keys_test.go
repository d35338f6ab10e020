package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

// The property of a peer's certificate is part of a key, percent-encoded; without one the rule does not apply.
func TestPropertyKey(t *testing.T) {
	t.Parallel()
	for certificate, want := range map[string]string{
		"spiffe://cluster/ns/a{}\x00": "rl:{the%20rule|spiffe://cluster/ns/a%7B%7D%00}:fixed_window:1h", "": "",
	} {
		eachWorld(t, func(t *testing.T, w *worker) {
			w.properties = wasmhost.Properties{}
			if certificate != "" {
				w.properties["connection.uri_san_peer_certificate"] = []byte(certificate)
			}
			r := w.startRedis()
			i := w.load(withRedis(`{"name": "the rule", "key": [{"property": ["connection", "uri_san_peer_certificate"]}], ` +
				once + `}`))
			x := i.get("/")
			r.settle()
			x.End()
			testenv.Same(t, "the keys", strings.Join(r.keys(), " "), want)
		})
	}
}

// The configuration of the design document does what it says, here with the
// embedded store, whose clock stands still.
func TestDesignExample(t *testing.T) {
	t.Parallel()
	redis := regexp.MustCompile(`"redis": \{[^}]*\},`)
	config := redis.ReplaceAllString(readFile(t, "config/testdata/valid/design.json"), "")
	eachWorld(t, func(t *testing.T, w *worker) {
		i := w.load(config)
		api := func(namesAndValues ...string) *exchange {
			headers := wasmhost.Pairs{
				{":method", "GET"},
				{":authority", "api.example.com:8080"},
				{":path", "/api/x"},
				{"x-plan", "pro"},
			}
			return i.open(append(headers, wasmhost.Response("", namesAndValues...)[1:]...))
		}
		second := func(r, t int) member { return member{Name: "per-user-1s", Q: 20, W: 2, R: r, T: t} }
		hour := func(r, t int) member { return member{Name: "per-user-1h", Q: 1000, W: 3600, R: r, T: t} }
		global := func(r, t int) member { return member{Name: "global", Q: 5000, W: 1, R: r, T: t} }
		w.expect("health", i.get("/healthz/live").end(), result{Status: 200, Outcome: "exempt:health"})
		w.expect("no API", i.get("/").end(), result{
			Status: 200, Outcome: "allowed", Limit: 5000, Remaining: 4999, Reset: 1, Draft: []member{global(4999, 1)},
		})
		w.expect("a costly call", api("x-api-key", "k", "x-cost", "20").end(), result{
			Status: 200, Outcome: "allowed", Limit: 20, Remaining: 0, Reset: 2,
			Draft: []member{second(0, 1), hour(980, 3600), global(4998, 1)},
		})
		x := api("x-api-key", "k", "x-cost", "3")
		if got, want := x.local().Body, `{"error":"slow down"}`; got != want {
			t.Errorf("body %s, want %s", got, want)
		}
		w.expect("one more", x.end(), result{
			Status: 429, Outcome: "limited:per-user", Limit: 20, Remaining: 0, Reset: 2, RetryAfter: 1,
			Draft:       []member{second(0, 1), hour(980, 3600), global(4998, 1)},
			ContentType: "application/json", Others: wasmhost.Pairs{{"x-reason", "quota"}},
		})
		w.expect("more than ever", api("x-api-key", "new", "x-cost", "21").end(), result{
			Status: 429, Outcome: "limited:per-user", Limit: 20, Remaining: 20, Reset: 0,
			Draft:       []member{second(20, 1), hour(1000, 3600), global(4998, 1)},
			ContentType: "application/json", Others: wasmhost.Pairs{{"x-reason", "quota"}},
		})
	})
}
