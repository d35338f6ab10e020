package envoyfile

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/cmd/sluice/shown"
	"github.com/sluiceproxy/sluice/internal/yamltree"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// checkMetadata holds that what rules read of other filters has been written when they read it.
func (l *Limiter) checkMetadata(filters []*yaml.Node, place int) {
	for _, read := range readMetadata(l.found.JSON) {
		namespace := read.path[0]
		isWriter := func(f *yaml.Node) bool { // of the metadata of this name: its own, or one that it names
			if yamltree.Text(f, "name") == namespace || "envoy.filters.http."+kindOf(f) == namespace {
				return true
			}
			return yamltree.Mentions(yamltree.Get(f, "typed_config"), strings.ToLower(namespace))
		}
		before, after := slices.Clone(filters[:place]), filters[place+1:]
		slices.Reverse(before) // the last one writes what is read
		switch i := slices.IndexFunc(before, isWriter); {
		case i >= 0:
			l.checkPayload(read, yamltree.Get(before[i], "typed_config"))
		case slices.ContainsFunc(after, isWriter):
			l.wrong(Metadata, read.at, "the filter that writes the metadata %q comes after Sluice, so it is never there (want "+
				"it before Sluice)", namespace)
		case !slices.ContainsFunc(before, func(f *yaml.Node) bool { return slices.Contains(writeAnything, kindOf(f)) }):
			l.wrong(Metadata, read.at,
				"no filter before Sluice writes the metadata %q, so it is never there (want that filter before Sluice)", namespace)
		}
	}
}

// checkPayload holds that jwt_authn writes what a rule reads
// (https://www.envoyproxy.io/docs/envoy/v1.40.0/api-v3/extensions/filters/http/jwt_authn/v3/config.proto).
func (l *Limiter) checkPayload(read metadata, filter *yaml.Node) {
	if !strings.Contains(typeOf(filter), ".jwt_authn.") || len(read.path) < 2 {
		return
	}
	var written []string
	providers := yamltree.Get(filter, "providers")
	for _, name := range yamltree.Keys(providers) {
		for _, field := range []string{"payload_in_metadata", "header_in_metadata", "failed_status_in_metadata"} {
			if value := yamltree.Text(providers, name, field); value != "" {
				written = append(written, value)
			}
		}
	}
	switch wanted := read.path[1]; {
	case providers == nil || slices.Contains(written, wanted):
	case written == nil:
		l.wrong(Metadata, read.at, "jwt_authn writes no metadata (want payload_in_metadata: %q in its provider)", wanted)
	default:
		l.wrong(Metadata, read.at,
			"jwt_authn writes no %q, it writes %s (payload_in_metadata)", wanted, shown.Quoted(written))
	}
}

// writeAnything are the kinds of filters that may write metadata of any name, or cannot be seen.
var writeAnything = []string{
	"lua", "ext_proc", "wasm", "golang", "dynamic_modules", "ext_authz", "composite", "",
}

// kindOf is the kind of an HTTP filter by its type, such as "jwt_authn"; "" if it comes from
// elsewhere, or is none of Envoy's own.
func kindOf(filter *yaml.Node) string {
	rest, ok := strings.CutPrefix(typeOf(yamltree.Get(filter, "typed_config")), "envoy.extensions.filters.http.")
	if !ok {
		return ""
	}
	kind, _, _ := strings.Cut(rest, ".")
	return kind
}

// metadata is a place in the configuration that reads dynamic metadata.
type metadata struct {
	at   string // its path in the configuration
	path []string
}

// readMetadata finds what the rules read when a request comes; what settles it is read later.
func readMetadata(plugin []byte) (all []metadata) {
	var walk func(at string, v gjson.Result)
	walk = func(at string, v gjson.Result) {
		v.ForEach(func(key, value gjson.Result) bool {
			next := fmt.Sprintf("%s[%d]", at, key.Int())
			if v.IsObject() {
				next = at + "." + key.Str
			}
			switch {
			case v.IsObject() && key.Str == "settle":
			case v.IsObject() && key.Str == "metadata" && value.IsArray():
				m := metadata{at: next}
				for _, step := range value.Array() {
					m.path = append(m.path, step.Str)
				}
				all = append(all, m)
			case value.IsObject() || value.IsArray():
				walk(next, value)
			}
			return true
		})
	}
	for i, rule := range gjson.GetBytes(plugin, "rules").Array() {
		if rule.Get("mode").Str != "off" {
			walk(fmt.Sprintf("rules[%d]", i), rule)
		}
	}
	return all
}

