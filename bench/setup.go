package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
)

// setup is one way to limit requests, or none.
type setup struct {
	id     string // in results and file names
	title  string
	status int // that every answer has
	edit   edit
	peer   *peerOptions // of the rate limit service; nil: the setup has none
	path   string       // of its requests, if it is not /
	relay  bool         // a relay (deploy/relay) is between Envoy and Redis

	onlyTimed   bool // "make count" leaves it out
	onlyCounted bool // it differs from another one by less than a run's noise, or would take a core of its own
}

// edit makes the shipped envoy.yaml a setup's.
type edit func(*envoyconf.Config, place)

// Identifiers that goals and charts refer to.
const (
	unlimited    = "none"
	emptyWasm    = "wasm-empty"
	emptyDenied  = "wasm-denied"
	sluice       = "sluice"
	sluiceProxy  = "sluice-redis-proxy"
	sluiceTwo    = "sluice-2-limits"
	sluiceThree  = "sluice-3-limits"
	sluiceDenied = "sluice-denied"
	sluiceReadme = "sluice-readme"
	relayed      = "sluice-relay"
	settled      = "sluice-settled"
	embedded     = "sluice-embedded"
	leased       = "sluice-leased"
	leasedBucket = "sluice-leased-bucket"
	pair         = "ratelimit"
	pairCached   = "ratelimit-local-cache"
	pairTwo      = "ratelimit-2-limits"
	pairDenied   = "ratelimit-denied"
	local        = "local-ratelimit"
	localDenied  = "local-ratelimit-denied"
)

// identityHeader tells requests apart in every setup that counts in Redis. All
// requests of a run have the same value: the hottest key there can be.
const identityHeader = "x-api-key"

// The limits: one that no run exhausts, and one that the first request does.
const (
	manyPerHour = 1_000_000_000
	onePerHour  = 1
)

// subjects are all setups, in the order of a run.
var subjects = []setup{
	{
		id: unlimited, title: "Envoy, no limiter", status: 200,
		edit: func(c *envoyconf.Config, _ place) { withoutSluice(c) },
	},
	{id: sluice, title: "Sluice, Redis", status: 200, edit: usual},
	{
		id: sluiceReadme, title: "Sluice, Redis, README's configuration", status: 200, path: "api/orders",
		edit: readme("", ""),
	},
	{
		id: "sluice-demo", title: "Sluice, Redis, envoy.yaml's demo: README's configuration with two kinds of headers",
		status: 200, path: "api/orders", edit: readme(`"headers": ["x-ratelimit", "draft"], `, ""), onlyCounted: true,
	},
	{
		id: "sluice-readme-match", title: "Sluice, Redis, README's configuration with host and methods", status: 200,
		path: "api/orders", edit: readme("", `, "host": {"prefix": "127."}, "methods": ["GET"]`), onlyCounted: true,
	},
	{id: sluiceProxy, title: "Sluice, redis_proxy, Redis", status: 200, edit: proxied, onlyTimed: true},
	{id: sluiceTwo, title: "Sluice, Redis, 2 limits in the rule", status: 200, edit: limited(twoLimits)},
	{id: sluiceThree, title: "Sluice, Redis, 3 limits in the rule", status: 200, edit: limited(threeLimits)},
	{id: "sluice-levels", title: "Sluice, Redis, 3 levels in the rule", status: 200, edit: limited(threeLevels)},
	{id: "sluice-over", title: "Sluice, Redis, over the limit, others pay", status: 200, edit: payingOver},
	{id: leased, title: "Sluice, Redis, leased", status: 200, edit: limited(leasedLimit)},
	{
		id: leasedBucket, title: "Sluice, Redis, leased, a bucket of a second", status: 200,
		edit: limited(leasedSecond), onlyTimed: true,
	},
	{
		id: embedded, title: "Sluice, embedded store", status: 200,
		edit: usual.and(func(c *envoyconf.Config, _ place) { c.RemoveRedis() }),
	},
	{id: settled, title: "Sluice, Redis, each charge settled", status: 200, edit: settling},
	{
		id: pair, title: "Envoy ratelimit + service, Redis", status: 200, edit: rateLimitFilter,
		peer: &peerOptions{limit: manyPerHour},
	},
	{
		id: pairCached, title: "Envoy ratelimit + service, local cache, Redis", status: 200, edit: rateLimitFilter,
		peer: &peerOptions{limit: manyPerHour, localCache: true}, onlyTimed: true,
	},
	{
		id: pairTwo, title: "Envoy ratelimit + service, Redis, 2 limits", status: 200, edit: twoDescriptors,
		peer: &peerOptions{limit: manyPerHour},
	},
	{
		id: "ratelimit-2-limits-stop", title: "Envoy ratelimit + service, Redis, 2 limits, looks before it counts",
		status: 200, edit: twoDescriptors, peer: &peerOptions{limit: manyPerHour, looksFirst: true},
	},
	{id: local, title: "Envoy local_ratelimit", status: 200, edit: localRateLimit(manyPerHour), onlyTimed: true},
	{id: emptyWasm, title: "Wasm filter that does nothing", status: 200, edit: emptyFilter("accept")},
	{id: sluiceDenied, title: "Sluice, Redis, denied", status: 429, edit: limited(gcra(onePerHour))},
	{
		id: pairDenied, title: "Envoy ratelimit + service, local cache, denied", status: 429, edit: rateLimitFilter,
		peer: &peerOptions{limit: onePerHour, localCache: true},
	},
	{
		id: localDenied, title: "Envoy local_ratelimit, denied", status: 429,
		edit: localRateLimit(onePerHour), onlyTimed: true,
	},
	{id: emptyDenied, title: "Wasm filter that only rejects", status: 429, edit: emptyFilter("reject")},
	{
		id: "sluice-without-metrics", title: "Sluice, Redis, built without metrics", status: 200,
		edit: usual.and(builtAs("sluice-without-metrics.wasm")), onlyCounted: true,
	},
	{
		id: relayed, title: "Sluice, a relay, Redis", status: 200, relay: true, onlyCounted: true,
		edit: usual.and(func(c *envoyconf.Config, at place) {
			c.Set("static_resources/clusters/redis", c.HTTP2Cluster("redis", addr(at.service)))
		}),
	},
}

