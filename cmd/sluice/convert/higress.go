package convert

import (
	"errors"
	"regexp"
	"slices"
	"strings"
)

// Higress converts a configuration of Higress' cluster-key-rate-limit.
// https://higress.cn/en/docs/latest/plugins/traffic/cluster-key-rate-limit/
func Higress(file File) (Result, error) {
	documents, err := parseNodes(file.Name, file.Text)
	if err != nil {
		return Result{}, err
	}
	h := &higress{converter: newConverter()}
	var fields object
	for _, document := range documents {
		document.find(func(n node) bool {
			spec := n.get("spec")
			switch {
			case fields != nil:
			case spec.get("matchRules").ok() || spec.get("defaultConfig").ok():
				fields = h.plugin(spec)
			case isHigress(n):
				fields = h.convert(n, conditions{})
			}
			return fields == nil
		})
	}
	if fields == nil {
		return Result{}, errors.New(`not a configuration of cluster-key-rate-limit (want "rule_items" or "global_threshold")`)
	}
	h.report(Note, node{}, "counters begin anew")
	return h.result(fields)
}

func isHigress(n node) bool { return n.get("rule_items").ok() || n.get("global_threshold").ok() }

// plugin converts a WasmPlugin: configurations for some hosts, and one for all others.
func (h *higress) plugin(spec node) (fields object) {
	var taken []object
	for _, m := range spec.get("matchRules").each() {
		config := m.get("config")
		var hosts []string
		for _, domain := range m.get("domain").each() {
			hosts = append(hosts, strings.ToLower(domain.text()))
		}
		if len(hosts) == 0 || m.get("ingress").ok() || m.get("service").ok() {
			h.report(Missing, m, "limits for an ingress or a service, which no match knows: they are left out, and its "+
				"requests are held to defaultConfig's "+
				"(add a rule with the paths of that ingress)")
			continue
		}
		host := hostMatcher(hosts)
		if !m.get("configDisable").flag(false) && isHigress(config) {
			fields = h.convert(config, conditions{fields: object{{"host", host}}, nots: slices.Clone(taken)})
		}
		taken = append(taken, object{{"host", host}})
	}
	config := spec.get("defaultConfig")
	if isHigress(config) && !spec.get("defaultConfigDisable").flag(false) {
		return h.convert(config, conditions{nots: taken})
	}
	return fields
}

// convert converts one configuration for the requests of when. It returns the top-level
// fields.
func (h *higress) convert(config node, when conditions) object {
	h.name, h.when = config.get("rule_name").text(), when
	if threshold := config.get("global_threshold"); threshold.ok() {
		if limit := h.limit(threshold); limit != nil {
			h.add(threshold, assemble(h.converter.name(h.name, "global"), when.match(), nil, nil, field{"limits", []any{limit}},
				false))
		}
	}
	items := config.get("rule_items").each()
	for i := 0; i < len(items); i = h.item(items, i) {
	}
	fields := h.fields(config)
	h.unread(config, "service_name", "service_port")
	return fields
}

type higress struct {
	*converter
	name string
	when conditions // the requests that the configuration is for
}

// limit is the first of query_per_second, ... of an object; nil if there is
// none.
func (h *higress) limit(n node) object {
	for _, unit := range []string{"second", "minute", "hour", "day"} {
		if count := n.get("query_per_" + unit); count.ok() {
			window, _ := window(unit, 1)
			return object{
				{"algorithm", "fixed_window"}, {"anchor", "first_request"}, {"limit", count.number(0)}, {"window", window},
			}
		}
	}
	h.report(Missing, n, "no query_per_second, minute, hour or day")
	return nil
}

// higressSource is where an item gets its key.
type higressSource struct {
	component object
	header    string
	name      string
}

// source finds the one "limit_by_..." of an item.
func (h *higress) source(item node) (s higressSource, ok bool) {
	for _, per := range []string{"limit_by_", "limit_by_per_"} {
		if n := item.get(per + "header"); n.ok() {
			name := strings.ToLower(n.text())
			return higressSource{object{{"header", name}}, name, name}, true
		}
		if item.get(per + "consumer").ok() {
			return higressSource{object{{"header", "x-mse-consumer"}}, "x-mse-consumer", "consumer"}, true
		}
		if n := item.get(per + "param"); n.ok() {
			return higressSource{object{{"query", n.text()}}, "", n.text()}, true
		}
		if n := item.get(per + "cookie"); n.ok() {
			return higressSource{object{{"cookie", n.text()}}, "", n.text()}, true
		}
	}
	if n := item.get("limit_by_per_ip"); n.ok() {
		if strings.HasPrefix(n.text(), "from-header") {
			h.report(Differs, n, "the address is the one that Envoy finds (xff_num_trusted_hops), not the first entry of a "+
				"header")
		}
		return higressSource{object{{"client_ip", true}}, "", "address"}, true
	}
	h.report(Missing, item, "an item without a limit_by that is known")
	return s, false
}