// checkClientIP holds that Envoy says who the client is, where a rule asks.
func (l *Limiter) checkClientIP(chain *yaml.Node) {
	hops := yamltree.Text(chain, "xff_num_trusted_hops")
	if yamltree.Text(chain, "use_remote_address") == "true" || hops != "" && hops != "0" ||
		len(yamltree.List(chain, "original_ip_detection_extensions")) > 0 {
		return
	}
	isOne := func(r config.Rule) bool { return r.Mode != config.Off && readsAddress(&r) }
	if i := slices.IndexFunc(l.cfg.Rules, isOne); i >= 0 {
		l.note("client_ip", false, chain, "rule %q counts by client_ip, which clients choose here by X-Forwarded-For (want "+
			"use_remote_address: true, behind a proxy of your own with xff_num_trusted_hops)", l.cfg.Rules[i].Name)
	}
}

// checkBootstrap checks Envoy's own settings.
func (l *Limiter) checkBootstrap() {
	policy := yamltree.Text(l.found.Owner, "failure_policy")
	if yamltree.Get(l.found.Owner, "vm_config") != nil && policy != "FAIL_RELOAD" {
		becomes := "answers 503 from then on"
		if policy == "FAIL_OPEN" || yamltree.Text(l.found.Owner, "fail_open") == "true" {
			becomes = "limits nobody from then on"
		}
		l.note(FailurePolicy, false, l.found.Owner,
			"the filter has no failure_policy: FAIL_RELOAD: a worker whose VM has died %s", becomes)
	}
	b := l.around.bootstrap
	if b == nil {
		return
	}
	if !yamltree.Mentions(yamltree.Get(b, "stats_config", "stats_tags"), "sluice") {
		l.note(StatsTags, false, b, "stats_config has no stats_tags for Sluice: its metrics have no labels, and dashboard "+
			"and alerts find nothing (want those of docs/envoy.md, section 4)")
	}
	if matcher := yamltree.Get(b, "stats_config", "stats_matcher"); matcher != nil && !passes(matcher) {
		l.note("stats_matcher", false, matcher, "the stats_matcher of stats_config leaves out metrics of Sluice, so that "+
			"no alert about it fires (want it to pass the prefix %q)", metricPrefix)
	}
}

// metricPrefix begins the plugin's metrics.
const metricPrefix = "wasmcustom.sluice."

// passes reports whether metrics of Sluice pass a stats_matcher
// (https://www.envoyproxy.io/docs/envoy/v1.40.0/api-v3/config/metrics/v3/stats.proto).
func passes(matcher *yaml.Node) bool {
	if yamltree.Text(matcher, "reject_all") == "true" {
		return false
	}
	included, excluded := yamltree.Get(matcher, "inclusion_list"), yamltree.List(matcher, "exclusion_list", "patterns")
	for _, name := range []string{"outcome.limited.requests_total", "redis.state.open.breaker_workers"} {
		matches := func(pattern *yaml.Node) bool { return matchesText(pattern, metricPrefix+name) }
		if slices.ContainsFunc(excluded, matches) ||
			included != nil && !slices.ContainsFunc(yamltree.List(included, "patterns"), matches) {
			return false
		}
	}
	return true
}

// matchesText applies one of Envoy's string matchers; a regular expression that Go does not know matches.
func matchesText(m *yaml.Node, text string) bool {
	fold := func(s string) string { return s }
	if yamltree.Text(m, "ignore_case") == "true" {
		fold = strings.ToLower
	}
	for field, holds := range map[string]func(text, part string) bool{
		"exact":  func(text, part string) bool { return text == part },
		"prefix": strings.HasPrefix, "suffix": strings.HasSuffix, "contains": strings.Contains,
	} {
		if part := yamltree.Text(m, field); part != "" && holds(fold(text), fold(part)) {
			return true
		}
	}
	source := yamltree.Text(m, "safe_regex", "regex")
	whole, err := regexp.Compile("^(?:" + source + ")$")
	return source != "" && (err != nil || whole.MatchString(text))
}
