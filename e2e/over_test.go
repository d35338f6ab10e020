package e2e

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// economyStatus is the answer of the route that requests over a limit take.
const economyStatus = http.StatusAccepted

// economy routes requests with the header x-quota to an answer of their own, and lets clients
// write headers with underscores.
func economy(c *envoyconf.Config) {
	c.Set(envoyconf.ConnectionManager+"/common_http_protocol_options/headers_with_underscores_action", "ALLOW")
	c.Set(envoyconf.ConnectionManager+"/route_config/virtual_hosts/all/routes", c.Fragment(fmt.Sprintf(`
- match: {prefix: "/", headers: [{name: x-quota, present_match: true}]}
  name: economy
  direct_response: {status: %d, body: {inline_string: "economy\n"}}
- match: {prefix: "/"}
  name: ordinary
  route: {cluster: upstream}
`, economyStatus)))
}

// overScenarios are the fates of requests that are over a limit. Two stores play them.
var overScenarios = []scenario{
	{
		name: "headers",
		rules: `{"name": "headers", "match": {"path": {"prefix": "/headers"}}, "over": {"set_headers": {"x-quota": "over"}},
			"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1, ` + long + `}]}`,
		steps: []step{
			{want: want{Outcome: "allowed", Remaining: "0"}},
			{want: want{
				Status: economyStatus, Outcome: "over:headers", Limit: "1", Remaining: "0", RetryAfter: missing,
				Policy: `"headers";q=1;w=31622400`, RateLimit: `"headers";r=0;t=31622400`,
			}},
		},
	},
	{
		name: "cost",
		rules: `{"name": "cost", "match": {"path": {"prefix": "/cost"}}, "over": {"set_headers": {"x-quota": "over"}},
			"cost": {"header": "x-cost"},
			"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 5, ` + long + `}]}`,
		steps: []step{
			{request: request{headers: []string{"x-cost: 2"}}, want: want{Outcome: "allowed", Remaining: "3"}},
			{
				request: request{headers: []string{"x-cost: 4"}}, // charges nothing
				want:    want{Status: economyStatus, Outcome: "over:cost", Remaining: "0"},
			},
			{request: request{headers: []string{"x-cost: 3"}}, want: want{Outcome: "allowed", Remaining: "0"}},
		},
	},
	{
		name: "paid",
		rules: `{"name": "paid", "match": {"path": {"prefix": "/paid"}}, "cost": 2, "over": {"limits": [
				{"algorithm": "fixed_window", "anchor": "first_request", "limit": 3, "window": "300d"}]},
				"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 3, ` + long + `}]}`,
		steps: []step{
			{want: want{Outcome: "allowed", Remaining: "1", RateLimit: `"paid";r=1;t=31622400`}},
			{want: want{
				Outcome: "over:paid", Limit: "3", Remaining: "0", RetryAfter: missing,
				RateLimit: `"paid";r=0;t=31622400, "paid-over";r=1;t=25920000`,
			}},
			{want: want{
				Status: http.StatusTooManyRequests, Outcome: "limited:paid", RetryAfter: "25920000",
				RateLimit: `"paid";r=1;t=25920000, "paid-over";r=1;t=25920000`,
			}},
		},
	},
	{
		name: "both",
		rules: `{"name": "both", "match": {"path": {"prefix": "/both"}},
				"over": {"set_headers": {"x-quota": "paid"}, "limits": [
				{"name": "both-credits", "algorithm": "fixed_window", "anchor": "first_request", "limit": 3, "window": "1d"}]},
				"limits": [{"algorithm": "fixed_window", "limit": 0, "window": "1d"}]},
			{"name": "both-hard", "match": {"path": {"prefix": "/both/hard"}},
				"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1, "window": "1d"}]}`,
		steps: []step{
			{want: want{Status: economyStatus, Outcome: "over:both"}},
			{request: request{path: "/hard"}, want: want{Status: economyStatus, Outcome: "over:both"}},
			{
				request: request{path: "/hard"}, // the credit is given back
				want:    want{Status: http.StatusTooManyRequests, Outcome: "limited:both-hard", RetryAfter: "86400"},
			},
			{want: want{Status: economyStatus, Outcome: "over:both"}},
			{want: want{Status: http.StatusTooManyRequests, Outcome: "limited:both", RetryAfter: "86400"}},
		},
	},
}

func TestOver(t *testing.T) {
	t.Parallel()
	runScenarios(t, `"headers": ["x-ratelimit", "draft"], `, envoytest.Options{Edit: economy}, overScenarios)
}

