package convert

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// File is a file to convert, and its name for the report.
type File struct {
	Name string
	Text []byte
}

// requestsRejected is the one difference of every conversion from envoyproxy/ratelimit.
const requestsRejected = "a rejected request consumes nothing of any limit, under parallel requests too; the service " +
	"counts it in all of them, unless STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT is set there, and then looks first and " +
	"counts in a second step"

// RateLimit converts a file of envoyproxy/ratelimit and the rate_limits of
// Envoy's routes.
func RateLimit(serviceFile, envoyFile File) (Result, error) {
	services, err := parseServices(serviceFile)
	if err != nil {
		return Result{}, err
	}
	documents, err := parseNodes(envoyFile)
	if err != nil {
		return Result{}, err
	}
	c := newConverter()
	e := c.readEnvoy(documents)
	domain := e.filter.get("domain")
	at := slices.IndexFunc(services, func(s *service) bool { return domain.text() == s.domain || !domain.ok() })
	c.reportIf(at < 0, Differs, e.filter, "Envoy asks for the domain %q, the service's file has %q: there nobody is "+
		"limited by it, here all are", domain.text(), services[0].domain)
	main := services[max(at, 0)] // the file that Envoy's filter asks about
	uses := c.uses(e, services, main)
	if len(uses) == 0 {
		return Result{Differences: c.differences()}, errors.New("no rate_limits in Envoy's file that can be converted")
	}
	c.whole = e.filter
	// The shares of requests that Envoy asks about and enforces are modes.
	if n := e.filter.get("filter_enabled"); n.ok() {
		if share := percent(n.get("default_value")); share < 100 {
			c.report(Missing, n,
				"Envoy asks the service about %v %% of all requests: here every request is counted and limited", share)
		}
		n.get("runtime_key")
	}
	c.shadow = c.portion(e.filter.get("filter_enforced"), "Envoy rejects %v %% of the requests that are over a limit: "+
		"here every one of them is rejected (\"mode\": \"shadow\" rejects none)") == 0
	shared := map[string]*use{} // by descriptor
	for _, u := range uses {
		before := len(c.rules)
		if when, ok := c.where(u.routes, e); ok {
			for _, v := range c.variants(u.entries) {
				descriptor := u.service.domain + "/" + sends(v.entries)
				if before := shared[descriptor]; before != nil && before != u {
					place := Difference{File: before.limit.file.name, Line: before.limit.line(), At: before.limit.at}
					c.report(Differs, u.limit, "the service has one counter for this and for the same descriptors of %s; here each "+
						"has its own, so that twice as many may pass", place.Place())
				}
				shared[descriptor] = u
				c.descriptorRules(u, v.entries, when.both(v.only), u.service)
			}
		}
		c.reportIf(len(c.rules) == before, Note, u.limit,
			"the service's file has no limit for its descriptors, or none with a counterpart")
	}
	c.report(Differs, node{}, "%s", requestsRejected)
	c.report(Note, node{}, "counters begin anew: the service's are not read")
	fields := c.filterFields(e.filter, main.domain)
	asked := map[*service]bool{} // and then what nothing has looked at
	for _, u := range uses {
		c.unread(u.limit)
		asked[u.service] = true
	}
	c.unread(e.filter, "rate_limit_service", "stat_prefix")
	for _, r := range e.routes {
		c.unread(r.perRoute)
	}
	for _, s := range services {
		if asked[s] {
			c.unread(s.at)
		} else {
			c.report(Missing, s.at.get("domain"), "no route asks for the domain %q: its limits are left out", s.domain)
		}
	}
	return c.result(fields)
}

// portion is the percentage of requests that a RuntimeFractionalPercent says: text reports one that is
// neither none nor all.
func (c *converter) portion(n node, text string) float64 {
	n.get("runtime_key")
	share := percent(n.get("default_value"))
	c.reportIf(share > 0 && share < 100, Missing, n, text, share)
	return share
}

