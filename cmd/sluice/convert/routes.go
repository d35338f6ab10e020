package convert

import (
	"slices"
	"strings"
)

// route is one route of Envoy, as far as rate limits ask.
type route struct {
	host    *virtualHost
	when    conditions
	known   bool // the conditions say all
	cluster string
	limits  []node
	local   node // its own settings of Envoy's filter for local limits; may be absent
	// perRoute is the route's own settings of the filter, and the domain that they ask for.
	perRoute node
	domain   string
	node          // its place
	exempt   bool // a rule of its own says that it is not limited
}

type virtualHost struct {
	node
	local node // as for a route
	when  conditions
	// others are domains that take requests from this host, as they are more specific.
	others  []otherDomain
	domains []string
	routes  []*route
	exempt  bool // as for a route
}

// otherDomain is a domain of another virtual host.
type otherDomain struct {
	host    *virtualHost
	matcher any
}

// limited reports whether any of the host's routes has limits.
func (h *virtualHost) limited() bool {
	return slices.ContainsFunc(h.routes, func(r *route) bool { return len(r.limits) > 0 })
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
		for _, domain := range n.get("domains").each() {
			h.domains = append(h.domains, strings.TrimSuffix(strings.ToLower(domain.text()), ":*"))
		}
		if matcher := hostMatcher(h.domains); matcher != nil {
			h.when.set("host", matcher)
		}
		own := n.get("rate_limits").each()
		for _, r := range n.get("routes").each() {
			h.routes = append(h.routes, c.route(r, h, own))
		}
		if len(h.routes) == 0 && len(own) > 0 { // as where a control plane adds limits
			h.routes = []*route{{host: h, known: true, limits: own, node: n}}
		}
		all = append(all, h)
	}
	for _, h := range all {
		h.others = moreSpecific(h, all)
	}
	return all
}

// route reads one route. A virtual host's limits hold for routes without any, and
// for those that ask for them.
func (c routing) route(n node, h *virtualHost, inherited []node) *route {
	r := &route{host: h, node: n, known: true}
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
	r.when, r.known = c.routeMatch(n.get("match"), len(r.limits) > 0)
	return r
}

// ignoredInMatch are fields of a route's match that no rule can hold.
var ignoredInMatch = []string{
	"query_parameters", "runtime_fraction", "connect_matcher", "path_match_policy", "grpc", "tls_context",
	"dynamic_metadata", "filter_state", "cookies",
}

// routeMatch turns a route's match into conditions. It reports what has no
// counterpart where it matters, and false then.
func (c routing) routeMatch(n node, limited bool) (conditions, bool) {
	quiet := c
	if !limited {
		quiet = routing{newConverter()}
	}
	when, known := quiet.headerMatches(n.get("headers").each())
	insensitive := !n.get("case_sensitive").flag(true)
	path := func(op, value string) any {
		pattern, _ := asRegex(object{{op, value}})
		switch {
		case insensitive:
			return object{{"regex", "(?i)" + pattern}}
		case op == "exact":
			return value
		}
		return object{{op, value}}
	}
	switch {
	case n.get("prefix").ok():
		if prefix := n.get("prefix").text(); prefix != "/" && prefix != "" {
			when.set("path", path("prefix", prefix))
		}
	case n.get("path").ok():
		when.set("path", path("exact", n.get("path").text()))
	case n.get("path_separated_prefix").ok():
		pattern, _ := asRegex(object{{"prefix", n.get("path_separated_prefix").text()}})
		when.set("path", object{{"regex", pattern + "(/|$)"}})
	case n.get("safe_regex").ok():
		when.set("path", whole(n.get("safe_regex", "regex").text()))
	}
	for _, name := range ignoredInMatch {
		if n.get(name).ok() {
			quiet.report(Differs, n, "%s of the route's match is ignored: the rule applies to all requests that the rest of "+
				"it matches", name)
			known = false
		}
	}
	return when, known
}

// overlap reports whether a request may match both routes by their paths: one begins with the other.
func overlap(a, b *route) bool {
	one, other := begin(a.when), begin(b.when)
	return strings.HasPrefix(one, other) || strings.HasPrefix(other, one)
}

// begin is the prefix of the paths of a match; an exact one ends with what no path has.
func begin(when conditions) string {
	exact, prefix := pathOf(when)
	if exact == "" {
		return prefix
	}
	return exact + "\n"
}

// pathOf is the path of a match, or its prefix; "" for any other.
func pathOf(when conditions) (exact, prefix string) {
	switch path := when.fields.get("path").(type) {
	case string:
		return path, ""
	case object:
		prefix, _ = path.get("prefix").(string)
	}
	return "", prefix
}

// moreSpecific are the domains of other virtual hosts that Envoy prefers to those of h:
// whole ones to those with "*" at the beginning, these to those with "*" at the end, and
// the longer of two.
func moreSpecific(h *virtualHost, all []*virtualHost) (others []otherDomain) {
	for _, other := range all {
		for _, domain := range other.domains {
			prefers := func(own string) bool { return own != domain && prefers(domain, own) }
			if other == h || !slices.ContainsFunc(h.domains, prefers) {
				continue
			}
			others = append(others, otherDomain{other, hostMatcher([]string{domain})})
		}
	}
	return others
}

// prefers reports whether some host is of both domains, and Envoy takes the first.
func prefers(domain, to string) bool {
	if domain == "*" || to == "*" {
		return domain != "*"
	}
	begins, byPrefix := strings.CutSuffix(to, "*")
	ends, bySuffix := strings.CutPrefix(to, "*")
	switch {
	case bySuffix:
		return !strings.HasSuffix(domain, "*") && strings.HasSuffix(domain, ends)
	case byPrefix: // "*.com" and "a.*": "a.com" is of both
		return strings.HasPrefix(domain, "*") || strings.HasPrefix(domain, begins)
	}
	return false
}

// hostMatcher compares with any of a virtual host's domains; nil if they are all there are.
func hostMatcher(domains []string) (matcher any) {
	var patterns []string
	for _, domain := range domains {
		switch {
		case domain == "*" || domain == "":
			return nil
		case strings.HasPrefix(domain, "*"):
			matcher = object{{"suffix", withoutPort(domain[1:])}}
		case strings.HasSuffix(domain, "*"):
			matcher = object{{"prefix", domain[:len(domain)-1]}}
		default:
			matcher = withoutPort(domain)
		}
		if pattern, ok := asRegex(matcher); ok && !slices.Contains(patterns, pattern) {
			patterns = append(patterns, pattern)
		}
	}
	if len(patterns) > 1 {
		matcher = object{{"regex", strings.Join(patterns, "|")}}
	}
	return matcher
}

// withoutPort drops the port of a domain: "a:80", "a:*".
func withoutPort(domain string) string {
	host, port, found := strings.Cut(domain, ":")
	if !found || strings.Contains(port, ":") { // an IPv6 address stays
		return domain
	}
	return host
}
