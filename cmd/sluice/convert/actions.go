package convert

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
)

// entry is one part of a descriptor: what an action sends.
type entry struct {
	key      string
	static   bool
	value    string // of a static one
	source   object // else the component of a rule's key
	field    string // of a match that compares the source, "headers" or "query"; "" for none
	name     string // of the header or query parameter
	only     conditions
	at       node
	optional bool // without a value the descriptor lacks the entry
}

// is a match by what the entry's source has.
func (e *entry) is(matcher any) object { return named(e.field, e.name, matcher) }

// limiting makes rules of what rate limits send and what descriptors limit.
type limiting struct{ routing }

// entries turns the actions of one rate limit into the entries of its descriptor.
// It reports false if one has no counterpart: then the descriptor is never sent.
func (c limiting) entries(limit node, cluster string) ([]entry, bool) {
	var all []entry
	for _, action := range limit.get("actions").each() {
		names := action.names()
		if len(names) != 1 {
			c.unasked(action, "not one action")
			return nil, false
		}
		name := strings.ToLower(capital.ReplaceAllString(names[0], "_$1")) // from camel case
		e, ok := c.entry(action.get(names[0]), name, cluster)
		if !ok {
			return nil, false
		}
		e.at = action
		all = append(all, e)
	}
	return all, len(all) > 0
}

var capital = regexp.MustCompile("([A-Z])")

func (c limiting) entry(n node, action, cluster string) (entry, bool) {
	key := func(fallback string) string { return cmp.Or(n.get("descriptor_key").text(), fallback) }
	switch action {
	case "generic_key":
		return c.plain(n, entry{key: key("generic_key"), static: true, value: n.get("descriptor_value").text()})
	case "request_headers":
		header := strings.ToLower(n.get("header_name").text())
		e := entry{key: key(""), optional: n.get("skip_if_absent").flag(false)}
		switch header {
		case ":path":
			c.report(Differs, n, "the path counts without its query, and as upstreams read it")
			e.source = object{{"path", true}}
		case ":method":
			e.source = object{{"method", true}}
		case ":authority", "host":
			c.report(Differs, n, "the host counts in lower case and without its port")
			e.source = object{{"host", true}}
		default:
			e.source, e.field, e.name = object{{"header", header}}, "headers", header
		}
		return e, true
	case "query_parameters":
		name := n.get("query_parameter_name").text()
		e := entry{key: key(""), source: object{{"query", name}}, field: "query", name: name}
		e.optional = n.get("skip_if_absent").flag(false)
		return e, true
	case "remote_address":
		return entry{key: "remote_address", source: object{{"client_ip", true}}}, true
	case "masked_remote_address":
		v4, v6 := n.get("v4_prefix_mask_len").number(32), n.get("v6_prefix_mask_len").number(128)
		prefixes := object{{"v4_prefix", v4}, {"v6_prefix", v6}}
		return entry{key: "masked_remote_address", source: object{{"client_ip", prefixes}}}, true
	case "destination_cluster":
		if cluster != "" {
			return entry{key: "destination_cluster", static: true, value: cluster}, true
		}
		return entry{key: "destination_cluster", source: object{{"property", []any{"xds", "cluster_name"}}}}, true
	case "source_cluster":
		return entry{key: "source_cluster", source: object{{"property", []any{"node", "cluster"}}}}, true
	case "header_value_match":
		return c.valueMatch(n, key("header_match"), "headers", c.headerMatch)
	case "query_parameter_value_match":
		return c.valueMatch(n, key("query_match"), "query_parameters", c.queryMatch)
	case "metadata", "dynamic_metadata":
		path := []any{n.get("metadata_key", "key").text()}
		for _, segment := range n.get("metadata_key", "path").each() {
			path = append(path, segment.get("key").text())
		}
		source := object{{"metadata", path}}
		if strings.EqualFold(n.get("source").text(), "ROUTE_ENTRY") {
			source = object{{"property", append([]any{"xds", "route_metadata", "filter_metadata"}, path...)}}
		}
		return withDefault(n, key(""), source), true
	case "extension":
		config := n.get("typed_config")
		if text := config.get("text"); text.ok() {
			n.get("name")
			return entry{key: config.get("descriptor_key").text(), source: object{{"expr", text.text()}}}, true
		}
		if claim := config.get("claim_name"); claim.ok() {
			n.get("name")
			return c.claim(config, claim.text()), true
		}
		return c.unasked(n, "the extension %q", n.get("name").text())
	}
	return c.unasked(n, "the action %s", action)
}