// item converts the item at i and those after it that have the same source, and
// returns the index of the next one.
func (h *higress) item(items []node, i int) int {
	s, ok := h.source(items[i])
	if !ok {
		return i + 1
	}
	keys := items[i].get("limit_keys").each()
	next := i + 1
	for ; next < len(items); next++ {
		other, ok := h.source(items[next])
		if !ok || compact(other.component) != compact(s.component) {
			break
		}
		keys = append(keys, items[next].get("limit_keys").each()...)
	}
	if s.name == "address" {
		h.networks(items[i], s, keys)
	} else {
		h.keys(items[i], s, keys)
	}
	if next < len(items) {
		h.report(Note, items[i], "older versions of Higress do not hold a request that this item limits to the items after "+
			"it; later ones do, and so does this")
	}
	return next
}

// keys converts keys that are values, regular expressions or "*". The first that fits counts.
func (h *higress) keys(item node, s higressSource, keys []node) {
	values, nots := object{}, []object{} // nots: what the regular expressions match
	var exact []object
	fallback := any(nil)
	for _, key := range keys {
		limit := h.limit(key)
		text := key.get("key").text()
		pattern, regex := strings.CutPrefix(text, "regexp:")
		switch {
		case limit == nil:
		case fallback != nil:
			h.report(Note, key, "the key after \"*\" is never reached")
		case text == "*":
			fallback = []any{limit}
		case !regex && matchesAny(nots, s.header, text):
			h.report(Note, key, "a regular expression before the key matches it, so that it is never reached")
		case !regex:
			values = values.with(text, []any{limit})
			exact = append(exact, headerIs(s.header, text))
		case s.header == "":
			h.report(Missing, key, "a regular expression on something other than a header: whom it matches is limited by "+
				"\"*\" alone, if that is there")
		default:
			matches := headerIs(s.header, object{{"regex", pattern}})
			one := conditions{matches, slices.Concat(exact, nots)}
			name := h.converter.name(h.name, s.name, pattern)
			h.add(key, h.rule(name, s, h.when.both(one), field{"limits", []any{limit}}), item)
			nots = append(nots, matches)
		}
	}
	h.values(item, s, values, fallback, nots)
}

// rule is the rule of a source's key, for the requests of when.
func (h *higress) rule(name string, s higressSource, when conditions, limits field) object {
	return assemble(name, when.match(), []any{s.component}, nil, limits, false)
}

// values adds the rule of a source's exact keys, and of "*" for all others.
func (h *higress) values(item node, s higressSource, values object, fallback any, nots []object) {
	add := func(when conditions, limits field) {
		h.add(item, h.rule(h.converter.name(h.name, s.name), s, when, limits))
	}
	tiers := object{{"source", s.component}, {"values", values}}
	meets := func(f field) bool { return matchesAny(nots, s.header, f.name) }
	others := h.when.but(nots...)
	switch {
	case len(values) == 0 && fallback == nil:
	case len(values) == 0:
		add(others, field{"limits", fallback})
	case fallback == nil:
		add(h.when, field{"limits_by", tiers})
	case slices.ContainsFunc(values, meets): // these come before an expression that matches them
		h.values(item, s, values, nil, nil)
		for _, f := range values {
			nots = append(nots, headerIs(s.header, f.name))
		}
		h.values(item, s, nil, fallback, nots)
	default:
		name := freeTier(values)
		tiers[1].value = values.with(name, fallback)
		add(others, field{"limits_by", tiers.with("default", name)})
	}
}

// freeTier is a name for the tier of all other values.
func freeTier(values object) string {
	name := "others"
	for values.get(name) != nil {
		name += "_"
	}
	return name
}

// matchesAny reports whether a header's value matches one of some regular expressions, as
// keys has them.
func matchesAny(nots []object, header, value string) bool {
	return slices.ContainsFunc(nots, func(not object) bool {
		matcher, _ := not.get("headers").(object).get(header).(object)
		pattern, ok := matcher.get("regex").(string)
		expression, err := regexp.Compile(pattern)
		return ok && err == nil && expression.MatchString(value)
	})
}

// fields are the top-level fields.
func (h *higress) fields(config node) object {
	redis := object{{"cluster", "redis"}}
	if prefix := config.get("rule_name").text(); prefix != "" {
		redis = redis.with("key_prefix", keyPrefix(prefix))
	}
	if millis := config.get("redis", "timeout"); millis.ok() {
		redis = redis.with("timeout", duration(millis.text()+"ms"))
	}
	if user := config.get("redis", "username").text(); user != "" {
		redis = redis.with("username", user)
	}
	if config.get("redis", "password").text() != "" {
		h.report(Note, config.get("redis", "password"), "the password is taken from the environment variable REDIS_PASSWORD")
		redis = redis.with("password_env", "REDIS_PASSWORD")
	}
	if database := config.get("redis", "database"); database.ok() {
		redis = redis.with("database", database.number(0))
	}
	fields := object{{"redis", redis}}
	response := object{}
	if code := config.get("rejected_code"); code.ok() && code.number(429) != 429 {
		response = response.with("status", code.number(429))
	}
	if body := config.get("rejected_msg"); body.ok() {
		response = response.with("body", body.text())
	}
	if status := response.get("status"); status != nil && !answers(status) {
		h.report(Missing, config.get("rejected_code"), "a status of %d for rejected requests: 429", status)
		response = slices.DeleteFunc(response, func(f field) bool { return f.name == "status" })
	}
	if len(response) > 0 {
		fields = fields.with("response", response)
	}
	if !config.get("show_limit_quota_header").flag(false) {
		fields = fields.with("headers", []any{})
	}
	return fields
}
