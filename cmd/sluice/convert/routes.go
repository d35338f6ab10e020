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
	at      string
	exempt  bool // a rule of its own says that it is not limited
}

type virtualHost struct {
	when   conditions
	others []*virtualHost // which are more specific, for "*"
	routes []*route
	all    bool // every request is for it
	exempt bool // as for a route
}

// limited reports whether any of the host's routes has limits.
func (h *virtualHost) limited() bool {
	return slices.ContainsFunc(h.routes, func(r *route) bool { return len(r.limits) > 0 })
}

// envoy is what matters of a file of Envoy.
type envoy struct {
	hosts  []*virtualHost
	bare   []node // rate limits outside of routes, such as in Istio's EnvoyFilter
	filter node   // Envoy's HTTP filter for rate limits; may be absent
}

const filterType = "envoy.extensions.filters.http.ratelimit.v3.RateLimit"

func (c *converter) readEnvoy(documents []node) *envoy {
	e := &envoy{}
	for _, document := range documents {
		document.find(func(n node) bool {
			if strings.HasSuffix(n.get("@type").text(), "/"+filterType) {
				e.filter = n
			}
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

func (c *converter) virtualHosts(list []node) (all []*virtualHost) {
	var specific []*virtualHost
	for _, n := range list {
		h := &virtualHost{}
		matcher, every := hostMatcher(n.get("domains").each())
		if every {
			h.all = len(list) == 1
		} else if matcher != nil {
			h.when.host = matcher
			specific = append(specific, h)
		}
		own := n.get("rate_limits").each()
		for _, r := range n.get("routes").each() {
			h.routes = append(h.routes, c.route(r, h, own))
		}
		if len(h.routes) == 0 && len(own) > 0 { // as where a control plane adds limits
			h.routes = []*route{{host: h, known: true, limits: own, at: n.at}}
		}
		all = append(all, h)
	}
	for _, h := range all {
		if h.when.host == nil && !h.all {
			h.others = specific
		}
	}
	return all
}

// hostMatcher compares with any of a virtual host's domains. It reports whether
// they are all there are.
func hostMatcher(domains []node) (matcher any, every bool) {
	var patterns []string
	for _, d := range domains {
		domain := strings.TrimSuffix(strings.ToLower(d.text()), ":*")
		switch {
		case domain == "*" || domain == "":
			return nil, true
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
	return matcher, false
}

// withoutPort drops the port of a domain: "a:80", "a:*".
func withoutPort(domain string) string {
	host, port, found := strings.Cut(domain, ":")
	if !found || strings.Contains(port, ":") { // an IPv6 address stays
		return domain
	}
	return host
}

// route reads one route. A virtual host's limits hold for routes without any, and
// for those that ask for them.
func (c *converter) route(n node, h *virtualHost, inherited []node) *route {
	r := &route{host: h, at: n.at, known: true}
	action := n.get("route")
	r.cluster = action.get("cluster").text()
	r.limits = action.get("rate_limits").each()
	for _, name := range n.get("typed_per_filter_config").names() {
		per := n.get("typed_per_filter_config").get(name)
		if strings.Contains(per.get("@type").text(), "ratelimit.v3.RateLimitPerRoute") && per.get("rate_limits").ok() {
			r.limits = per.get("rate_limits").each()
		}
	}
	if len(r.limits) == 0 || action.get("include_vh_rate_limits").flag(false) {
		r.limits = append(slices.Clone(r.limits), inherited...)
	}
	r.when, r.known = c.routeMatch(n.get("match"), len(r.limits) > 0)
	return r
}

// routeMatch turns a route's match into conditions. It reports what has no
// counterpart where it matters, and false then.
func (c *converter) routeMatch(n node, limited bool) (conditions, bool) {
	quiet := c
	if !limited {
		quiet = newConverter()
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
			when.path = path("prefix", prefix)
		}
	case n.get("path").ok():
		when.path = path("exact", n.get("path").text())
	case n.get("path_separated_prefix").ok():
		pattern, _ := asRegex(object{{"prefix", n.get("path_separated_prefix").text()}})
		when.path = object{{"regex", pattern + "(/|$)"}}
	case n.get("safe_regex").ok():
		when.path = whole(n.get("safe_regex", "regex").text())
	}
	for _, name := range []string{
		"query_parameters", "runtime_fraction", "connect_matcher", "path_match_policy", "grpc", "tls_context", "dynamic_metadata", "filter_state", "cookies",
	} {
		if n.get(name).ok() {
			quiet.report(Differs, n.at, "%s of the route's match is ignored: the rule applies to all requests that the rest of it matches", name)
			known = false
		}
	}
	return when, known
}

// overlap reports whether a request may match both routes by their paths.
func overlap(a, b *route) bool {
	exactA, prefixA := pathOf(a.when.path)
	exactB, prefixB := pathOf(b.when.path)
	switch {
	case exactA != "" && exactB != "":
		return exactA == exactB
	case exactA != "" && prefixB != "":
		return strings.HasPrefix(exactA, prefixB)
	case prefixA != "" && exactB != "":
		return strings.HasPrefix(exactB, prefixA)
	case prefixA != "" && prefixB != "":
		return strings.HasPrefix(prefixA, prefixB) || strings.HasPrefix(prefixB, prefixA)
	}
	return true
}

func pathOf(matcher any) (exact, prefix string) {
	if text, ok := matcher.(string); ok {
		return text, ""
	}
	if o, ok := matcher.(object); ok && len(o) == 1 && o[0].name == "prefix" {
		prefix, _ = o[0].value.(string)
	}
	return "", prefix
}

// pathOnly reports whether a route asks for nothing but a path.
func (r *route) pathOnly() bool {
	rest := r.when
	rest.path = nil
	return rest.empty() && r.known
}
