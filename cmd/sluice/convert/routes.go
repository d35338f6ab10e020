package convert

import (
	"slices"
	"strings"
)

// route is one route of Envoy, as far as rate limits ask.
type route struct {
	name    string
	cluster string
	limits  []node
	local   node // its own settings of Envoy's filter for local limits; may be absent
	// perRoute is the route's own settings of the filter, and the domain that they ask for.
	perRoute node
	domain   string
	node     // its place
}

type virtualHost struct {
	node
	local  node // as for a route
	routes []*route
}

// envoy holds the parts of an Envoy file that matter.
type envoy struct {
	hosts  []*virtualHost
	bare   []node // rate limits outside of routes, such as in Istio's EnvoyFilter
	filter node   // Envoy's HTTP filter for rate limits; may be absent
}

const filterType = "envoy.extensions.filters.http.ratelimit.v3.RateLimit"

// routing says what Envoy's routes mean.
type routing struct{ *converter }

func (c routing) readEnvoy(documents []node) *envoy {
	e := &envoy{}
	for _, document := range documents {
		document.find(func(n node) bool {
			if strings.HasSuffix(n.get("@type").text(), "/"+filterType) {
				e.filter = n
			}
			return true
		})
		document.find(func(n node) bool {
			if n.get("virtual_hosts").ok() {
				e.hosts = append(e.hosts, c.virtualHosts(n.get("virtual_hosts").each())...)
				return false
			}
			for _, limit := range n.get("rate_limits").each() {
				if limit.get("actions").ok() {
					e.bare = append(e.bare, limit)
				}
			}
			return true
		})
	}
	return e
}

func (c routing) virtualHosts(list []node) (all []*virtualHost) {
	for _, n := range list {
		h := &virtualHost{node: n, local: localIn(n)}
		own := n.get("rate_limits").each()
		for _, r := range n.get("routes").each() {
			h.routes = append(h.routes, c.route(r, h, own))
		}
		if len(h.routes) == 0 && len(own) > 0 { // as where a control plane adds limits
			h.routes = []*route{{limits: own, node: n}}
		}
		all = append(all, h)
	}
	return all
}

// route reads one route. A virtual host's limits hold for routes without any, and
// for those that ask for them.
func (c routing) route(n node, h *virtualHost, inherited []node) *route {
	r := &route{node: n, name: n.get("name").text()}
	action := n.get("route")
	r.cluster = action.get("cluster").text()
	r.limits = action.get("rate_limits").each()
	r.local = localIn(n)
	if !r.local.ok() {
		r.local = h.local
	}
	ignored, added := false, action.get("include_vh_rate_limits").flag(false) // the virtual host's limits
	for _, name := range n.get("typed_per_filter_config").names() {
		per := n.get("typed_per_filter_config").get(name)
		if !strings.Contains(per.get("@type").text(), "ratelimit.v3.RateLimitPerRoute") {
			continue
		}
		r.perRoute, r.domain = per, per.get("domain").text()
		switch per.get("vh_rate_limits").text() {
		case "IGNORE", "2":
			ignored = true
		case "INCLUDE", "1":
			added = true
		}
		if own := per.get("rate_limits"); own.ok() {
			r.limits = own.each()
		}
		if n := per.get("override_option"); n.ok() && n.text() != "DEFAULT" {
			c.report(Missing, n, "override_option: the route's own limits are the ones that hold")
		}
	}
	if !ignored && (len(r.limits) == 0 || added) {
		r.limits = append(slices.Clone(r.limits), inherited...)
	}
	return r
}

// withoutPort drops the port of a domain: "a:80", "a:*".
func withoutPort(domain string) string {
	host, port, found := strings.Cut(domain, ":")
	if !found || strings.Contains(port, ":") { // an IPv6 address stays
		return domain
	}
	return host
}
