package convert

import (
	"slices"
	"strings"
)

// use is a rate limit and the routes that have it. Its descriptors are the same
// on all of them, and so are the service's counters.
type use struct {
	limit   node
	entries []entry
	routes  []*route
}

// uses are the different rate limits of a file.
func (c *converter) uses(e *envoy) (all []*use) {
	index := map[string]*use{}
	add := func(limit node, r *route) {
		cluster := ""
		if r != nil {
			cluster = r.cluster
		}
		entries, ok := c.entries(limit, cluster)
		if !ok {
			return
		}
		name := fingerprint(entries) + compactCost(limit)
		u := index[name]
		if u == nil {
			u = &use{limit: limit, entries: entries}
			index[name] = u
			all = append(all, u)
			c.settings(limit)
		}
		if r != nil {
			u.routes = append(u.routes, r)
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
		match, _ := e.only.match()
		s += compact(object{{"only", match}, {"optional", e.optional}})
	}
	return s
}

func compactCost(limit node) string {
	return limit.get("hits_addend", "format").text() + "/" + limit.get("hits_addend", "number").text()
}

// settings reports what a rate limit has beside its actions.
func (c *converter) settings(limit node) {
	if limit.get("limit").ok() {
		c.report(Missing, limit.at, "a limit that overrides the service's")
	}
	if limit.get("apply_on_stream_done").flag(false) {
		c.report(Differs, limit.at, "apply_on_stream_done: the request is charged when it comes, not when it has ended")
	}
	if limit.get("disable_key").ok() {
		c.report(Missing, limit.at, "disable_key: a rule is turned off with \"mode\": \"off\"")
	}
	if limit.get("stage").number(0) != 0 {
		c.report(Differs, limit.at, "stage: all rules are decided together")
	}
}

// exempts makes rules for the routes that are not limited and that Envoy looks at
// before limited ones.
func (c *converter) exempts(e *envoy) {
	if len(e.bare) > 0 {
		return
	}
	for _, h := range e.hosts {
		for _, other := range h.others {
			if !other.limited() && h.limited() {
				other.exempt = c.exempt(other.when, "host")
			}
		}
		for i, r := range h.routes {
			before, after := meeting(h, limitedRoutes(h), i)
			when, ok := h.when.and(r.when)
			if len(r.limits) == 0 && r.known && ok && after && !before && len(h.others) == 0 {
				r.exempt = c.exempt(when, strings.TrimPrefix(r.at, "virtual_hosts"))
			}
		}
	}
}

func limitedRoutes(h *virtualHost) (all []*route) {
	for _, r := range h.routes {
		if len(r.limits) > 0 {
			all = append(all, r)
		}
	}
	return all
}

// exempt adds a rule for requests that are not limited.
func (c *converter) exempt(when conditions, at string) bool {
	match, ok := when.match()
	if !ok || len(match) == 0 {
		return false
	}
	exact, prefix := pathOf(when.path)
	before := len(c.rules)
	c.add(at, object{{"name", c.name("unlimited", exact, prefix)}, {"match", match}, {"exempt", true}})
	return len(c.rules) > before
}

// where is the requests that go to the routes of a use: one set of conditions for
// each rule that is needed to say so.
func (c *converter) where(u *use, e *envoy) []conditions {
	if len(u.routes) == 0 || covers(u.routes, e.hosts) {
		return []conditions{{}}
	}
	var all []conditions
	for _, h := range e.hosts {
		var members []*route
		for _, r := range u.routes {
			if r.host == h {
				members = append(members, r)
			}
		}
		if len(members) > 0 {
			all = append(all, c.within(h, members)...)
		}
	}
	if len(all) > 1 {
		c.report(Differs, u.limit.at, "%d rules are needed for its routes: each has counters of its own, where the service had one", len(all))
	}
	return all
}

// covers reports whether routes are all that there are.
func covers(routes []*route, hosts []*virtualHost) bool {
	count := 0
	for _, h := range hosts {
		count += len(h.routes)
	}
	return count == len(routes)
}

// within is the requests that go to some routes of one virtual host.
func (c *converter) within(h *virtualHost, members []*route) []conditions {
	base := h.when
	base.nots = slices.Clone(base.nots)
	for _, other := range h.others {
		if !other.exempt {
			base.nots = append(base.nots, object{{"host", other.when.host}})
		}
	}
	if len(members) == len(h.routes) {
		return []conditions{base}
	}
	paths, every := true, false
	for _, r := range members {
		paths, every = paths && r.pathOnly(), every || r.when.path == nil
	}
	if paths && every && len(members) > 1 {
		return []conditions{c.exclude(base, h, members)}
	}
	if !paths && len(members) > 1 {
		var all []conditions
		for _, r := range members {
			all = append(all, c.exclude(c.join(base, r), h, []*route{r}))
		}
		return all
	}
	if len(members) == 1 {
		return []conditions{c.exclude(c.join(base, members[0]), h, members)}
	}
	var patterns []string
	for _, r := range members {
		pattern, _ := asRegex(r.when.path)
		patterns = append(patterns, pattern)
	}
	base.path = object{{"regex", strings.Join(patterns, "|")}}
	return []conditions{c.exclude(base, h, members)}
}

func (c *converter) join(base conditions, r *route) conditions {
	joined, ok := base.and(r.when)
	if !ok {
		c.report(Differs, r.at, "the route's match and its virtual host's ask for the same thing: the host alone is looked at")
		return base
	}
	return joined
}

// exclude takes away the requests that an earlier route gets.
func (c *converter) exclude(when conditions, h *virtualHost, members []*route) conditions {
	when.nots = slices.Clone(when.nots)
	for i, r := range h.routes {
		before, after := meeting(h, members, i)
		if slices.Contains(members, r) || !after || r.exempt {
			continue
		}
		match, ok := r.when.match()
		if before || !ok || !r.known || len(match) == 0 {
			c.report(Differs, r.at, "what this route gets is limited by the rules of the routes after it, too")
			continue
		}
		when.nots = append(when.nots, match)
	}
	return when
}

// meeting reports whether requests that a route matches are also matched by
// members before it, and by members after it.
func meeting(h *virtualHost, members []*route, index int) (before, after bool) {
	for i, r := range h.routes {
		if i == index || !slices.Contains(members, r) || !overlap(r, h.routes[index]) {
			continue
		}
		before, after = before || i < index, after || i > index
	}
	return before, after
}
