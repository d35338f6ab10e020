package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// obedient answers as the request says.
func obedient(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("x-die") != "" {
		panic(http.ErrAbortHandler)
	}
	if cost := r.Header.Get("x-worth"); cost != "" {
		w.Header().Set("x-tokens", cost)
	}
	if pause, _ := time.ParseDuration(r.Header.Get("x-pause")); pause > 0 {
		select {
		case <-time.After(pause):
		case <-r.Context().Done():
		}
	}
	if status, err := strconv.Atoi(r.Header.Get("x-status")); err == nil {
		w.WriteHeader(status)
	}
	size, _ := strconv.Atoi(r.Header.Get("x-bytes"))
	_, _ = w.Write(bytes.Repeat([]byte("x"), size))
	if r.Header.Get("x-stay") != "" {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
}

// settlement is a rule with a limit of 100 that reserves 10, a request, and what is
// left when the request has been settled.
type settlement struct {
	name    string
	rule    string   // more members
	headers []string // tell the upstream what to do
	leave   bool     // the client leaves before the answer is complete
	cluster string   // where the route leads, if not to the upstream
	status  int      // 200 unless stated; not compared of who leaves
	left    int
}

var settlements = []settlement{
	{name: "status-refused", rule: `"settle": {"status": ["5xx"]}`, cluster: "refusing", status: 503, left: 100},
	{name: "status-nohost", rule: `"settle": {"status": ["5xx"]}`, cluster: "empty", status: 503, left: 100},
	{name: "status-reset", rule: `"settle": {"status": ["5xx"]}`, headers: []string{"x-die: yes"}, status: 503, left: 100},
	{
		name: "status-timeout", rule: `"settle": {"status": ["5xx"]}`, cluster: "(slow)", headers: []string{"x-pause: 10s"},
		status: 504, left: 100,
	},
	{name: "status-noroute", rule: `"settle": {"status": ["4xx"]}`, cluster: "(none)", status: 404, left: 100},
	{name: "status-direct", rule: `"settle": {"status": ["4xx"]}`, cluster: "(direct)", status: 410, left: 90},
	{name: "status-left", rule: `"settle": {"status": ["4xx"]}`, headers: []string{"x-pause: 10s"}, leave: true, left: 90},
	{
		name: "status-left-release", rule: `"settle": {"status": ["4xx"], "missing": "release"}`,
		headers: []string{"x-pause: 10s"}, leave: true, left: 90,
	},
	{
		name: "status-left-later", rule: `"settle": {"status": ["4xx"]}`, headers: []string{"x-bytes: 10", "x-stay: yes"},
		leave: true, left: 100,
	},
	{name: "expr-sees", rule: `"settle": {"expr": "response.code == 503"}`, cluster: "refusing", status: 503, left: 90},
	{
		name: "expr-duration", rule: `"settle": {"expr": "request.duration > duration('100ms')"}`,
		headers: []string{"x-pause: 200ms"}, left: 90,
	},
	{
		name: "cost-noanswer", rule: `"settle": {"cost": {"header": "x-tokens", "max": 50}}`, cluster: "refusing",
		status: 503, left: 90,
	},
	{
		name: "cost-bytes", rule: `"settle": {"cost": {"property": ["response", "total_size"], "per": 1024, "max": 1000}}`,
		headers: []string{"x-bytes: 20000"}, left: 80,
	},
}

// settlementsByResponse: what the response makes of a charge, with Redis and with the
// embedded store.
var settlementsByResponse = plain{
	name: "settlements",
	config: func() string {
		rules := []string{`{"name": "last", "match": {"path": {"prefix": "/last"}},
			"cost": {"header": "x-cost", "default": 10},
			"limits": [{"algorithm": "gcra", "limit": 100, ` + long + `}], "settle": {"status": ["401"]}}`}
		for _, s := range settlements {
			rules = append(rules, fmt.Sprintf(`{"name": %q, "match": {"path": "/%s"},
				"cost": {"header": "x-cost", "default": 10},
				"limits": [{"algorithm": "sliding_window_log", "limit": 100, %s}], %s}`, s.name, s.name, long, s.rule))
		}
		return `{"rules": [` + strings.Join(rules, ",\n") + `]}`
	}(),
	stores: bothStores,
	worker: true,
	edit: func(_ *testing.T, c *envoyconf.Config, _ string) { // routes that lead nowhere
		var routes []any
		for _, s := range settlements {
			switch s.cluster {
			case "":
			case "(direct)":
				routes = append(routes, c.Fragment(fmt.Sprintf(`{match: {path: /%s}, direct_response: {status: 410}}`, s.name)))
			case "(slow)":
				routes = append(routes, c.Fragment(fmt.Sprintf(`{match: {path: /%s}, route: {cluster: upstream, timeout: 0.05s}}`,
					s.name)))
			case "(none)": // a prefix that the routes below do not have
				routes = append(routes, c.Fragment(fmt.Sprintf(`{match: {path: /%s, headers: [{name: x-never, present_match: `+
					`true}]}, direct_response: {status: 200}}`, s.name)))
			default:
				routes = append(routes, c.Fragment(fmt.Sprintf(`{match: {path: /%s}, route: {cluster: %s}}`, s.name, s.cluster)))
			}
		}
		const path = envoyconf.ConnectionManager + "/route_config/virtual_hosts/0/routes"
		for _, route := range c.Get(path).([]any) {
			route.(map[string]any)["match"] = c.Fragment(`{safe_regex: {regex: "/.*"}, headers: [
				{name: ":path", string_match: {exact: /status-noroute}, invert_match: true}]}`)
			routes = append(routes, route)
		}
		c.Set(path, routes)
		c.Append("static_resources/clusters", c.Fragment(`{name: empty, type: STATIC}`))
		c.Append("static_resources/clusters",
			c.Fragment(`{name: refusing, type: STATIC, load_assignment: {cluster_name: refusing, endpoints: [
			{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: 1}}}}]}]}}`))
	},
	play: func(t *testing.T, e *setting) {
		e.upstream.Handle(http.HandlerFunc(obedient))
		for _, s := range settlements {
			t.Run(s.name, func(t *testing.T) {
				url := e.URL + "/" + s.name
				switch before := e.upstream.Count(); {
				case !s.leave:
					testenv.Same(t, "status", get(t, url, s.headers...).status, max(s.status, http.StatusOK))
				case slices.Contains(s.headers, "x-stay: yes"): // the client leaves once it has the answer's beginning
					hold(t, url, s.headers...)()
				default: // once the upstream has the request
					leaving, leave := context.WithCancel(ctx)
					ended := make(chan error, 1)
					go func() {
						_, err := send(leaving, newClient(), url, s.headers...)
						ended <- err
					}()
					testenv.Wait(t, patience, func() error {
						return atLeast(e.upstream.Count()-before, 1, "requests with the upstream")
					})
					leave()
					if err := <-ended; err == nil {
						t.Fatal("the answer came before the client had left")
					}
				}
				awaitActive(t, e, 0)
				// Settlements of a worker are made in order: when the last one has been, they all have.
				get(t, e.URL+"/last")
				expectLeft(t, e.URL+"/last", 100)
				expectHeaders(t, get(t, url, "x-cost: 0"), map[string]string{"x-ratelimit-remaining": strconv.Itoa(s.left)})
			})
		}
	},
}

// expectLeft waits until so much is left, as a request of cost 0 learns, whatever its answer is.
func expectLeft(t *testing.T, url string, want int, headers ...string) {
	t.Helper()
	testenv.Wait(t, patience, func() error {
		got := get(t, url, append(headers, "x-cost: 0")...).header.Get("x-ratelimit-remaining")
		if got != strconv.Itoa(want) {
			return fmt.Errorf("%s left, want %d", got, want)
		}
		return nil
	})
}
