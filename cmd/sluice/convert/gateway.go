package convert

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strings"
)

// Gateway converts the BackendTrafficPolicies of Envoy Gateway that limit rates.
// https://gateway.envoyproxy.io/docs/api/extension_types/#ratelimitspec
func Gateway(file File) (Result, error) {
	documents, err := parseNodes(file.Name, file.Text)
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
	kind, text := Note, "local limits: each Envoy counts on its own, as there; with \"redis\" in the configuration all "+
		"Envoys share one limit"
	if shared {
		kind, text = Differs, "local limits are now shared by all Envoys, where each Envoy counted on its own"
	}
	for _, n := range c.locals {
		c.report(kind, n, "%s", text)
	}
	if policies > 1 {
		c.report(Differs, node{}, "%d policies became one configuration, for all routes: put each where its targetRefs "+
			"point (EnvoyExtensionPolicy)", policies)
	}
	if !shared {
		return c.result(nil)
	}
	c.report(Differs, node{}, "%s", requestsRejected)
	return c.result(object{{"redis", object{{"cluster", "sluice-redis"}}}})
}

// policy converts one policy. It reports whether its counters are shared.
func (c *converter) policy(n node) (shared bool) {
	name, limits := n.get("metadata", "name").text(), n.get("spec", "rateLimit")
	shared = limits.get("global").ok()
	algorithm, rules := "fixed_window", limits.get("global", "rules")
	if !shared {
		algorithm, rules = "token_bucket", limits.get("local", "rules")
		c.locals = append(c.locals, limits.get("local"))
		c.report(Differs, limits.get("local"),
			"a request is held to every rule that matches, there to the rule without clientSelectors only if no other does")
	}
	if n := n.get("spec", "mergeType"); n.ok() {
		c.report(Missing, n, "mergeType: the limits of the Gateway's policy are not merged in: requests of this route are "+
			"held to the limits of this file alone")
	}
	limits.get("type")
	for i, rule := range rules.each() {
		g := gatewayRule{converter: c, name: name, index: i, algorithm: algorithm, node: rule, own: shared &&
			!rule.get("shared").flag(false)}
		selectors := rule.get("clientSelectors").each()
		if len(selectors) == 0 {
			selectors = []node{{at: rule.at, file: rule.file}}
		}
		if len(selectors) > 1 {
			c.report(Differs, rule, "each of its clientSelectors has counters of its own")
		}
		for _, selector := range selectors {
			g.convert(selector)
		}
	}
	c.unread(limits)
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
	length, err := window(strings.ToLower(g.node.get("limit", "unit").text()), 1)
	if err != nil {
		g.report(Missing, g.node, "%v", err)
		return
	}
	requests := g.node.get("limit", "requests")
	limit := object{{"algorithm", g.algorithm}, {"limit", requests.number(0)}, {"window", length}}
	limits := field{"limits", []any{limit}}
	if values != nil {
		tier := object{{values.get("value").(string), []any{limit}}}
		limits = field{"limits_by", object{{"source", values.get("source")}, {"values", tier}}}
	}
	asked, cost := g.node.get("cost"), any(nil) // nil for 1
	if response := asked.get("response"); response.ok() {
		g.report(Missing, response,
			"a cost that comes with the response: requests cost what they cost on arrival (\"settle\" charges the true cost)")
	}
	request := asked.get("request")
	request.get("from")
	if n := request.get("number"); n.ok() {
		cost = n.number(1)
	} else if request.get("metadata").ok() {
		g.report(Missing, request, "a cost from metadata: every request counts 1")
	}
	shadow := g.node.get("shadowMode").flag(false)
	switch {
	case unlimited(requests) && g.algorithm == "token_bucket":
		g.report(Missing, g.node, "no limit (%d requests): requests that match it are held to the other rules' limits",
			math.MaxUint32)
		return
	case unlimited(requests):
		g.report(Note, g.node, "no limit (%d requests), so no rule", math.MaxUint32)
		return
	}
	name := g.converter.name(g.name, fmt.Sprint(g.index))
	g.add(g.node, assemble(name, when.match(), key, cost, limits, shadow))
}

