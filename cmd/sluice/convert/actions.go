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
	only     object // the match of requests for which it is sent
	at       node
	optional bool // without a value the descriptor lacks the entry
}

// is a match by what the entry's source has.
func (e *entry) is(matcher any) object { return named(e.field, e.name, matcher) }

// entries turns the actions of one rate limit into the entries of its descriptor.
// It reports false if one has no counterpart: then the descriptor is never sent.
func (c *converter) entries(limit node, cluster string) (all []entry, ok bool) {
	for _, action := range limit.get("actions").each() {
		names := action.names()
		if len(names) != 1 {
			return nil, c.unasked(action, "not one action")
		}
		e := entry{at: action}
		name := strings.ToLower(capital.ReplaceAllString(names[0], "_$1")) // from camel case
		if !c.entry(&e, action.get(names[0]), name, cluster) {
			return nil, false
		}
		all = append(all, e)
	}
	return all, len(all) > 0
}

var capital = regexp.MustCompile("([A-Z])")

// pseudo are the components that are the headers of a name, and how they differ from it.
var pseudo = map[string]struct{ component, differs string }{
	":method":    {"method", ""},
	":path":      {"path", "the path counts without its query, and as upstreams read it"},
	":authority": {"host", "the host counts in lower case and without its port"},
	"host":       {"host", "the host counts in lower case and without its port"},
}

// entry reads an action into an entry. It reports false if that has no counterpart.
func (c *converter) entry(e *entry, n node, action, cluster string) bool {
	e.key = action // of an action whose entry has no key of its own
	switch action {
	case "generic_key":
		return c.static(e, n, action)
	case "header_value_match":
		return c.valueMatch(e, n, "headers", c.headerMatch) && c.static(e, n, "header_match")
	case "query_parameter_value_match":
		return c.valueMatch(e, n, "query_parameters", c.queryMatch) && c.static(e, n, "query_match")
	case "remote_address":
		e.source = object{{"client_ip", true}}
	case "masked_remote_address":
		v4, v6 := n.get("v4_prefix_mask_len").number(32), n.get("v6_prefix_mask_len").number(128)
		e.source = object{{"client_ip", object{{"v4_prefix", v4}, {"v6_prefix", v6}}}}
	case "destination_cluster":
		if e.static, e.value = cluster != "", cluster; !e.static {
			e.source = object{{"property", []any{"xds", "cluster_name"}}}
		}
	case "source_cluster":
		e.source = object{{"property", []any{"node", "cluster"}}}
	case "request_headers":
		e.keyed(n)
		header := strings.ToLower(n.get("header_name").text())
		p, ok := pseudo[header]
		if !ok {
			e.source, e.field, e.name = object{{"header", header}}, "headers", header
			break
		}
		if e.source = (object{{p.component, true}}); p.differs != "" {
			c.report(Differs, n, "%s", p.differs)
		}
	case "query_parameters":
		e.keyed(n)
		e.field, e.name = "query", n.get("query_parameter_name").text()
		e.source = object{{"query", e.name}}
	case "metadata", "dynamic_metadata":
		e.keyed(n)
		path := []any{n.get("metadata_key", "key").text()}
		for _, segment := range n.get("metadata_key", "path").each() {
			path = append(path, segment.get("key").text())
		}
		e.source = object{{"metadata", path}}
		if strings.EqualFold(n.get("source").text(), "ROUTE_ENTRY") {
			e.source = object{{"property", append([]any{"xds", "route_metadata", "filter_metadata"}, path...)}}
		}
		e.orElse(n)
	case "extension":
		config := n.get("typed_config")
		text, claim := config.get("text"), config.get("claim_name")
		if !text.ok() && !claim.ok() {
			return c.unasked(n, "the extension %q", n.get("name").text())
		}
		n.get("name")
		if text.ok() {
			e.key, e.source = config.get("descriptor_key").text(), object{{"expr", text.text()}}
			break
		}
		// Envoy 1.40 reads a claim from any token; a rule's key only has what jwt_authn has verified.
		// https://www.envoyproxy.io/docs/envoy/v1.40.0/api-v3/extensions/rate_limit_descriptors/jwt_claim/v3/jwt_claim.proto
		for _, where := range []string{"header_name", "cookie", "value_prefix"} {
			config.get(where)
		}
		c.report(Differs, config, "the claim %q counts where jwt_authn has verified its token (its provider needs "+
			"payload_in_metadata: payload); Envoy reads it unverified", claim.text())
		path := []any{"envoy.filters.http.jwt_authn", "payload"}
		for part := range strings.SplitSeq(claim.text(), ".") {
			path = append(path, part)
		}
		e.source = object{{"metadata", path}}
		e.keyed(config)
		e.orElse(config)
	default:
		return c.unasked(n, "the action %s", action)
	}
	return true
}

// keyed reads the key of an entry that may be left out.
func (e *entry) keyed(n node) {
	e.key, e.optional = n.get("descriptor_key").text(), n.get("skip_if_absent").flag(false)
}

// orElse reads what stands for a value that the source does not have.
func (e *entry) orElse(n node) {
	if fallback := n.get("default_value").text(); fallback != "" {
		e.source = e.source.set("default", fallback)
	}
}

// unasked reports what no descriptor can be made of.
func (c *converter) unasked(at node, what string, args ...any) bool {
	c.report(Missing, at, what+": no rule asks for its descriptor, so that nobody is held to that limit", args...)
	return false
}

// static reads a value without Envoy's placeholders.
func (c *converter) static(e *entry, n node, key string) bool {
	e.key, e.static = cmp.Or(n.get("descriptor_key").text(), key), true
	if e.value = n.get("descriptor_value").text(); strings.Contains(e.value, "%") {
		return c.unasked(n, "a value with placeholders, %q", e.value)
	}
	return true
}

// valueMatch reads the conditions under which an entry is sent: all must hold.
func (c *converter) valueMatch(e *entry, n node, field string, by func(n node) (object, bool)) bool {
	ok := true
	for _, m := range n.get(field).each() {
		one, fits := by(m)
		if !fits {
			ok = false
			continue
		}
		if e.only, fits = e.only.and(one); !fits {
			c.report(Missing, m, "a second condition on the same thing: no rule has the limit behind it")
			ok = false
		}
	}
	e.only = e.only.inverted(ok && !n.get("expect_match").flag(true))
	return ok
}

var ofHeader = regexp.MustCompile(`^%(REQ|RESP)\(([^):]+)\)%$`)

// cost is the units that a request takes.
func (c *converter) cost(limit node) any {
	hits := limit.get("hits_addend")
	if !hits.ok() {
		return nil
	}
	if n := hits.get("number"); n.ok() {
		return n.number(1)
	}
	format, hint := hits.get("format").text(), ""
	if found := ofHeader.FindStringSubmatch(format); found != nil {
		name := strings.ToLower(found[2])
		if found[1] == "REQ" {
			c.report(Differs, hits, "a cost from a header is at most 1000000, and 1 where there is no number")
			return object{{"header", name}, {"default", int64(1)}}
		}
		hint = fmt.Sprintf(` (what the response shows is charged by "settle": {"cost": {"header": %q, "max": ...}})`, name)
	}
	c.report(Missing, hits, "a cost from %q: every request counts 1%s", format, hint)
	return nil
}
