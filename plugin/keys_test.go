package main

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

// subject is the property that has the subject of a token.
const subject = "metadata\x00filter_metadata\x00envoy.filters.http.jwt_authn\x00payload\x00sub"

func digest(s string, hexDigits int) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])[:hexDigits]
}

// keyScenarios are keys of a rule, and the identity that each finds in a request.
var keyScenarios = []struct {
	name, key  string
	request    wasmhost.Pairs
	properties map[string]string
	want       string // the identity; "" if the rule does not apply
}{
	{
		name: "header", key: `{"header": "X-Client"}`, request: wasmhost.Request("GET", "/", "x-client", " a b|c "),
		want: "a%20b%7Cc",
	},
	{name: "header absent", key: `{"header": "x-client"}`, request: wasmhost.Request("GET", "/")},
	{
		name: "header empty", key: `{"header": "x-client"}, {"constant": "end"}`,
		request: wasmhost.Request("GET", "/", "x-client", ""), want: "|end",
	},
	{
		name: "default", key: `{"header": "x-client", "default": "anyone"}`, request: wasmhost.Request("GET", "/"),
		want: "anyone",
	},
	{
		name: "hash", key: `{"header": "x-client", "hash": true}`,
		request: wasmhost.Request("GET", "/", "x-client", "secret"), want: digest("secret", 40),
	},
	{
		name: "cookie", key: `{"cookie": "sid", "hash": false}`,
		request: wasmhost.Request("GET", "/", "cookie", "a=1; sid=%41b; sid=Ab"), want: "Ab",
	},
	{name: "query", key: `{"query": "user"}`, request: wasmhost.Request("GET", "/?x=1&user=%6d%65&user=me"), want: "me"},
	{name: "path", key: `{"path": true}`, request: wasmhost.Request("GET", "/x/..//%61pi/a?q"), want: "/api/a"},
	{name: "path segments", key: `{"path": {"segments": 2}}`, request: wasmhost.Request("GET", "/a/b/c"), want: "/a/b"},
	{
		name: "method and host", key: `{"method": true}, {"host": true}`,
		request: wasmhost.Request("PUT", "/", "host", "no"), want: "PUT|example.com",
	},
	{
		name: "client_ip", key: `{"client_ip": true}`, request: wasmhost.Request("GET", "/", "x-forwarded-for", "9.9.9.9"),
		properties: map[string]string{"source.address": "192.0.2.7:4711"}, want: "192.0.2.7",
	},
	{
		name: "client_ip by network", key: `{"client_ip": {"v4_prefix": 24, "v6_prefix": 64}}`,
		request:    wasmhost.Request("GET", "/"),
		properties: map[string]string{"source.address": "[2001:db8:1:2:3:4:5:6]:4711"}, want: "2001:db8:1:2::/64",
	},
	{
		name: "metadata", key: `{"metadata": ["envoy.filters.http.jwt_authn", "payload", "sub"]}`,
		request:    wasmhost.Request("GET", "/"),
		properties: map[string]string{subject: "alice"}, want: "alice",
	},
	{
		name: "property", key: `{"property": ["connection", "uri_san_peer_certificate"]}`,
		request:    wasmhost.Request("GET", "/"),
		properties: map[string]string{"connection.uri_san_peer_certificate": "spiffe://cluster/ns/a{}\x00"},
		want:       "spiffe://cluster/ns/a%7B%7D%00",
	},
	{
		name: "property absent", key: `{"property": ["connection", "uri_san_peer_certificate"]}`,
		request: wasmhost.Request("GET", "/"),
	},
	{
		name: "too long", key: `{"header": "x-client"}, {"constant": "b"}`,
		request: wasmhost.Request("GET", "/", "x-client", strings.Repeat("a", 300)),
		want:    digest(strings.Repeat("a", 300)+"|b", 64),
	},
}

// What a request's key is in Redis, for each kind of component.
func TestKeys(t *testing.T) {
	t.Parallel()
	for _, test := range keyScenarios {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			eachWorld(t, func(t *testing.T, w *worker) {
				w.properties = wasmhost.Properties{}
				for path, value := range test.properties {
					w.properties[path] = []byte(value)
				}
				r := w.startRedis()
				i := w.load(withRedis(`{"name": "the rule", "key": [` + test.key + `], ` + once + `}`))
				x := i.open(test.request)
				r.settle()
				x.End()
				want := "rl:{the%20rule|" + test.want + "}:fixed_window:1h"
				if test.want == "" {
					want = ""
				}
				if got := strings.Join(r.keys(), " "); got != want {
					t.Errorf("key %q, want %q; the request was %s", got, want, x.outcome())
				}
			})
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
