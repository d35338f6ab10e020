package convert

import (
	"slices"
	"strings"
)

// This file says in conditions which requests Envoy sends to some routes: the first route that
// matches, in the virtual host whose domain is the most specific, gets a request.

// exempts makes rules for the routes that are not limited and that Envoy looks at
// before limited ones.
func (c routing) exempts(e *envoy) {
	if len(e.bare) > 0 {
		return
	}
	for _, h := range e.hosts {
		for _, o := range h.others {
			if !o.host.limited() && h.limited() {
				o.host.exempt = o.host.exempt || c.exempt(c.base(o.host), o.host.node)
			}
		}
		for i, r := range h.routes {
			before, after := meeting(h, i)
			when, ok := h.when.and(r.when)
			if len(r.limits) == 0 && r.known && ok && after && !before && len(h.others) == 0 {
				r.exempt = c.exempt(when, r.node)
			}
		}
	}
}

// meeting reports whether requests that a route matches are also matched by limited
// routes before it, and by limited ones after it.
func meeting(h *virtualHost, index int) (before, after bool) {
	for i, r := range h.routes {
		if i == index || len(r.limits) == 0 || !overlap(r, h.routes[index]) {
			continue
		}
		before, after = before || i < index, after || i > index
	}
	return before, after
}

// exempt adds a rule for requests that are not limited.
func (c routing) exempt(when conditions, at node) bool {
	match := when.match()
	if len(match) == 0 {
		return false
	}
	exact, prefix := pathOf(when)
	before := len(c.rules)
	c.add(at, object{{"name", c.name("unlimited", exact, prefix)}, {"match", match}, {"exempt", true}})
	return len(c.rules) > before
}

// where is the requests that go to some routes. It reports false if there are none.
func (c routing) where(routes []*route, e *envoy) (conditions, bool) {
	if len(routes) == 0 || covers(routes, e.hosts) {
		return conditions{}, true
	}
	var all []conditions
	for _, h := range e.hosts {
		var members []*route
		for _, r := range routes {
			if r.host == h {
				members = append(members, r)
			}
		}
		if len(members) == 0 {
			continue
		}
		base := c.base(h)
		if len(members) == len(h.routes) {
			all = append(all, base)
			continue
		}
		for _, one := range joined(c.within(h, members)) {
			all = append(all, base.both(one))
		}
	}
	return either(all), len(all) > 0
}

// covers reports whether routes are all that there are.
func covers(routes []*route, hosts []*virtualHost) bool {
	count := 0
	for _, h := range hosts {
		count += len(h.routes)
	}
	return count == len(routes)
}

// base is the requests that a virtual host gets.
func (c routing) base(h *virtualHost) conditions {
	base := h.when
	for _, o := range h.others {
		if !o.host.exempt {
			base = base.but(object{{"host", o.matcher}})
		}
	}
	return base
}

// within is the requests that go to some routes of one virtual host: one set of
// conditions for each route that the others do not cover.
func (c routing) within(h *virtualHost, members []*route) (all []conditions) {
	for _, r := range members {
		if covered(h, members, r) {
			continue
		}
		when, reached := r.when, true
		for _, earlier := range h.routes[:slices.Index(h.routes, r)] {
			if slices.Contains(members, earlier) || earlier.exempt || !overlap(earlier, r) {
				continue
			}
			match := earlier.when.match()
			switch {
			case !earlier.known:
				c.report(Differs, earlier.node, "what this route gets is limited by the rules of the routes after it, too")
			case len(match) == 0:
				reached = false
			default:
				when = when.but(match)
			}
		}
		if reached {
			all = append(all, when)
		}
	}
	return all
}

// covered reports whether a later member that takes every request that is left takes
// all of r's: no other route stands between them.
func covered(h *virtualHost, members []*route, r *route) bool {
	for i := slices.Index(h.routes, r) + 1; i < len(h.routes); i++ {
		later := h.routes[i]
		if !slices.Contains(members, later) {
			if !later.exempt && overlap(later, r) {
				return false
			}
		} else if len(later.when.match()) == 0 && later.known {
			return !slices.ContainsFunc(h.routes[:slices.Index(h.routes, r)], func(earlier *route) bool {
				return !slices.Contains(members, earlier) && !earlier.known && overlap(earlier, r)
			})
		}
	}
	return false
}

// joined makes one of those conditions that look at nothing but different paths.
func joined(all []conditions) []conditions {
	if len(all) < 2 {
		return all
	}
	var patterns []string
	for _, a := range all {
		pattern, ok := asRegex(a.fields.get("path"))
		if !ok || len(a.fields) > 1 || compact(notsOf(a)) != compact(notsOf(all[0])) {
			return all
		}
		patterns = append(patterns, pattern)
	}
	return []conditions{{object{{"path", object{{"regex", strings.Join(patterns, "|")}}}}, all[0].nots}}
}

func notsOf(a conditions) any { return conditions{nots: a.nots}.match() }

// both is the requests that fulfil a and b. What one match cannot say twice, such as a
// second path, is said as something whose opposite must not hold.
func (a conditions) both(b conditions) conditions {
	if joined, ok := a.and(b); ok {
		return joined
	}
	return a.but(object{{"not", b.match()}})
}

// either is the requests that fulfil any of some conditions: a match says so as "none of
// them must not hold".
func either(all []conditions) conditions {
	if len(all) == 1 {
		return all[0]
	}
	var matches []any
	for _, a := range all {
		match := a.match()
		if len(match) == 0 {
			return conditions{}
		}
		matches = append(matches, match)
	}
	if len(matches) == 0 {
		return conditions{}
	}
	return conditions{nots: []object{{{"not", matches}}}}
}