// parts are the denominators of a FractionalPercent, in those of one percent.
var parts = map[string]float64{"TEN_THOUSAND": 100, "1": 100, "MILLION": 10_000, "2": 10_000}

// percent is a FractionalPercent.
func percent(n node) float64 {
	if !n.ok() {
		return 100
	}
	return float64(n.get("numerator").number(0)) / cmp.Or(parts[n.get("denominator").text()], 1)
}

// unanswered are settings of Envoy's filters without a counterpart, and what that means.
var unanswered = map[string]string{
	"response_headers_to_add":            "rejected requests are answered without these headers",
	"status_on_error":                    "with \"failure\": \"deny\" requests are answered 503",
	"request_type":                       "internal and external requests are limited alike; there, one kind passes",
	"rate_limited_as_resource_exhausted": "calls of gRPC are always rejected with RESOURCE_EXHAUSTED",
	"failure_mode_deny_percent":          "while Redis is away, all requests pass, or none",
	// Of local_ratelimit alone.
	"request_headers_to_add_when_not_enforced": "the upstream is not told of requests that are over a limit in shadow " +
		"mode",
	"local_cluster_rate_limit": "every Envoy has the whole limit, not its share of it (with \"redis\" all share " +
		"it exactly)",
}

// lacks reports the settings of a filter that have no counterpart.
func (c *converter) lacks(filter node) {
	for _, name := range slices.Sorted(maps.Keys(unanswered)) {
		n := filter.get(name)
		c.reportIf(n.ok(), Missing, n, "%s: %s", name, unanswered[name])
	}
}

// filterFields are the top-level fields that stand for the settings of Envoy's
// filter.
func (c *converter) filterFields(filter node, domain string) object {
	prefix := strings.Map(func(r rune) rune { // as keys begin
		if r <= ' ' || r > '~' || r == '{' || r == '}' {
			return '_'
		}
		return r
	}, domain)
	redis := object{{"cluster", "redis"}, {"key_prefix", prefix}, {"timeout", nil}}
	if timeout := filter.get("timeout").text(); timeout != "" {
		redis[2].value = duration(timeout)
	}
	fields := object{{"redis", redis}}
	if filter.get("failure_mode_deny").flag(false) {
		fields = fields.set("failure", object{{"mode", "deny"}})
	}
	fields = c.status(fields, filter.get("rate_limited_status", "code"))
	if !filter.ok() {
		c.report(Note, node{},
			"no filter for rate limits in Envoy's file: its timeout, failure mode and headers are Sluice's defaults")
		return fields
	}
	headers := strings.ToUpper(filter.get("enable_x_ratelimit_headers").text())
	if !strings.Contains(headers, "DRAFT") && !strings.Contains(headers, "1") {
		fields = fields.set("headers", []any{})
	}
	if !filter.get("disable_x_envoy_ratelimited_header").flag(false) {
		fields = fields.set("envoy_ratelimited", true)
	}
	c.lacks(filter)
	return fields
}

// status adds the status of rejected requests, if there is one.
func (c *converter) status(fields object, status node) object {
	code := status.number(0)
	for known := 400; code == 0 && known < 600; known++ { // Envoy has names for them
		if name := strings.ReplaceAll(http.StatusText(known), " ", ""); name != "" && name == status.text() {
			code = int64(known)
		}
	}
	if !status.ok() || code == 429 {
		return fields
	}
	response := field{"response", object{{"status", code}}}
	one := object{{"name", "a"}, {"limits", []any{limitOf("fixed_window", 1, "1s")}}}
	if accepts(object{response, {"rules", []any{one}}}) != nil {
		c.report(Missing, status, "a status of %q for rejected requests: 429", status.text())
		return fields
	}
	return append(fields, response)
}

// duration writes Envoy's "0.020s" as Sluice's "20ms".
func duration(text string) string {
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Millisecond {
		d = 50 * time.Millisecond
	}
	if d%time.Second == 0 {
		return fmt.Sprintf("%ds", d/time.Second)
	}
	return fmt.Sprintf("%dms", d.Milliseconds())
}
