package convert

import (
	"errors"
	"strings"
	"time"
)

const localType = "envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit"

// Local converts Envoy's local_ratelimit, in a file of Envoy or an EnvoyFilter of Istio.
// https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_filters/local_rate_limit_filter
func Local(file File) (Result, error) {
	documents, err := parseNodes(file)
	if err != nil {
		return Result{}, err
	}
	c := newConverter()
	l := &local{converter: c, envoy: c.readEnvoy(documents)}
	for _, document := range documents {
		l.patches(document)
	}
	for _, document := range documents {
		document.find(func(n node) bool { // what holds for all routes without settings of their own
			found := localOf(n.get("typed_config"))
			if !found.ok() {
				return !n.get("virtual_hosts").ok()
			}
			routes, limits := having(l.envoy.routes, node{})
			when, reached := l.where(routes, l.envoy)
			if len(routes) == 0 {
				reached, limits = len(l.envoy.routes) == 0, l.envoy.bare
			}
			if reached {
				l.convert(found, when.but(l.taken...), limits, found)
			}
			return false
		})
	}
	done := map[node]bool{} // what routes and virtual hosts have of their own: a host's bucket is one for all its routes
	for _, r := range l.envoy.routes {
		if !r.local.ok() || done[r.local] {
			continue
		}
		done[r.local] = true
		routes, limits := having(l.envoy.routes, r.local)
		if when, reached := l.where(routes, l.envoy); reached {
			l.convert(r.local, when, limits, r.node)
		}
	}
	if l.found == 0 {
		return Result{Differences: c.differences()}, errors.New("no local_ratelimit with a token_bucket")
	}
	c.report(Note, node{}, "each Envoy counts on its own, as there; with \"redis\" in the configuration every limit is "+
		"shared by all Envoys, and worth multiplying by their number")
	c.report(Note, node{}, "the worker threads of one Envoy share a limit, as there; a bucket begins full")
	if !l.headers {
		l.fields = l.fields.set("headers", []any{})
	}
	return c.result(l.fields)
}

// local converts the settings of the filter for local limits.
type local struct {
	*converter

	envoy   *envoy
	fields  object
	headers bool     // some of the settings ask for headers
	taken   []object // requests for which a patch replaces the filter's settings
	found   int
}

// localOf is the settings in a typed_config, which may be wrapped in a TypedStruct.
func localOf(n node) node {
	if strings.HasSuffix(n.get("@type").text(), "/"+localType) {
		return n
	}
	if strings.HasSuffix(n.get("type_url").text(), "/"+localType) {
		return n.get("value")
	}
	return node{}
}

// localIn is the settings that a route or a virtual host has of its own.
func localIn(n node) node {
	per := n.get("typed_per_filter_config")
	for _, name := range per.names() {
		if found := localOf(per.get(name)); found.ok() {
			return found
		}
	}
	return node{}
}

// patches converts an EnvoyFilter of Istio: each patch says where it goes.
func (l *local) patches(document node) {
	patches := document.get("spec", "configPatches").each()
	selector := document.get("spec", "workloadSelector")
	l.reportIf(selector.ok() && len(patches) > 0, Note, selector,
		"the limits are for these pods alone: give the configuration to them, not to all")
	for _, p := range patches {
		value := p.get("patch", "value")
		found := localIn(value)
		if !found.ok() {
			continue
		}
		when, isRoute := patched(p)
		for _, other := range patches { // a route's settings take the place of its host's
			own, ofRoute := patched(other)
			if !isRoute && ofRoute && localIn(other.get("patch", "value")).ok() {
				when = when.but(own.match())
			}
		}
		if match := when.match(); len(match) > 0 { // and both that of the filter's
			l.taken = append(l.taken, match)
		}
		limits := append(value.get("rate_limits").each(), value.get("route", "rate_limits").each()...)
		if len(limits) == 0 {
			limits = l.envoy.bare
		}
		l.convert(found, when, limits, p)
	}
}

// patched is the requests that a patch of Istio is for, and whether these are one route's.
func patched(p node) (when object, isRoute bool) {
	vhost := p.get("match", "routeConfiguration", "vhost")
	if host := vhost.get("name").text(); host != "" && !strings.Contains(host, "|") && host != "*" {
		host = strings.ToLower(strings.TrimSuffix(host, ":*"))
		if name, port, found := strings.Cut(host, ":"); found && !strings.Contains(port, ":") { // an IPv6 address stays
			host = name
		}
		when = when.set("host", host)
	}
	route := vhost.get("route", "name").text()
	if route != "" {
		when = when.set("expr", "xds.route_name == '"+celText.Replace(route)+"'")
	}
	return when, route != ""
}

