package e2e

import (
	"fmt"
	"io"
	"net/http"
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
