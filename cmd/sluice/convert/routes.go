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
	local   node // its own settings of Envoy's filter for local limits, or those of its virtual host; may be absent
	// perRoute is the route's own settings of the filter, and the domain that they ask for.
	perRoute node
	domain   string
	node     // its place
}

// envoy holds the parts of an Envoy file that matter.
type envoy struct {
	routes []*route
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
			return true
		})
		document.find(func(n node) bool {
			if hosts := n.get("virtual_hosts"); hosts.ok() {
				for _, host := range hosts.each() {
					e.routes = append(e.routes, c.virtualHost(host)...)
				}
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

// virtualHost reads the routes of a virtual host. Its limits hold for routes without any, and for those that
// ask for them.
func (c *converter) virtualHost(host node) (routes []*route) {
	inherited, local := host.get("rate_limits").each(), localIn(host)
	for _, n := range host.get("routes").each() {
		action := n.get("route")
		r := &route{
			node: n, name: n.get("name").text(), cluster: action.get("cluster").text(),
			limits: action.get("rate_limits").each(), local: localIn(n),
		}
		if !r.local.ok() {
			r.local = local
		}
		ignored, added := false, action.get("include_vh_rate_limits").flag(false) // the virtual host's limits
		for _, name := range n.get("typed_per_filter_config").names() {
			per := n.get("typed_per_filter_config").get(name)
			if !strings.Contains(per.get("@type").text(), "ratelimit.v3.RateLimitPerRoute") {
				continue
			}
			r.perRoute, r.domain = per, per.get("domain").text()
			which := per.get("vh_rate_limits").text()
			ignored, added = ignored || which == "IGNORE" || which == "2", added || which == "INCLUDE" || which == "1"
			if own := per.get("rate_limits"); own.ok() {
				r.limits = own.each()
			}
			option := per.get("override_option")
			c.reportIf(option.ok() && option.text() != "DEFAULT", Missing, option,
				"override_option: the route's own limits are the ones that hold")
		}
		if !ignored && (len(r.limits) == 0 || added) {
			r.limits = append(slices.Clone(r.limits), inherited...)
		}
		routes = append(routes, r)
	}
	if len(routes) == 0 && len(inherited) > 0 { // as where a control plane adds limits
		routes = []*route{{limits: inherited, node: host}}
	}
	return routes
}

// celText writes a text between the quotes of CEL.
var celText = strings.NewReplacer(`\`, `\\`, `'`, `\'`)

// where is the requests that go to some routes: those of their names, or all where the file has no others. It
// reports false if no route can be told by its name.
func (c *converter) where(routes []*route, e *envoy) (when object, ok bool) {
	var others []string // names of routes that are not meant
	for _, r := range e.routes {
		if !slices.Contains(routes, r) {
			others = append(others, r.name)
		}
	}
	if len(routes) == 0 || len(others) == 0 {
		return when, true
	}
	var names []string
	for _, r := range routes {
		switch {
		case r.name == "":
			c.report(Missing, r.node, "a route without a name: a rule knows a route's requests by xds.route_name, so these "+
				"are not limited here (give the route a \"name\" in Envoy, and convert again)")
		case slices.Contains(others, r.name):
			c.report(Missing, r.node, "another route without this limit is named %q, too: this one's requests are not limited "+
				"here (give each route a \"name\" of its own in Envoy, and convert again)", r.name)
		case !slices.Contains(names, celText.Replace(r.name)):
			names = append(names, celText.Replace(r.name))
		}
	}
	switch list := strings.Join(names, "', '"); len(names) {
	case 0:
		return when, false
	case 1:
		when = when.set("expr", "xds.route_name == '"+list+"'")
	default:
		when = when.set("expr", "xds.route_name in ['"+list+"']")
	}
	return when, true
}

// use is a rate limit and the routes that have it. Its descriptors are the same
// on all of them, and so are the service's counters.
type use struct {
	limit   node
	service *service
	entries []entry
	routes  []*route
}

// uses are the different rate limits of a file.
func (c *converter) uses(e *envoy, services []*service, main *service) (all []*use) {
	index := map[string]*use{}
	add := func(limit node, r *route) {
		asked := main
		if r.domain != "" {
			at := slices.IndexFunc(services, func(s *service) bool { return s.domain == r.domain })
			if at < 0 {
				c.report(Missing, r.perRoute,
					"the route asks for the domain %q, whose file was not given: its requests are not limited here", r.domain)
				return
			}
			asked = services[at]
		}
		entries, ok := c.entries(limit, r.cluster)
		if !ok {
			return
		}
		cost := limit.get("hits_addend")
		name := fingerprint(entries) + cost.get("format").text() + "/" + cost.get("number").text() + asked.domain
		u := index[name]
		if u == nil {
			u = &use{limit: limit, service: asked, entries: entries}
			index[name], all = u, append(all, u)
			c.reportIf(limit.get("limit").ok(), Missing, limit,
				"limit: the service's own limit holds for everybody, also for those to whom this one gives more or less")
			c.reportIf(limit.get("apply_on_stream_done").flag(false), Differs, limit,
				"apply_on_stream_done: the request is charged when it comes, not when it has ended")
			c.reportIf(limit.get("disable_key").ok(), Missing, limit,
				"disable_key: the rule is on, also where that key of the runtime turns it off (\"mode\": \"off\" does)")
			c.reportIf(limit.get("stage").number(0) != 0, Differs, limit,
				"stage: all rules are decided together, also those that a filter of another stage asks for")
		}
		switch {
		case !r.ok():
		case slices.Contains(u.routes, r):
			c.report(Differs, limit,
				"the route and its virtual host send the same descriptor: there a request counts twice, here once")
		default:
			u.routes = append(u.routes, r)
		}
	}
	for _, limit := range e.bare {
		add(limit, &route{})
	}
	for _, r := range e.routes {
		for _, limit := range r.limits {
			add(limit, r)
		}
	}
	return all
}

// sends is the same for entries that make the same descriptors.
func sends(entries []entry) (s string) {
	for _, e := range entries {
		s += compact(object{{"key", e.key}, {"value", e.value}, {"source", e.source}})
	}
	return s
}

// fingerprint is the same for entries that make the same descriptors of the same
// requests.
func fingerprint(entries []entry) string {
	s := sends(entries)
	for _, e := range entries {
		s += compact(object{{"only", e.only.match()}, {"optional", e.optional}})
	}
	return s
}
