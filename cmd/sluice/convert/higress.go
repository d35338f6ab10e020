package convert

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Higress converts a configuration of Higress' cluster-key-rate-limit.
// https://higress.cn/en/docs/latest/plugins/traffic/cluster-key-rate-limit/
func Higress(text []byte) (Result, error) {
	documents, err := parseNodes(text)
	if err != nil {
		return Result{}, err
	}
	var config node
	for _, document := range documents {
		document.find(func(n node) bool {
			if n.get("rule_items").ok() || n.get("global_threshold").ok() {
				config = n
			}
			return !config.ok()
		})
	}
	if !config.ok() {
		return Result{}, errors.New(`not a configuration of cluster-key-rate-limit (want "rule_items" or "global_threshold")`)
	}
	c := newConverter()
	h := higress{converter: c, name: config.get("rule_name").text()}
	if threshold := config.get("global_threshold"); threshold.ok() {
		if limit := c.higressLimit(threshold); limit != nil {
			c.add(threshold.at, assemble(c.name(h.name, "global"), nil, nil, nil, field{"limits", []any{limit}}, false))
		}
	}
	items := config.get("rule_items").each()
	for i := 0; i < len(items); i = h.item(items, i) {
	}
	if h.sources > 1 {
		c.report(Differs, "rule_items", "there only the first item that matches counts; here all do (a \"not\" in the later rules' match would keep them away)")
	}
	c.report(Note, "", "counters begin anew; where the plugin is for one route only, add that route's match to the rules")
	return c.result(c.higressFields(config))
}

type higress struct {
	*converter
	name    string
	sources int // different ones so far
}

// higressLimit is the first of query_per_second, ... of an object; nil if there is
// none.
func (c *converter) higressLimit(n node) object {
	for _, unit := range []struct{ name, window string }{{"second", "1s"}, {"minute", "1m"}, {"hour", "1h"}, {"day", "1d"}} {
		if count := n.get("query_per_" + unit.name); count.ok() {
			return object{
				{"algorithm", "fixed_window"}, {"anchor", "first_request"}, {"limit", count.number(0)}, {"window", unit.window},
			}
		}
	}
	c.report(Missing, n.at, "no query_per_second, minute, hour or day")
	return nil
}

// higressSource is where an item gets its key.
type higressSource struct {
	component object
	header    string
	name      string
}

// source finds the one "limit_by_..." of an item.
func (c *converter) source(item node) (s higressSource, ok bool) {
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
			c.report(Differs, n.at, "the address is the one that Envoy finds (xff_num_trusted_hops), not the first entry of a header")
		}
		return higressSource{object{{"client_ip", true}}, "", "address"}, true
	}
	c.report(Missing, item.at, "an item without a limit_by that is known")
	return s, false
}

// item converts the item at i and those after it that have the same source, and
// returns the index of the next one.
func (h *higress) item(items []node, i int) int {
	s, ok := h.source(items[i])
	if !ok {
		return i + 1
	}
	h.sources++
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
		h.networks(s, keys)
	} else {
		h.keys(s, keys)
	}
	return next
}

// keys converts keys that are values, regular expressions or "*".
func (h *higress) keys(s higressSource, keys []node) {
	values, nots := object{}, []object{}
	fallback := ""
	for _, key := range keys {
		limit := h.higressLimit(key)
		text := key.get("key").text()
		pattern, regex := strings.CutPrefix(text, "regexp:")
		switch {
		case limit == nil:
		case text == "*":
			fallback = "others"
			values = values.with(fallback, []any{limit})
		case !regex:
			values = values.with(text, []any{limit})
		case s.header == "":
			h.report(Missing, key.at, "a regular expression on something other than a header")
		default:
			matcher := object{{"headers", object{{s.header, object{{"regex", pattern}}}}}}
			match, _ := conditions{headers: []headerCondition{{s.header, object{{"regex", pattern}}}}, nots: nots}.match()
			rule := assemble(h.converter.name(h.name, s.name, pattern), match, []any{s.component}, nil, field{"limits", []any{limit}}, false)
			h.add(key.at, rule)
			nots = append(nots, matcher)
		}
	}
	if len(values) == 0 {
		return
	}
	match, ok := conditions{nots: nots}.match()
	if !ok {
		h.report(Differs, "rule_items", "what the regular expressions match is limited by the other keys, too")
	}
	tiers := object{{"source", s.component}, {"values", values}}
	if fallback != "" {
		tiers = tiers.with("default", fallback)
	}
	limits := field{"limits_by", tiers}
	if fallback != "" && len(values) == 1 {
		limits = field{"limits", values[0].value}
	}
	h.add("rule_items", assemble(h.converter.name(h.name, s.name), match, []any{s.component}, nil, limits, false))
}

// networks converts keys that are addresses and networks: a rule for each length
// of prefix, as tiers. What is for all addresses is the last one's default.
func (h *higress) networks(s higressSource, keys []node) {
	var sources, values []object
	var everywhere object
	for _, key := range keys {
		limit := h.higressLimit(key)
		source, value, err := network(anyNetwork(key.get("key").text()))
		switch {
		case err != nil:
			h.report(Missing, key.at, "%v", err)
		case limit == nil:
		case value == "":
			everywhere = limit
		default:
			same := func(o object) bool { return compact(o) == compact(source) }
			i := slices.IndexFunc(sources, same)
			if i < 0 {
				i, sources, values = len(sources), append(sources, source), append(values, nil)
			}
			values[i] = values[i].with(value, []any{limit})
		}
	}
	if len(sources) > 1 {
		h.report(Differs, "rule_items", "there an address counts against the first network that has it; here against each of them")
	}
	for i, source := range sources {
		tiers := object{{"source", source}, {"values", values[i]}}
		if i == len(sources)-1 && everywhere != nil {
			tiers[1].value = values[i].with("others", []any{everywhere})
			tiers = tiers.with("default", "others")
		}
		limits := field{"limits_by", tiers}
		h.add("rule_items", assemble(h.converter.name(h.name, s.name), nil, []any{s.component}, nil, limits, false))
	}
	if len(sources) == 0 && everywhere != nil {
		limits := field{"limits", []any{everywhere}}
		h.add("rule_items", assemble(h.converter.name(h.name, s.name), nil, []any{s.component}, nil, limits, false))
	}
}

// network is the component that an address or a network is a value of, and the
// value; of "" it is every address.
func network(text string) (component object, value string, err error) {
	if text == "" {
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

// higressFields are the top-level fields.
func (c *converter) higressFields(config node) object {
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
		c.report(Note, "redis.password", "the password is taken from the environment variable REDIS_PASSWORD")
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
	if status := response.get("status"); status != nil && !knows("response", object{{"status", status}}) {
		c.report(Missing, "rejected_code", "a status of %d for rejected requests: 429", status)
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
