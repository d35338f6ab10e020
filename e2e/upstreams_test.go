//go:build upstreams

package e2e

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// reads is what an upstream reads of a request, by what rules go by: path, query, cookie and bearer; nil where it reads
// nothing.
type reads map[string]any

// spelled are requests by what identifies them: some upstreams read the same in all of one kind as in
// the first, which is how honest clients write it. The second is %many, or another path.
var spelled = map[string][][2]string{ // target and header
	"path": {
		{"/login", ""},
		{"/none", ""},
		{"/login%0A", ""},
		{"/%6cogin", ""},
		{"//login", ""},
		{"/x/../login", ""},
		{"/login?a=%0A", ""},
	},
	"at": {{"/users/@me", ""}, {"/none", ""}, {"/users/%40me", ""}, {"/users/%40me%0A", ""}},
	"colon": {
		{"/v1/models/x:generate", ""}, {"/none", ""}, {"/v1/models/x%3Agenerate", ""}, {"/v1/models/x%3agenerate", ""},
	},
	"query": {
		{"/login?api_key=K", ""},
		{"/login?api_key=a&api_key=b", ""},
		{"/login?api_key=;1&api_key=K", ""},
		{"/login?api_key=%zz1&api_key=K", ""},
		{"/login?api_key=1&api_key=K", ""},
		{"/login?api_key=K&api_key=1", ""},
		{"/login?%61pi_key=%4B", ""},
	},
	"cookie": {
		{"/login", "Cookie: sid=REAL"},
		{"/login", "Cookie: sid=a; sid=b"},
		{"/login", "Cookie: sid=REAL\u00a0"},
		{"/login", "Cookie: \u00a0sid=REAL"},
		{"/login", "Cookie: sid=REAL\u0085"},
		{"/login", "Cookie: sid=\u2003REAL\u3000"},
		{"/login", "Cookie: sid=REAL\xa0\xa0"},
		{"/login", "Cookie: \xa0sid=REAL"},
		{"/login", "Cookie: sid=\"1; sid=REAL"},
		{"/login", "Cookie: sid=a\"b; sid=REAL"},
		{"/login", "Cookie: sid=a\\b; sid=REAL"},
		{"/login", "Cookie: sid=REAL; sid=x"},
		{"/login", "Cookie: sid=\"REAL\""},
		{"/login", "Cookie: sid=%52EAL"},
		{"/login", "Cookie: sid=\"\\122EAL\""},
	},
	"bearer": {
		{"/login", "Authorization: Bearer T.t-1"},
		{"/login", "Authorization: Bearer a, Bearer b"},
		{"/login", "Authorization: Bearer T.t-1\xa0\xa0"},
		{"/login", "Authorization: Bearer\xa0T.t-1"},
		{"/login", "Authorization: \xa0Bearer T.t-1"},
		{"/login", "Authorization: x, Bearer T.t-1"},
		{"/login", "Authorization: bEARER   T.t-1"},
		{"/login", "Authorization: Bearer T.t-1 x"},
		{"/login", "Authorization: Bearer x, Bearer T.t-1"},
		{"/login", "Authorization: Bearer \xa0T.t-1"},
	},
}

// components are what kinds of spellings go by, of a request and of what upstreams read: the path unless stated.
var components = map[string]string{
	"query": `{"query": "api_key"}`, "cookie": `{"cookie": "sid"}`, "bearer": `{"bearer": true}`,
}

// What an upstream reads as one identity is one identity for Sluice, or %many, and never absent.
func TestUpstreams(t *testing.T) {
	tools := os.Getenv("UPSTREAMS") // where tools/upstreams.sh has installed them
	python := func(name string) []string { return []string{"python3", "testdata/upstreams.py", name} }
	for name, command := range map[string][]string{
		"flask": python("flask"), "django": python("django"), "fastapi": python("fastapi"),
		"express": {"node", "testdata/upstreams.js"}, "net-http": nil,
	} {
		t.Run(name, func(t *testing.T) {
			addr := ""
			if command == nil {
				addr = envoytest.NewUpstream(t, http.HandlerFunc(goReads)).Addr
			} else {
				port := fmt.Sprint(testenv.FreePort(t))
				addr = "127.0.0.1:" + port
				env := []string{"PYTHONPATH=" + tools + "/python", "NODE_PATH=" + tools + "/node_modules"}
				server := testenv.Run(t, env, command[0], append(command[1:], port)...)
				server.Await(time.Minute, func(ctx context.Context) error {
					conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
					if err == nil {
						conn.Close()
					}
					return err
				})
			}
			var rules []string
			for kind := range spelled {
				component := cmp.Or(components[kind], `{"path": true}`)
				rules = append(rules, fmt.Sprintf(`{"name": %q, "match": {"headers": {"x-kind": %q}}, "key": [%s],
					"limits": [{"algorithm": "fixed_window", "limit": 1000, "window": "1d"}]}`, kind, kind, component))
			}
			envoy := envoytest.Start(t, envoytest.Options{
				Plugin: `{"rules": [` + strings.Join(rules, ",") + `]}`, Upstream: addr, Workers: 1,
			})
			for kind, all := range spelled {
				component := kind
				if components[kind] == "" {
					component = "path"
				}
				want, left := ask(t, envoy.Addr, kind, all[0])
				many := 0
				for range 2 * len(all) { // so that what is left of it tells it from the other
					_, many = ask(t, envoy.Addr, kind, all[1])
				}
				identity := want[component]
				if identity == nil {
					t.Logf("| %s | %s | reads none | |", name, kind)
					continue
				}
				for _, s := range all[2:] {
					got, after := ask(t, envoy.Addr, kind, s)
					is := "another"
					switch after {
					case left - 1:
						is, left = "the same", after
					case many - 1:
						is, many = "%many", after
					case -1:
						is = "absent"
					}
					t.Logf("| %s | %s | %q %q | upstream: %v | Sluice: %s |", name, kind, s[0], s[1], got[component], is)
					if escapes := is == "another" || is == "absent"; escapes && got[component] == identity {
						t.Errorf("%s reads %q in %q %q, which is %s identity to Sluice", name, identity, s[0], s[1], is)
					}
				}
			}
		})
	}
}

// ask sends a request as it is written, and returns what the upstream reads and what is left of the
// limit; -1 if no limit applies.
func ask(t *testing.T, addr, kind string, s [2]string) (got reads, left int) {
	conn, err := net.Dial("tcp", addr)
	testenv.OK(t, err)
	defer conn.Close()
	header := s[1]
	if header != "" {
		header += "\r\n"
	}
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\nx-kind: %s\r\n%s\r\n", s[0], kind, header)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	testenv.OK(t, err)
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		testenv.SameError(t, "the answer", json.NewDecoder(resp.Body).Decode(&got), nil)
	}
	left = -1
	_, _ = fmt.Sscan(resp.Header.Get("X-RateLimit-Remaining"), &left)
	return got, left
}

// goReads answers with what net/http reads.
func goReads(w http.ResponseWriter, r *http.Request) {
	got := reads{"path": r.URL.Path}
	if r.URL.Query().Has("api_key") {
		got["query"] = r.URL.Query().Get("api_key")
	}
	if c, err := r.Cookie("sid"); err == nil {
		got["cookie"] = c.Value
	}
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		got["bearer"] = strings.TrimSpace(token)
	}
	_ = json.NewEncoder(w).Encode(got)
}
