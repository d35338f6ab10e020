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
	documents, err := parseNodes(file)
	if err != nil {
		return Result{}, err
	}
	c := newConverter()
	var policies, locals []node
	for _, document := range documents {
		document.find(func(n node) bool {
			limits := n.get("spec", "rateLimit")
			if n.get("kind").text() != "BackendTrafficPolicy" || !limits.ok() {
				return true
			}
			policies = append(policies, n)
			if !limits.get("global").ok() {
				locals = append(locals, limits.get("local"))
			}
			c.policy(n, limits)
			return false
		})
	}
	if len(policies) == 0 {
		return Result{}, errors.New("no BackendTrafficPolicy with a rateLimit")
	}
	kind, text := Note, "local limits: each Envoy counts on its own, as there; with \"redis\" in the configuration all "+
		"Envoys share one limit"
	shared := len(locals) < len(policies)
	if shared {
		kind, text = Differs, "local limits are now shared by all Envoys, where each Envoy counted on its own"
	}
	for _, n := range locals {
		c.report(kind, n, "%s", text)
	}
	c.reportIf(len(policies) > 1, Differs, node{}, "%d policies became one configuration, for all routes: put each "+
		"where its targetRefs point (EnvoyExtensionPolicy)", len(policies))
	if !shared {
		return c.result(nil)
	}
	c.report(Differs, node{}, "%s", requestsRejected)
	return c.result(object{{"redis", object{{"cluster", "sluice-redis"}}}})
}

// policy converts one policy.
func (c *converter) policy(n, limits node) {
	shared := limits.get("global").ok()
	g := gatewayRule{converter: c, name: n.get("metadata", "name").text(), algorithm: "fixed_window"}
	rules := limits.get("global", "rules")
	if !shared {
		g.algorithm, rules = "token_bucket", limits.get("local", "rules")
		c.report(Differs, limits.get("local"),
			"a request is held to every rule that matches, there to the rule without clientSelectors only if no other does")
	}
	merged := n.get("spec", "mergeType")
	c.reportIf(merged.ok(), Missing, merged, "mergeType: the limits of the Gateway's policy are not merged in: requests "+
		"of this route are held to the limits of this file alone")
	limits.get("type")
	for i, rule := range rules.each() {
		g.index, g.node, g.own = i, rule, shared && !rule.get("shared").flag(false)
		selectors := rule.get("clientSelectors").each()
		if len(selectors) == 0 {
			selectors = []node{{at: rule.at, file: rule.file}}
		}
		c.reportIf(len(selectors) > 1, Differs, rule, "each of its clientSelectors has counters of its own")
		for _, selector := range selectors {
			g.convert(selector)
		}
	}
	c.unread(limits)
}

// gatewayRule is one rule of a policy.
type gatewayRule struct {
	*converter
	node
	name, algorithm string
	index           int
	own             bool // each route has counters of its own

	key  []any  // of what is made of one selector
	when object // of the same, a match
}

// convert makes the rule of one selector.
func (g *gatewayRule) convert(selector node) {
	g.key, g.when = nil, nil
	if g.own {
		g.key = []any{object{{"property", []any{"xds", "route_name"}}}}
	}
	network, only, ok := g.selector(selector)
	if !ok {
		return
	}
	length, err := window(strings.ToLower(g.node.get("limit", "unit").text()), 1)
	if err != nil {
		g.report(Missing, g.node, "%v", err)
		return
	}
	requests := g.node.get("limit", "requests")
	list := []any{limitOf(g.algorithm, requests.number(0), length)}
	limits := field{"limits", list}
	if only != "" {
		limits = field{"limits_by", object{{"source", network}, {"values", object{{only, list}}}}}
	}
	asked, cost := g.node.get("cost"), any(nil) // nil for 1
	response := asked.get("response")
	g.reportIf(response.ok(), Missing, response,
		"a cost that comes with the response: requests cost what they cost on arrival (\"settle\" charges the true cost)")
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
		g.report(Missing, g.node,
			"no limit (%d requests): requests that match it are held to the other rules' limits", math.MaxUint32)
	case unlimited(requests):
		g.report(Note, g.node, "no limit (%d requests), so no rule", math.MaxUint32)
	default:
		name := g.converter.name(g.name, fmt.Sprint(g.index))
		g.add(g.node, assemble(name, g.when.match(), g.key, cost, limits, shadow))
	}
}