// TestNoOtherSetsTheHeader: a client that brings the header, more than once or with an
// underscore, loses it before rules are matched, and the route is chosen anew. What it may send
// stays.
func TestNoOtherSetsTheHeader(t *testing.T) {
	t.Parallel()
	s := start(t, `{`+patient+`"rules": [
		{"name": "forged", "match": {"headers": {"x-quota": {"present": true}}},
			"limits": [{"algorithm": "fixed_window", "limit": 0, "window": "1d"}]},
		{"name": "quota", "key": [{"header": "x-user"}], "over": {"set_headers": {"x-quota": "over", "x-a-b": "c"}},
			"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 3, "window": "1d"}]}]}`,
		envoytest.Options{Edit: economy})
	for i, headers := range [][]string{
		{"x-quota: over"}, {"X-Quota: a", "x-quota: b", "x_quota: c", "X_A-b: d", "x-a_b: e"}, {"x-quota2: f", "x-quot: g"},
	} {
		r := get(t, s.URL, append(headers, "x-user: u")...)
		testenv.Same(t, fmt.Sprintf("%q: status", headers), r.status, http.StatusOK)
		testenv.Same(t, fmt.Sprintf("%q: left of the route's", headers), r.header.Get("x-ratelimit-remaining"),
			fmt.Sprint(2-i))
	}
	for i, want := range [][]string{nil, nil, {"X-Quot", "X-Quota2"}} {
		var got []string
		for name := range s.upstream.Requests()[i].Header {
			if like := strings.ReplaceAll(strings.ToLower(name), "_", "-"); strings.HasPrefix(like, "x-quo") || like == "x-a-b" {
				got = append(got, name)
			}
		}
		slices.Sort(got)
		testenv.SameList(t, fmt.Sprintf("request %d: headers that came through", i), got, want)
	}
	testenv.Same(t, "over: status", get(t, s.URL, "x-quota: forged", "x-user: u").status, economyStatus)
}

// overRules are a quota of 100 that sets a header, and one that credits of 50 follow.
const overRules = `{` + patient + `"rules": [
	{"name": "quota", "match": {"path": "/quota"}, "key": [{"header": "x-user"}],
		"over": {"set_headers": {"x-quota": "over"}},
		"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 100, ` + long + `}]},
	{"name": "paid", "match": {"path": "/paid"}, "key": [{"header": "x-user"}],
		"over": {"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 50, ` + long + `}]},
		"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 100, ` + long + `}]}]}`

// TestOverIsExact: of 400 parallel requests over two Envoys precisely so many as the limit admits
// go the ordinary way, ten times in a row, and precisely so many as there are credits are paid for.
func TestOverIsExact(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	opts := envoytest.Options{Redis: []string{server.Addr}, Edit: economy, Quiet: true}
	one, two := start(t, overRules, opts), start(t, overRules, opts)
	for round := range 10 {
		user := fmt.Sprintf("x-user: %d", round)
		got := burst(t, 400, 64, []string{one.URL + "/quota", two.URL + "/quota"}, user)
		expectTally(t, user, got, tally{http.StatusOK: 100, economyStatus: 300})
		got = burst(t, 400, 64, []string{one.URL + "/paid", two.URL + "/paid"}, user)
		expectTally(t, user, got, tally{http.StatusOK: 150, http.StatusTooManyRequests: 250})
	}
}

// TestOverIsExactOnACluster: so is it where every key is in one slot of a Redis Cluster.
func TestOverIsExactOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	one, two := onCluster(t, cluster, overRules), onCluster(t, cluster, overRules)
	for round := range 10 {
		user := fmt.Sprintf("x-user: %d", round)
		got := burst(t, 400, 64, []string{one.URL + "/paid", two.URL + "/paid"}, user)
		expectTally(t, user, got, tally{http.StatusOK: 150, http.StatusTooManyRequests: 250})
	}
}

// TestOverWhileRedisIsAway: a remembered rejection still sets the header.
func TestOverWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	s := start(t, `{"redis": {"cluster": "redis", "timeout": "2s"}, "failure": {"mode": "allow"}, "rules": [
		{"name": "other", "limits": [{"algorithm": "fixed_window", "limit": 1000000, `+long+`}]},
		{"name": "quota", "over": {"set_headers": {"x-quota": "over"}},
			"limits": [{"algorithm": "fixed_window", "limit": 0, `+long+`}]}]}`,
		envoytest.Options{Edit: economy})
	testenv.Same(t, "over: status", get(t, s.URL).status, economyStatus)
	s.redis.Kill()
	testenv.Same(t, "over, without Redis: status", get(t, s.URL).status, economyStatus)
}

// TestRedirectKeepsTheHeader: a request that is over keeps its header in the next pass, and is
// paid for once.
func TestRedirectKeepsTheHeader(t *testing.T) {
	t.Parallel()
	upstream := envoytest.NewUpstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/first" {
			w.Header().Set("location", "http://"+r.Host+"/second")
			w.WriteHeader(http.StatusFound)
			return
		}
		_, _ = io.WriteString(w, r.Header.Get("x-quota"))
	}))
	s := start(t, `{`+patient+`"rules": [
		{"name": "quota", "over": {"set_headers": {"x-quota": "paid"}, "limits": [
			{"algorithm": "fixed_window", "anchor": "first_request", "limit": 2, `+long+`}]},
			"limits": [{"algorithm": "fixed_window", "limit": 0, `+long+`}]}]}`,
		envoytest.Options{Upstream: upstream.Addr, Edit: followRedirects})
	for range 2 {
		testenv.Same(t, "the header of the last pass", get(t, s.URL+"/first", "x-quota: forged").body, "paid")
	}
	testenv.Same(t, "one more: status", get(t, s.URL+"/first").status, http.StatusTooManyRequests)
	testenv.Same(t, "requests of the upstream", upstream.Count(), 4)
}