// selector turns a client selector into a key and conditions, and for a network
// into the only tier that has a limit.
func (g *gatewayRule) selector(n node) (key []any, when conditions, tier object, ok bool) {
	for _, names := range []struct{ list, field, component string }{
		{"headers", "headers", "header"}, {"queryParams", "query", "query"},
	} {
		for _, m := range n.get(names.list).each() {
			if key, when, ok = g.named(m, names.field, names.component, key, when); !ok {
				return nil, when, nil, false
			}
		}
	}
	var methods []any
	for _, method := range n.get("methods").each() {
		methods = append(methods, method.get("value").text()+method.text())
	}
	if methods != nil {
		when.set("methods", methods)
	}
	if path := n.get("path"); path.ok() {
		value := path.get("value").text()
		switch path.get("type").text() {
		case "PathPrefix":
			when.set("path", object{{"prefix", value}})
		case "RegularExpression":
			when.set("path", whole(value))
		default:
			when.set("path", value)
		}
	}
	cidr := n.get("sourceCIDR")
	if cidr.ok() {
		component, value, err := network(cidr.get("value").text())
		if err != nil {
			g.report(Missing, cidr, "%v", err)
			return nil, when, nil, false
		}
		if value != "" {
			tier = object{{"source", component}, {"value", value}}
		}
		// Each address has a counter.
		if kind := cidr.get("type").text(); kind == "Distinct" || value == "" && kind != "Exact" {
			key = append(key, object{{"client_ip", true}})
		}
	}
	if text := cidr.get("value").text(); otherFamily[text] != "" {
		when.set("client_ip", []any{text})
		g.report(Note, cidr, "this rule does not limit clients with %s addresses, as there (without match.client_ip it does)",
			otherFamily[text])
	}
	return key, when, tier, true
}

// otherFamily is the kind of addresses that is not in the network of all IPv4 or of all IPv6 addresses.
var otherFamily = map[string]string{"0.0.0.0/0": "IPv6", "::/0": "IPv4"}

// unlimited reports whether a number of requests is the highest that there can be, by which people say that
// there is no limit.
func unlimited(n node) bool { return n.number(0) == math.MaxUint32 }

// named adds the part of a selector that is about one header or query parameter. One of which each
// value has a counter is part of the key, any other is a condition.
func (g *gatewayRule) named(
	n node, field, component string, key []any, when conditions,
) ([]any, conditions, bool) {
	name, value, what := n.get("name").text(), n.get("value").text(), "query parameter"
	if component == "header" {
		name, what = strings.ToLower(name), component
	}
	var matcher any
	switch n.get("type").text() {
	case "Distinct":
		return append(key, object{{component, name}}), when, true
	case "RegularExpression":
		matcher = whole(value)
	default:
		matcher = value
	}
	one := conditions{fields: named(field, name, matcher)}
	if n.get("invert").flag(false) {
		one = conditions{nots: []object{one.match()}}
	}
	both, fits := when.and(one)
	if !fits {
		g.report(Missing, n, "a second condition on the %s %q: the rule is left out, and nobody limited by it", what, name)
	}
	return key, both, fits
}

// network is the component that an address or a network is a value of, and the
// value; "" for all addresses.
func network(text string) (component object, value string, err error) {
	if text == "" || text == "*" || otherFamily[text] != "" {
		return object{{"client_ip", true}}, "", nil
	}
	if addr, err := netip.ParseAddr(text); err == nil {
		return object{{"client_ip", true}}, addr.String(), nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return nil, "", fmt.Errorf("%q is not an address or network", text)
	}
	prefix = prefix.Masked()
	if prefix.IsSingleIP() {
		return object{{"client_ip", true}}, prefix.Addr().String(), nil
	}
	name := "v6_prefix"
	if prefix.Addr().Is4() {
		name = "v4_prefix"
	}
	return object{{"client_ip", object{{name, int64(prefix.Bits())}}}}, prefix.String(), nil
}