// having are the routes with these settings, or with node{} those without their own, and their rate limits.
func having(all []*route, local node) (routes []*route, limits []node) {
	for _, r := range all {
		if r.local == local {
			routes, limits = append(routes, r), append(limits, r.limits...)
		}
	}
	return routes, limits
}

// convert makes the rules of one set of settings, for the requests of when.
func (l *local) convert(n node, when object, limits []node, at node) {
	name := n.get("stat_prefix").text()
	enabled, enforced := n.get("filter_enabled"), n.get("filter_enforced")
	asked := l.portion(enabled, "Envoy counts %v %% of all requests: here every request is counted and limited")
	if !enabled.ok() || asked == 0 {
		l.reportIf(n.get("token_bucket").ok(), Note, n,
			"filter_enabled is 0 %%, its default: nobody is limited there, and nobody here")
		return
	}
	held := l.portion(enforced, "Envoy rejects %v %% of the requests that are over the limit: here every one of them "+
		"is rejected")
	l.shadow = !enforced.ok() || held == 0
	var key []any
	if n.get("local_rate_limit_per_downstream_connection").flag(false) {
		key = []any{object{{"property", []any{"connection", "id"}}}}
	}
	s := l.settings(n)
	l.descriptorLimits(s, append(limits, n.get("rate_limits").each()...), when)
	if bucket := l.bucket(n.get("token_bucket")); bucket != nil {
		l.reportIf(len(s.descriptors) > 0 && !n.get("always_consume_default_token_bucket").flag(true), Differs, n,
			"always_consume_default_token_bucket: false: here a request that a descriptor limits is held to the default "+
				"bucket, too")
		rule := assemble(l.converter.name(name), when.match(), key, nil, field{"limits", []any{bucket}}, l.shadow)
		l.add(n, rule, at)
		l.found++
	}
	if l.fields.get("response") == nil {
		l.fields = l.status(l.fields, n.get("status", "code"))
	}
	l.headers = l.headers || strings.Contains(n.get("enable_x_ratelimit_headers").text(), "DRAFT")
	l.lacks(n)
	stage := n.get("stage")
	l.reportIf(stage.ok() && stage.text() != "0", Missing, stage, "stage: rate_limits of all stages are looked at")
	l.unread(n, "stat_prefix")
}

// descriptorLimits makes the rules of the descriptors that some rate limits send.
func (l *local) descriptorLimits(s *service, limits []node, when object) {
	if len(s.descriptors) == 0 {
		return
	}
	seen := map[string]bool{}
	for _, limit := range limits {
		entries, ok := l.entries(limit, "")
		if !ok || seen[fingerprint(entries)] {
			continue
		}
		seen[fingerprint(entries)] = true
		before := len(l.rules)
		for _, v := range l.variants(entries) {
			l.descriptorRules(&use{limit: limit}, v.entries, when.both(v.only), s)
		}
		l.found += len(l.rules) - before
	}
	l.reportIf(len(seen) == 0, Missing, s.at.get("descriptors"),
		"no rate_limits in the file send these descriptors: nobody is held to their limits")
}

// settings are the descriptors of the settings, as those of the service.
func (l *local) settings(n node) *service {
	s := &service{domain: "local", at: n}
	for _, d := range n.get("descriptors").each() {
		bucket := l.bucket(d.get("token_bucket"))
		list := &s.descriptors
		entries := d.get("entries").each()
		for i, e := range entries {
			one := &descriptor{key: e.get("key").text(), value: e.get("value").text(), node: d}
			if strings.HasSuffix(one.value, "*") {
				l.report(Missing, e, "a value that ends with \"*\", which stands for itself there: nobody is held to its limit")
				break
			}
			if i == len(entries)-1 && bucket != nil {
				one.limited, one.limit, one.shadow = true, bucket, d.get("shadow_mode").flag(false)
			}
			*list = append(*list, one)
			list = &one.descriptors
		}
	}
	return s
}

// bucket is a TokenBucket; nil if there is none.
func (l *local) bucket(n node) object {
	if !n.ok() {
		return nil
	}
	length := n.get("fill_interval").text()
	if d, err := time.ParseDuration(length); err != nil || d < time.Millisecond {
		l.report(Missing, n, "fill_interval %q: want a time of at least 1ms: nobody is held to this bucket", length)
		return nil
	}
	fill := n.get("tokens_per_fill").number(1)
	bucket := limitOf("token_bucket", fill, duration(length))
	if most := n.get("max_tokens").number(fill); most != fill {
		bucket = bucket.set("burst", most)
	}
	return bucket
}
