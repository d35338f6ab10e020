package convert

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// RateLimit converts a file of envoyproxy/ratelimit and the rate_limits of
// Envoy's routes.
func RateLimit(serviceText, envoyText []byte) (Result, error) {
	s, err := parseService(serviceText)
	if err != nil {
		return Result{}, err
	}
	documents, err := parseNodes(envoyText)
	if err != nil {
		return Result{}, err
	}
	c := newConverter()
	e := c.readEnvoy(documents)
	if domain := e.filter.get("domain").text(); domain != "" && domain != s.Domain {
		c.report(Differs, e.filter.at, "Envoy asks for the domain %q, the service's file has %q", domain, s.Domain)
	}
	uses := c.uses(e)
	if len(uses) == 0 {
		return Result{Differences: c.differences}, errors.New("no rate_limits in Envoy's file that can be converted")
	}
	c.exempts(e)
	exempt := len(c.rules)
	for _, u := range uses {
		before := len(c.rules)
		c.useRules(u, e, s)
		if len(c.rules) == before {
			c.report(Note, u.limit.at, "the service's file has no limit for its descriptors, or none with a counterpart")
		}
	}
	if len(c.rules) == exempt {
		c.rules = nil // nothing to be exempt from
	}
	c.report(Differs, "", "a rejected request consumes nothing of any limit; the service counts it in all of them")
	c.report(Note, "", "counters begin anew: the service's are not read")
	return c.result(c.filterFields(e.filter, s.Domain))
}

// useRules makes the rules of one rate limit.
func (c *converter) useRules(u *use, e *envoy, s *service) {
	for _, when := range c.where(u, e) {
		for _, variant := range c.variants(u.entries) {
			entries, only, ok := sent(variant)
			if ok {
				only, ok = when.and(only)
			}
			if !ok {
				c.report(Missing, u.limit.at, "its route and its actions compare one header with different values")
				continue
			}
			c.share(u, sends(entries))
			c.descriptorRules(u, entries, only, s)
		}
	}
}

// share reports descriptors that two rate limits send.
func (c *converter) share(u *use, descriptor string) {
	if before := c.descriptors[descriptor]; before != nil && before != u {
		c.report(Differs, u.limit.at, "the service has one counter for this and for the same descriptors of %s; here each has its own", before.limit.at)
	}
	c.descriptors[descriptor] = u
}

// filterFields are the top-level fields that stand for the settings of Envoy's
// filter.
func (c *converter) filterFields(filter node, domain string) object {
	redis := object{{"cluster", "redis"}, {"key_prefix", keyPrefix(domain)}}
	if timeout := filter.get("timeout").text(); timeout != "" {
		redis = redis.with("timeout", duration(timeout))
	}
	fields := object{{"redis", redis}}
	if filter.get("failure_mode_deny").flag(false) {
		fields = fields.with("failure", object{{"mode", "deny"}})
	}
	if status := filter.get("rate_limited_status", "code"); status.ok() {
		fields = c.status(fields, status)
	}
	if !filter.ok() {
		c.report(Note, "", "no filter for rate limits in Envoy's file: its timeout, failure mode and headers are Sluice's defaults")
		return fields
	}
	if !strings.Contains(strings.ToUpper(filter.get("enable_x_ratelimit_headers").text()), "DRAFT") {
		fields = fields.with("headers", []any{})
	}
	if !filter.get("disable_x_envoy_ratelimited_header").flag(false) {
		if knows("envoy_ratelimited", true) {
			fields = fields.with("envoy_ratelimited", true)
		} else {
			c.report(Missing, filter.at, "the header x-envoy-ratelimited of rejected requests")
		}
	}
	for _, name := range []string{"response_headers_to_add", "status_on_error", "request_type"} {
		if filter.get(name).ok() {
			c.report(Missing, filter.at, "%s", name)
		}
	}
	return fields
}

// status is what rejected requests are answered with.
func (c *converter) status(fields object, status node) object {
	code := status.number(0)
	if status.text() == "TooManyRequests" {
		code = 429
	}
	response := object{{"status", code}}
	if code == 429 {
		return fields
	}
	if !knows("response", response) {
		c.report(Missing, status.at, "a status of %q for rejected requests: 429", status.text())
		return fields
	}
	return fields.with("response", response)
}

// keyPrefix is a domain as the beginning of keys.
func keyPrefix(domain string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || r == '{' || r == '}' {
			return '_'
		}
		return r
	}, domain)
}

// duration writes Envoy's "0.020s" as Sluice's "20ms".
func duration(text string) string {
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Millisecond {
		return "50ms"
	}
	if d%time.Second == 0 {
		return strconv.FormatInt(int64(d/time.Second), 10) + "s"
	}
	return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
}
