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

// recipeRoutes puts the routes of a recipe in place of Envoy's.
func recipeRoutes(heading string) func(t *testing.T, c *envoyconf.Config, _ string) {
	return func(t *testing.T, c *envoyconf.Config, _ string) {
		t.Helper()
		routes := c.Fragment(blocks(t, "docs/cookbook.md", heading, "yaml")[0]).(map[string]any)["routes"]
		c.Set(envoyconf.ConnectionManager+"/route_config/virtual_hosts/all/routes", routes)
	}
}

// cookbookEconomyCluster: what is over the limit reaches the economy cluster, with the header.
var cookbookEconomyCluster = plain{
	name:   "cookbook economy cluster",
	config: "recipe An economy cluster\n" + `"window": "1s" -> "window": "1d"`,
	stores: embedded,
	edit: func(t *testing.T, c *envoyconf.Config, _ string) {
		recipeRoutes("An economy cluster")(t, c, "")
		economy := envoytest.NewUpstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "economy "+r.Header.Get("x-lane"))
		}))
		c.CopyCluster("upstream", "economy", economy.Addr)
	},
	play: func(t *testing.T, s *setting) {
		for i := range 12 {
			want := map[bool]string{true: "ok\n", false: "economy slow"}[i < 10]
			testenv.Same(t, "the answer", get(t, s.URL, "x-api-key: a", "x-lane: slow").body, want)
		}
		for i := range 12 {
			want := map[bool]string{true: "ok\n", false: "economy slow"}[i < 10]
			testenv.Same(t, "the answer without a key", get(t, s.URL).body, want)
		}
		testenv.Same(t, "requests of the fast cluster", s.upstream.Count(), 20)
	},
}

// cookbookStaticPage: visitors who are over the limit get a page, and programs a 429.
var cookbookStaticPage = plain{
	name:   "cookbook static page",
	config: "recipe A static page\n" + `"window": "1s", "burst": 30 -> "window": "1d", "burst": 2`,
	stores: embedded,
	edit:   recipeRoutes("A static page"),
	play: func(t *testing.T, s *setting) {
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
	},
}
