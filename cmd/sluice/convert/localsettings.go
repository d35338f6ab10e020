package convert

import (
	"strings"
	"time"
)

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
	fill := n.get("tokens_per_fill").number(1)
	interval, err := time.ParseDuration(n.get("fill_interval").text())
	if err != nil || interval < time.Millisecond {
		l.report(Missing, n, "fill_interval %q: want a time of at least 1ms: nobody is held to this bucket",
			n.get("fill_interval").text())
		return nil
	}
	bucket := object{{"algorithm", "token_bucket"}, {"limit", fill}, {"window", duration(n.get("fill_interval").text())}}
	if most := n.get("max_tokens").number(fill); most != fill {
		bucket = bucket.with("burst", most)
	}
	return bucket
}

// mode is the meaning of the shares of requests that are asked about and held to the limit: whether
// the filter limits at all, and whether in shadow.
func (l *local) mode(n node) (limits, shadow bool) {
	enabled, enforced := n.get("filter_enabled"), n.get("filter_enforced")
	asked := l.portion(enabled, "Envoy counts %v %% of all requests: here every request is counted and limited")
	if !enabled.ok() || asked == 0 {
		if n.get("token_bucket").ok() {
			l.report(Note, n, "filter_enabled is 0 %%, its default: nobody is limited there, and nobody here")
		}
		return false, false
	}
	held := l.portion(enforced, "Envoy rejects %v %% of the requests that are over the limit: here every one of them "+
		"is rejected")
	return true, !enforced.ok() || held == 0
}

// answers are the top-level fields for what rejected requests get.
func (l *local) answers(n node) {
	if status := n.get("status", "code"); status.ok() && l.fields.get("response") == nil {
		l.fields = l.status(l.fields, status)
	}
	l.headers = l.headers || strings.Contains(n.get("enable_x_ratelimit_headers").text(), "DRAFT")
	for name, effect := range map[string]string{
		"response_headers_to_add": "rejected requests are answered without these headers",
		"request_headers_to_add_when_not_enforced": "the upstream is not told of requests that are over a limit in shadow " +
			"mode",
		"local_cluster_rate_limit": "every Envoy has the whole limit, not its share of it (with \"redis\" all " +
			"share it exactly)",
		"stage":                              "rate_limits of all stages are looked at",
		"rate_limited_as_resource_exhausted": "calls of gRPC are always rejected with RESOURCE_EXHAUSTED",
	} {
		if field := n.get(name); field.ok() && field.text() != "0" {
			l.report(Missing, field, "%s: %s", name, effect)
		}
	}
}