// unasked reports what no descriptor can be made of.
func (c limiting) unasked(at node, what string, args ...any) (entry, bool) {
	c.report(Missing, at, what+": no rule asks for its descriptor, so that nobody is held to that limit", args...)
	return entry{}, false
}

// plain accepts a static value without Envoy's placeholders.
func (c limiting) plain(n node, e entry) (entry, bool) {
	if strings.Contains(e.value, "%") {
		return c.unasked(n, "a value with placeholders, %q", e.value)
	}
	return e, true
}

// valueMatch is a static entry that is sent under conditions.
func (c limiting) valueMatch(
	n node, key, field string, by func(n node) (conditions, bool),
) (entry, bool) {
	var only conditions // which all must hold
	ok := true
	for _, m := range n.get(field).each() {
		one, fits := by(m)
		if !fits {
			ok = false
			continue
		}
		if only, fits = only.and(one); !fits {
			c.report(Missing, m, "a second condition on the same thing: no rule has the limit behind it")
			ok = false
		}
	}
	if !ok {
		return entry{}, false
	}
	if !n.get("expect_match").flag(true) {
		only = conditions{nots: []object{only.match()}}
	}
	return c.plain(n, entry{key: key, static: true, value: n.get("descriptor_value").text(), only: only})
}

// withDefault is an entry of what a source has, with its default.
func withDefault(n node, key string, source object) entry {
	if fallback := n.get("default_value").text(); fallback != "" {
		source = source.with("default", fallback)
	}
	return entry{key: key, source: source, optional: n.get("skip_if_absent").flag(false)}
}

// claim is an entry of a token's claim. Envoy 1.40 reads it from any token; a rule's key only has
// what jwt_authn has verified.
// https://www.envoyproxy.io/docs/envoy/v1.40.0/api-v3/extensions/rate_limit_descriptors/jwt_claim/v3/jwt_claim.proto
func (c limiting) claim(config node, name string) entry {
	for _, where := range []string{"header_name", "cookie", "value_prefix"} {
		config.get(where)
	}
	c.report(Differs, config, "the claim %q counts where jwt_authn has verified its token "+
		"(its provider needs payload_in_metadata: payload); Envoy reads it unverified", name)
	path := []any{"envoy.filters.http.jwt_authn", "payload"}
	for part := range strings.SplitSeq(name, ".") {
		path = append(path, part)
	}
	return withDefault(config, config.get("descriptor_key").text(), object{{"metadata", path}})
}

// cost is the units that a request takes.
func (c limiting) cost(limit node) any {
	hits := limit.get("hits_addend")
	if !hits.ok() {
		return nil
	}
	if n := hits.get("number"); n.ok() {
		return n.number(1)
	}
	pattern := regexp.MustCompile(`^%REQ\(([^):]+)\)%$`)
	if found := pattern.FindStringSubmatch(hits.get("format").text()); found != nil {
		c.report(Differs, hits, "a cost from a header is at most 1000000, and 1 where there is no number")
		return object{{"header", strings.ToLower(found[1])}, {"default", int64(1)}}
	}
	hint, response := "", regexp.MustCompile(`^%RESP\(([^):]+)\)%$`)
	if found := response.FindStringSubmatch(hits.get("format").text()); found != nil {
		hint = fmt.Sprintf(` (what the response shows is charged by "settle": {"cost": {"header": %q, "max": ...}})`,
			strings.ToLower(found[1]))
	}
	c.report(Missing, hits, "a cost from %q: every request counts 1%s", hits.get("format").text(), hint)
	return nil
}
