package convert

import (
	"slices"
	"strings"
)

// use is a rate limit and the routes that have it. Its descriptors are the same
// on all of them, and so are the service's counters.
type use struct {
	limit   node
	service *service
	entries []entry
	routes  []*route
}

// uses are the different rate limits of a file.
func (c fromService) uses(e *envoy, services []*service, main *service) (all []*use) {
	index := map[string]*use{}
	add := func(limit node, r *route) {
		cluster, asked := "", main
		if r != nil {
			cluster, asked = r.cluster, c.asks(r, services, main)
		}
		if asked == nil {
			return
		}
		entries, ok := c.entries(limit, cluster)
		if !ok {
			return
		}
		cost := limit.get("hits_addend")
		name := fingerprint(entries) + cost.get("format").text() + "/" + cost.get("number").text() + asked.domain
		u := index[name]
		if u == nil {
			u = &use{limit: limit, service: asked, entries: entries}
			index[name] = u
			all = append(all, u)
			c.settings(limit)
		}
		if r != nil {
			c.join(u, r, limit)
		}
	}
	for _, limit := range e.bare {
		add(limit, nil)
	}
	for _, h := range e.hosts {
		for _, r := range h.routes {
			for _, limit := range r.limits {
				add(limit, r)
			}
		}
	}
	return all
}

// join adds a route to those that have a rate limit.
func (c fromService) join(u *use, r *route, limit node) {
	if slices.Contains(u.routes, r) {
		c.report(Differs, limit, "the route and its virtual host send the same descriptor: there a request counts twice, "+
			"here once")
		return
	}
	u.routes = append(u.routes, r)
}

// asks is the file that a route's requests are held to; nil if it was not given.
func (c fromService) asks(r *route, services []*service, main *service) *service {
	if r.domain == "" {
		return main
	}
	for _, s := range services {
		if s.domain == r.domain {
			return s
		}
	}
	c.report(Missing, r.perRoute,
		"the route asks for the domain %q, whose file was not given: its requests are not limited here", r.domain)
	return nil
}

// sends is the same for entries that make the same descriptors.
func sends(entries []entry) string {
	var s strings.Builder
	for _, e := range entries {
		s.WriteString(compact(object{{"key", e.key}, {"value", e.value}, {"source", e.source}}))
	}
	return s.String()
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

// settings reports what else a rate limit has than its actions.
func (c fromService) settings(limit node) {
	if limit.get("limit").ok() {
		c.report(Missing, limit, "limit: the service's own limit holds for everybody, also for those to whom this one "+
			"gives more or less")
	}
	if limit.get("apply_on_stream_done").flag(false) {
		c.report(Differs, limit, "apply_on_stream_done: the request is charged when it comes, not when it has ended")
	}
	if limit.get("disable_key").ok() {
		c.report(Missing, limit, "disable_key: the rule is on, also where that key of the runtime turns it off (\"mode\": "+
			"\"off\" does)")
	}
	if limit.get("stage").number(0) != 0 {
		c.report(Differs, limit, "stage: all rules are decided together, also those that a filter of another stage asks for")
	}
}