// selector turns a client selector into the rule's key and conditions, and a network into the component and
// the only value that have a limit.
func (g *gatewayRule) selector(n node) (component object, value string, ok bool) {
	for _, m := range n.get("headers").each() {
		if !g.named(m, strings.ToLower(m.get("name").text()), "headers", "header", "header") {
			return nil, "", false
		}
	}
	for _, m := range n.get("queryParams").each() {
		if !g.named(m, m.get("name").text(), "query", "query", "query parameter") {
			return nil, "", false
		}
	}
	var methods []any
	for _, method := range n.get("methods").each() {
		methods = append(methods, method.get("value").text()+method.text())
	}
	if methods != nil {
		g.when = g.when.set("methods", methods)
	}
	if path := n.get("path"); path.ok() {
		value := path.get("value").text()
		switch path.get("type").text() {
		case "PathPrefix":
			g.when = g.when.set("path", object{{"prefix", value}})
		case "RegularExpression":
			g.when = g.when.set("path", whole(value))
		default:
			g.when = g.when.set("path", value)
		}
	}
	cidr := n.get("sourceCIDR")
	text := cidr.get("value").text()
	if cidr.ok() {
		var err error
		if component, value, err = network(text); err != nil {
			g.report(Missing, cidr, "%v", err)
			return nil, "", false
		}
		// Each address has a counter.
		if kind := cidr.get("type").text(); kind == "Distinct" || value == "" && kind != "Exact" {
			g.key = append(g.key, object{{"client_ip", true}})
		}
	}
	if otherFamily[text] != "" {
		g.when = g.when.set("client_ip", []any{text})
		g.report(Note, cidr,
			"this rule does not limit clients with %s addresses, as there (without match.client_ip it does)", otherFamily[text])
	}
	return component, value, true
}

// otherFamily is the kind of addresses that is not in the network of all IPv4 or of all IPv6 addresses.
var otherFamily = map[string]string{"0.0.0.0/0": "IPv6", "::/0": "IPv4"}

// unlimited reports whether a number of requests is the highest that there can be, by which people say that
// there is no limit.
func unlimited(n node) bool { return n.number(0) == math.MaxUint32 }

// named adds the part of a selector that is about one header or query parameter. One of which each
// value has a counter is part of the key, any other is a condition.
func (g *gatewayRule) named(n node, name, field, component, what string) (ok bool) {
	matcher := any(n.get("value").text())
	switch n.get("type").text() {
	case "Distinct":
		g.key = append(g.key, object{{component, name}})
		return true
	case "RegularExpression":
		matcher = whole(n.get("value").text())
	}
	one := named(field, name, matcher)
	if g.when, ok = g.when.and(one.inverted(n.get("invert").flag(false))); !ok {
		g.report(Missing, n, "a second condition on the %s %q: the rule is left out, and nobody limited by it", what, name)
	}
	return ok
}

// network is the component that an address or a network is a value of, and the
// value; "" for all addresses.
func network(text string) (component object, value string, err error) {
	address := object{{"client_ip", true}}
	if text == "" || text == "*" || otherFamily[text] != "" {
		return address, "", nil
	}
	if addr, err := netip.ParseAddr(text); err == nil {
		return address, addr.String(), nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return nil, "", fmt.Errorf("%q is not an address or network", text)
	}
	if prefix = prefix.Masked(); prefix.IsSingleIP() {
		return address, prefix.Addr().String(), nil
	}
	name := "v6_prefix"
	if prefix.Addr().Is4() {
		name = "v4_prefix"
	}
	return object{{"client_ip", object{{name, int64(prefix.Bits())}}}}, prefix.String(), nil
}
