package convert

import (
	"slices"
	"strings"
)

// celText writes a text between the quotes of CEL.
var celText = strings.NewReplacer(`\`, `\\`, `'`, `\'`)

// where is the requests that go to some routes: those of their names, or all where the file has no others. It
// reports false if no route can be told by its name.
func (c routing) where(routes []*route, e *envoy) (conditions, bool) {
	var others []string // names of routes that are not meant
	for _, h := range e.hosts {
		for _, r := range h.routes {
			if !slices.Contains(routes, r) {
				others = append(others, r.name)
			}
		}
	}
	if len(routes) == 0 || len(others) == 0 {
		return conditions{}, true
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
	var when conditions
	switch len(names) {
	case 0:
		return when, false
	case 1:
		when.set("expr", "xds.route_name == '"+names[0]+"'")
	default:
		when.set("expr", "xds.route_name in ['"+strings.Join(names, "', '")+"']")
	}
	return when, true
}

// both is the requests that fulfil a and b. What one match cannot say twice, such as a
// second path, is said as something whose opposite must not hold.
func (a conditions) both(b conditions) conditions {
	if joined, ok := a.and(b); ok {
		return joined
	}
	return a.but(object{{"not", b.match()}})
}
