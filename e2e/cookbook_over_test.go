package e2e

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// cookbookRoutes puts the routes of a recipe in place of Envoy's, and a cluster "economy" next to
// "upstream".
func cookbookRoutes(t *testing.T, heading, economy string) func(c *envoyconf.Config) {
	t.Helper()
	return func(c *envoyconf.Config) {
		routes := c.Fragment(example(t, "docs/cookbook.md", heading, "yaml")).(map[string]any)["routes"]
		c.Set(envoyconf.ConnectionManager+"/route_config/virtual_hosts/all/routes", routes)
		c.Append("static_resources/clusters", c.Fragment(`{name: economy, type: STATIC}`))
		c.Set("static_resources/clusters/economy/load_assignment", map[string]any{
			"cluster_name": "economy", "endpoints": c.Endpoints([]string{economy}),
		})
	}
}

// TestCookbookEconomyCluster: what is over the limit reaches the economy cluster, with the header.
func TestCookbookEconomyCluster(t *testing.T) {
	t.Parallel()
	const heading = "An economy cluster"
	economy := envoytest.NewUpstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "economy "+r.Header.Get("x-lane"))
	}))
	plugin := strings.Replace(cookbook(t, heading), `"window": "1s"`, `"window": "1d"`, 1)
	s := start(t, plugin, envoytest.Options{Redis: []string{}, Edit: cookbookRoutes(t, heading, economy.Addr)})
	for i := range 12 {
		want := map[bool]string{true: "ok\n", false: "economy slow"}[i < 10]
		testenv.Same(t, "the answer", get(t, s.URL, "x-api-key: a", "x-lane: slow").body, want)
	}
	for i := range 12 {
		want := map[bool]string{true: "ok\n", false: "economy slow"}[i < 10]
		testenv.Same(t, "the answer without a key", get(t, s.URL).body, want)
	}
	testenv.Same(t, "requests of the economy cluster", economy.Count(), 4)
}

// TestCookbookStaticPage: visitors who are over the limit get a page, and programs a 429.
func TestCookbookStaticPage(t *testing.T) {
	t.Parallel()
	const heading = "A static page"
	edit := cookbookRoutes(t, heading, "127.0.0.1:1")
	plugin := strings.Replace(cookbook(t, heading), `"window": "1s", "burst": 30`, `"window": "1d", "burst": 2`, 1)
	s := start(t, plugin, envoytest.Options{Redis: []string{}, Edit: edit})
	const accept = "accept: text/html,application/xhtml+xml"
	for range 2 {
		testenv.Same(t, "the answer", get(t, s.URL, accept).body, "ok\n")
	}
	page := get(t, s.URL, accept)
	testenv.Same(t, "the page's status", page.status, http.StatusOK)
	testenv.Same(t, "its type", page.header.Get("content-type"), "text/html")
	testenv.Same(t, "whether it is the page", strings.Contains(page.body, "We are busy"), true)
	capitals := get(t, s.URL, "accept: TEXT/HTML")
	testenv.Same(t, "whether it is the page, in capitals", strings.Contains(capitals.body, "We are busy"), true)
	testenv.Same(t, "a program's status", get(t, s.URL, "accept: */*").status, http.StatusTooManyRequests)
	testenv.Same(t, "requests of the upstream", s.upstream.Count(), 2)
}

// TestCookbookCredits: the quota, then the credits, which a failure gives back, then a 429.
func TestCookbookCredits(t *testing.T) {
	t.Parallel()
	upstream := envoytest.NewUpstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/fail" {
			w.WriteHeader(http.StatusInternalServerError)
		}
		_, _ = io.WriteString(w, r.Header.Get("x-paid-by"))
	}))
	plugin := strings.NewReplacer(`"limit": 1000`, `"limit": 2`, `"limit": 500`, `"limit": 2`,
		`{"cluster": "redis"}`, `{"cluster": "redis", "timeout": "10s"}`).
		Replace(cookbook(t, "Quota, then credits, then 429"))
	s := start(t, plugin, envoytest.Options{Upstream: upstream.Addr})
	for i, want := range []struct {
		path, paidBy string
		status       int
	}{
		{"/", "", 200},
		{"/", "", 200},
		{"/fail", "credits", 500},
		{"/", "credits", 200},
		{"/", "credits", 200},
		{"/", "", 429},
	} {
		if i > 0 {
			s.awaitRefund(t, i)
		}
		r := get(t, s.URL+want.path, "x-api-key: a")
		testenv.Same(t, "status", r.status, want.status)
		if want.status == http.StatusTooManyRequests {
			testenv.Same(t, "the credits are named", strings.Contains(r.body, `"violated-policies":["quota","credits"]`), true)
			continue
		}
		testenv.Same(t, "who has paid", r.body, want.paidBy)
	}
}

// awaitRefund waits until a request that has failed, the third, has its credits back: settlements
// leave with a tick.
func (s *setting) awaitRefund(t *testing.T, requests int) {
	t.Helper()
	if requests != 3 {
		return
	}
	testenv.Wait(t, patience, func() error {
		const sent = "wasmcustom.sluice.redis.event.sent.settlements_total"
		return atLeast(int(s.Stats("settlements_total")[sent]), 1, "settlements")
	})
}