// choose returns copies of some setups.
func choose(which func(*setup) bool) (all []*setup) {
	for _, s := range subjects {
		if which(&s) {
			all = append(all, &s)
		}
	}
	return all
}

// setups are those of a run.
func setups() []*setup { return choose(func(s *setup) bool { return !s.onlyCounted }) }

// before is the setup of another build of the plugin, in which sluice is.
const before = "sluice-before"

// beside are the setups that compare two builds of the plugin.
func beside(file string) []*setup {
	kept := choose(func(s *setup) bool { return slices.Contains([]string{unlimited, sluice, settled}, s.id) })
	return append(kept, &setup{
		id: before, title: "Sluice, Redis, before", status: 200, edit: usual.and(builtAs(file)),
	})
}

func gcra(limit int) string {
	return fmt.Sprintf(`{"algorithm": "gcra", "limit": %d, "window": "1h"}`, limit)
}

const (
	twoLimits = `{"algorithm": "gcra", "limit": 1000000000, "window": "1h"},
		{"algorithm": "gcra", "limit": 1000000000, "window": "1d"}`
	threeLimits = twoLimits + `, {"algorithm": "gcra", "limit": 1000000000, "window": "1m"}`
	threeLevels = `{"algorithm": "gcra", "limit": 1000000000, "window": "1h"},
		{"name": "team", "per": [{"host": true}], "algorithm": "gcra", "limit": 1000000000, "window": "1h"},
		{"name": "user", "per": [{"host": true}, {"header": "x-api-key"}], "algorithm": "gcra",
			"limit": 1000000000, "window": "1h"}`
	leasedLimit = `{"algorithm": "fixed_window", "limit": 1000000000, "window": "1h", "lease": {"ttl": "200ms"}}`
	// What one worker can send is within the limit, and not far from it.
	leasedSecond = `{"algorithm": "gcra", "limit": 50000, "window": "1s", "lease": {"ttl": "200ms"}}`
)

// and does more to what an edit has made.
func (e edit) and(more edit) edit {
	return func(c *envoyconf.Config, at place) {
		e(c, at)
		more(c, at)
	}
}

