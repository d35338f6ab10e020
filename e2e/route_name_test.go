package e2e

import (
	"net/http"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// routeName: a rule knows the requests of a route by its name, as "sluice convert" writes it; a route without
// a name is no rule's.
var routeName = plain{
	name: "route name",
	config: `{"rules": [
		{"name": "one", "match": {"expr": "xds.route_name == 'it\\'s'"}, ` + hundred + `},
		{"name": "more", "match": {"expr": "xds.route_name in ['a', 'b']"}, ` + hundred + `}]}`,
	edit: func(_ *testing.T, c *envoyconf.Config, _ string) {
		c.Set(envoyconf.ConnectionManager+"/route_config/virtual_hosts/all/routes", c.Fragment(`
- {name: "it's", match: {prefix: /one}, route: {cluster: upstream}}
- {name: a, match: {prefix: /a}, route: {cluster: upstream}}
- {name: b, match: {prefix: /b}, route: {cluster: upstream}}
- {name: c, match: {prefix: /c}, route: {cluster: upstream}}
- {match: {prefix: /}, route: {cluster: upstream}}
`))
	},
	play: func(t *testing.T, s *setting) {
		for path, want := range map[string]string{"/one": "99", "/a": "99", "/c": "", "/": ""} {
			got := get(t, s.URL+path)
			testenv.Same(t, path+": status", got.status, http.StatusOK)
			testenv.Same(t, path+": remaining", got.header.Get("x-ratelimit-remaining"), want)
		}
		testenv.Same(t, "/b: remaining", get(t, s.URL+"/b").header.Get("x-ratelimit-remaining"), "98")
	},
}
