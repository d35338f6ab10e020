package convert

import (
	"errors"
	"fmt"
	"strings"
)

// Gateway converts the BackendTrafficPolicies of Envoy Gateway that limit rates.
// https://gateway.envoyproxy.io/docs/api/extension_types/#ratelimitspec
func Gateway(text []byte) (Result, error) {
	documents, err := parseNodes(text)
	if err != nil {
		return Result{}, err
	}
	c := newConverter()
	policies, shared := 0, false
	for _, document := range documents {
		document.find(func(n node) bool {
			if n.get("kind").text() != "BackendTrafficPolicy" || !n.get("spec", "rateLimit").ok() {
				return true
			}
			policies++
			shared = c.policy(n) || shared
			return false
		})
	}
	if policies == 0 {
		return Result{}, errors.New("no BackendTrafficPolicy with a rateLimit")
	}
	if policies > 1 {
		c.report(Differs, "", "%d policies became one configuration, for all routes: put each where its targetRefs point (EnvoyExtensionPolicy)", policies)
	}
	c.report(Differs, "", "a rejected request consumes nothing of any limit; the service counts it in all of them")
	fields := object{}
	if shared {
		fields = fields.with("redis", object{{"cluster", "sluice-redis"}})
	}
	return c.result(fields)
}

// policy converts one policy. It reports whether its counters are shared.
func (c *converter) policy(n node) (shared bool) {
	name, limits := n.get("metadata", "name").text(), n.get("spec", "rateLimit")
	shared = limits.get("global").ok()
	algorithm, rules := "fixed_window", limits.get("global", "rules")
	if !shared {
		algorithm, rules = "token_bucket", limits.get("local", "rules")
		c.report(Differs, limits.at, "local limits: counted in one Envoy, if the configuration has no \"redis\"; of several rules all that match apply")
	}
	for i, rule := range rules.each() {
		g := gatewayRule{converter: c, name: name, index: i, algorithm: algorithm, node: rule, own: shared && !rule.get("shared").flag(false)}
		selectors := rule.get("clientSelectors").each()
		if len(selectors) == 0 {
			selectors = []node{{at: rule.at}}
		}
		if len(selectors) > 1 {
			c.report(Differs, rule.at, "each of its clientSelectors has counters of its own")
		}
		for _, selector := range selectors {
			g.convert(selector)
		}
	}
	return shared
}

// gatewayRule is one rule of a policy.
type gatewayRule struct {
	*converter
	node
	name      string
	index     int
	algorithm string
	own       bool // each route has counters of its own
}

// convert makes the rule of one selector.
func (g *gatewayRule) convert(selector node) {
	key, when, values, ok := g.selector(selector)
	if !ok {
		return
	}
	if g.own {
		key = append([]any{object{{"property", []any{"xds", "route_name"}}}}, key...)
	}
	limit, ok := g.limit()
	if !ok {
		return
	}
	limits := field{"limits", []any{limit}}
	if values != nil {
		tier := object{{values.get("value").(string), []any{limit}}}
		limits = field{"limits_by", object{{"source", values.get("source")}, {"values", tier}}}
	}
	match, fits := when.match()
	if !fits {
		g.report(Differs, selector.at, "more than one thing must not hold, which one match cannot say: the rule applies to too many requests")
	}
	name := g.converter.name(g.name, fmt.Sprint(g.index))
	shadow := g.node.get("shadowMode").flag(false)
	g.add(g.node.at, assemble(name, match, key, g.requestCost(), limits, shadow))
}

// selector turns a client selector into a key and conditions, and for a network
// into the only tier that has a limit.
func (g *gatewayRule) selector(n node) (key []any, when conditions, tier object, ok bool) {
	if key, when, ok = g.headers(n); !ok {
		return nil, when, nil, false
	}
	for _, method := range n.get("methods").each() {
		when.methods = append(when.methods, method.get("value").text()+method.text())
	}
	if path := n.get("path"); path.ok() {
		when.path = pathMatch(path)
	}
	if queries := n.get("queryParams"); queries.ok() {
		g.report(Missing, queries.at, "a condition on query parameters")
		return nil, when, nil, false
	}
	tier, byAddress, ok := g.source(n.get("sourceCIDR"))
	if byAddress {
		key = append(key, object{{"client_ip", true}})
	}
	return key, when, tier, ok
}

// headers is what a selector makes of headers: those of which each value has a counter
// are part of the key, the others are conditions.
func (g *gatewayRule) headers(n node) (key []any, when conditions, ok bool) {
	for _, h := range n.get("headers").each() {
		name, value := strings.ToLower(h.get("name").text()), h.get("value").text()
		var matcher any
		switch h.get("type").text() {
		case "Distinct":
			key = append(key, object{{"header", name}})
			continue
		case "RegularExpression":
			matcher = whole(value)
		default:
			matcher = value
		}
		one := conditions{headers: []headerCondition{{name, matcher}}}
		if h.get("invert").flag(false) {
			match, _ := one.match()
			one = conditions{nots: []object{match}}
		}
		var fits bool
		if when, fits = when.and(one); !fits {
			g.report(Missing, h.at, "a second condition on one header")
			return nil, when, false
		}
	}
	return key, when, true
}

// source is what a selector makes of the client's network: a tier, and whether each
// address has a counter.
func (g *gatewayRule) source(n node) (tier object, byAddress, ok bool) {
	if !n.ok() {
		return nil, false, true
	}
	component, value, err := network(anyNetwork(n.get("value").text()))
	if err != nil {
		g.report(Missing, n.at, "%v", err)
		return nil, false, false
	}
	if value != "" {
		tier = object{{"source", component}, {"value", value}}
	}
	kind := n.get("type").text()
	return tier, kind == "Distinct" || value == "" && kind != "Exact", true
}

// anyNetwork is "" for the network of all addresses.
func anyNetwork(text string) string {
	if text == "*" || text == "0.0.0.0/0" || text == "::/0" {
		return ""
	}
	return text
}

// pathMatch is a path of the Gateway API.
func pathMatch(n node) any {
	value := n.get("value").text()
	switch n.get("type").text() {
	case "PathPrefix":
		return object{{"prefix", value}}
	case "RegularExpression":
		return whole(value)
	}
	return value
}

func (g *gatewayRule) limit() (object, bool) {
	unit := strings.ToLower(g.node.get("limit", "unit").text())
	window, err := (&rateLimit{Unit: unit}).window()
	if err != nil {
		g.report(Missing, g.node.at, "%v", err)
		return nil, false
	}
	return object{{"algorithm", g.algorithm}, {"limit", g.node.get("limit", "requests").number(0)}, {"window", window}}, true
}

// requestCost is what a request takes; nil for 1.
func (g *gatewayRule) requestCost() any {
	cost := g.node.get("cost")
	if cost.get("response").ok() {
		g.report(Missing, cost.at, "a cost that comes with the response")
	}
	request := cost.get("request")
	if n := request.get("number"); n.ok() {
		return n.number(1)
	}
	if request.get("metadata").ok() {
		g.report(Missing, request.at, "a cost from metadata: every request counts 1")
	}
	return nil
}