// inRedis has Sluice count by rules in Redis, apart from the other setups: its port tells their keys
// apart. It sends the headers that its peers send.
func inRedis(rules ...string) edit {
	return func(c *envoyconf.Config, at place) {
		c.SetPlugin(fmt.Sprintf(`{"redis": {"cluster": "redis", "key_prefix": "bench-%d", "timeout": "%dms"},
			"headers": ["x-ratelimit"], "rules": [%s]}`, at.listener, at.timeout.Milliseconds(), strings.Join(rules, ", ")))
	}
}

// byKey is a rule that tells identities by the header, with more members of its JSON.
func byKey(members string) string {
	return fmt.Sprintf(`{"key": [{"header": %q}], %s}`, identityHeader, members)
}

// limited is one rule with limits.
func limited(limits string) edit {
	return inRedis(byKey(fmt.Sprintf(`"name": "bench", "limits": [%s]`, limits)))
}

// readme is the configuration that README shows, with limits that no run exhausts: what is exempt, a
// rule of two limits by a key that is hashed, and one by address; with more members of the configuration,
// and of the rule's match.
func readme(members, match string) edit {
	return func(c *envoyconf.Config, at place) {
		c.SetPlugin(fmt.Sprintf(`{"redis": {"cluster": "redis", "key_prefix": "bench-%d", "timeout": "%dms"}, %s"rules": [
			{"name": "health", "match": {"path": "/healthz"}, "exempt": true},
			{"name": "per-key", "match": {"path": {"prefix": "/api/"}%s}, "key": [{"header": %q, "hash": true}], "limits": [
				{"algorithm": "gcra", "limit": 1000000000, "window": "1h", "burst": 1000000},
				{"algorithm": "sliding_window_counter", "limit": 1000000000, "window": "1h"}]},
			{"name": "per-address", "key": [{"client_ip": {"v6_prefix": 64}}],
				"limits": [{"algorithm": "token_bucket", "limit": 1000000000, "window": "1h"}]}]}`,
			at.listener, at.timeout.Milliseconds(), members, match, identityHeader))
	}
}

var (
	usual = limited(gcra(manyPerHour))
	// settling gives the charge of each request back when its response has come: the most
	// that settlements can be.
	settling = inRedis(byKey(fmt.Sprintf(`"name": "bench", "limits": [%s], "settle": {"status": ["401", "403"]}`,
		gcra(manyPerHour))))
	// payingOver has another limit pay for each request but the first of an hour.
	payingOver = inRedis(byKey(fmt.Sprintf(`"name": "bench", "limits": [%s], "over": {"limits": [%s]}`,
		gcra(onePerHour), gcra(manyPerHour))))
	proxied = usual.and(func(c *envoyconf.Config, at place) { c.RouteByRedisProxy(false, addr(at.redis)) })
)

// builtAs has the filter, not the bridge, be another file: a path, or a name in build/.
func builtAs(file string) edit {
	return func(c *envoyconf.Config, at place) {
		if !filepath.IsAbs(file) {
			file = filepath.Join(at.root, "build", file)
		}
		c.SetWasm(file)
	}
}

// emptyFilter puts the least that a Wasm filter can be in Sluice's place.
func emptyFilter(configuration string) edit {
	return builtAs("empty.wasm").and(func(c *envoyconf.Config, _ place) {
		c.SetPlugin(configuration)
		c.Remove("static_resources/clusters", "redis")
	})
}

const route = envoyconf.ConnectionManager + "/route_config/virtual_hosts/all/routes/0/route"

// localRateLimit is Envoy's limiter without shared counters: a token bucket of
// this one Envoy, the same for all requests.
func localRateLimit(limit int) edit {
	return func(c *envoyconf.Config, _ place) {
		replaceSluice(c, fmt.Sprintf(`
name: local_ratelimit
typed_config:
  "@type": type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit
  stat_prefix: local
  token_bucket: {max_tokens: %d, tokens_per_fill: %[1]d, fill_interval: 3600s}
  filter_enabled: {default_value: {numerator: 100}}
  filter_enforced: {default_value: {numerator: 100}}
  enable_x_ratelimit_headers: DRAFT_VERSION_03
`, limit))
	}
}
