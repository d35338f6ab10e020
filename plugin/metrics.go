package main

import (
	"math/rand/v2"
	"strconv"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// outcome is what became of a request, or of one rule's part in it.
type outcome uint8

// The outcomes: those of access logs, see package answer.
const (
	passed outcome = iota
	limited
	shadowLimited
	exempted
	unmatched
	failedAllow
	failedDeny
	localPassed
	localLimited
	outcomes // how many there are
)

var outcomeNames = [outcomes]string{
	passed:        "allowed",
	limited:       "limited",
	shadowLimited: "shadow_limited",
	exempted:      "exempt",
	unmatched:     "none",
	failedAllow:   "failed_allow",
	failedDeny:    "failed_deny",
	localPassed:   "local_allowed",
	localLimited:  "local_limited",
}

// event is what happens apart from decisions.
type event uint8

// The events. Those from checkSent on need Redis.
const (
	requestHeld event = iota
	turnExpired       // the client of a held request is gone
	identityEvicted
	checkSent
	chargeRefunded
	reconnected
	breakerOpened
	denyCacheHit
	unitsTaken
	unitsSpent
	unitsReturned
	events // how many there are
)

var eventNames = [events]string{
	requestHeld:     "sluice.queue.held_total",
	turnExpired:     "sluice.queue.expired_total",
	identityEvicted: "sluice.local.evictions_total",
	checkSent:       "sluice.redis.checks_total",
	chargeRefunded:  "sluice.redis.refunds_total",
	reconnected:     "sluice.redis.reconnects_total",
	breakerOpened:   "sluice.redis.breaker_openings_total",
	denyCacheHit:    "sluice.deny_cache.hits_total",
	unitsTaken:      "sluice.lease.event.taken.units_total",
	unitsSpent:      "sluice.lease.event.spent.units_total",
	unitsReturned:   "sluice.lease.event.returned.units_total",
}

var breakerStateNames = [...]string{redis.Closed: "closed", redis.HalfOpen: "half_open", redis.Open: "open"}

// metrics is what a limiter counts. docs/observability.md says what each metric
// means; envoy.yaml turns the elements "rule.<name>" and the like into labels. A
// nil *metrics counts nothing.
type metrics struct {
	batch *metric.Batch

	requests [outcomes]metric.Counter
	rules    [][outcomes]metric.Counter // by rule.Rule.Index; zero where it cannot happen
	limits   [][]limitMetrics           // by rule.Limits.Index, parallel to its Limits

	events    [events]metric.Counter
	errors    [redis.Causes]metric.Counter
	roundTrip metric.Histogram
	breaker   [len(breakerStateNames)]metric.Gauge
	inFlight  metric.Gauge
	queued    metric.Gauge
	evicted   uint64 // of the store's evictions, those that were counted

	generation, loadTime metric.Gauge
	ranks                []metric.Gauge // of the top offenders
}

type limitMetrics struct{ near, over metric.Counter }

// The configurations that this VM has loaded: how many, and when the last of them,
// in Unix time. Each configuration tells both, as of the VM and not of itself:
// those of several listeners tell in any order.
var loads, loadSeconds int64

// withoutMetrics is set by the linker, for the benchmark of what they cost.
var withoutMetrics string

// newMetrics defines all metrics of a limiter, so that they are there, at zero,
// before anything happens. Nothing is set yet: the limiter may be one that Envoy
// makes only to see whether the configuration is right, which no tick ever comes
// to and which is never closed.
func newMetrics(l *limiter, cfg *config.Config) *metrics {
	if withoutMetrics != "" {
		return nil
	}
	b := metric.New(metricHost{}, rand.Uint64())
	m := &metrics{batch: b}
	for o := range outcomes {
		m.requests[o] = b.Counter("sluice.outcome." + outcomeNames[o] + ".requests_total")
	}
	for e, name := range eventNames {
		if cfg.Redis != nil || event(e) < checkSent {
			m.events[e] = b.Counter(name)
		}
	}
	for _, r := range l.rules.Rules {
		m.rules = append(m.rules, ruleMetrics(b, r, cfg))
	}
	for _, limits := range l.rules.LimitSets {
		m.limits = append(m.limits, limitsMetrics(b, limits))
	}
	if cfg.Redis != nil {
		m.defineRedis()
	}
	m.define(cfg)
	b.Touch()
	return m
}

// ruleName begins the names of a rule's metrics.
func ruleName(r *rule.Rule) string { return "sluice.rule." + metric.Escape(r.Name) }

// ruleMetrics defines one counter for each outcome that a rule can have.
func ruleMetrics(b *metric.Batch, r *rule.Rule, cfg *config.Config) (counters [outcomes]metric.Counter) {
	for _, o := range possible(r, cfg) {
		counters[o] = b.Counter(ruleName(r) + ".outcome." + outcomeNames[o] + ".rule_requests_total")
	}
	return counters
}

// possible is the outcomes that a rule can have.
func possible(r *rule.Rule, cfg *config.Config) []outcome {
	if r.Exempt {
		return []outcome{exempted}
	}
	local := cfg.Redis != nil && cfg.Failure.Mode == config.FailLocal
	some := []outcome{passed, failedAllow}
	if cfg.Failure.Mode == config.FailDeny {
		some[1] = failedDeny
	}
	if local {
		some = append(some, localPassed)
	}
	switch {
	case r.Mode == config.Shadow:
		return append(some, shadowLimited)
	case local:
		some = append(some, localLimited)
	}
	return append(some, limited)
}

func limitsMetrics(b *metric.Batch, limits *rule.LimitSet) (list []limitMetrics) {
	for i := range limits.Labels {
		name := ruleName(limits.Rule) + ".limit." + metric.Escape(limits.Labels[i].Name)
		list = append(list, limitMetrics{near: b.Counter(name + ".near_limit_total"), over: b.Counter(name + ".over_limit_total")})
	}
	return list
}

func (m *metrics) defineRedis() {
	b := m.batch
	for c := redis.NoCause + 1; int(c) < redis.Causes; c++ {
		m.errors[c] = b.Counter("sluice.redis.cause." + c.String() + ".errors_total")
	}
	m.roundTrip = b.Histogram("sluice.redis.round_trip_microseconds")
	for state, name := range breakerStateNames {
		m.breaker[state] = b.Sum("sluice.redis.state." + name + ".breaker_workers")
	}
	m.inFlight = b.Sum("sluice.redis.in_flight_requests")
}

// maxRanks bounds the gauges of the top offenders.
const maxRanks = 10

func (m *metrics) define(cfg *config.Config) {
	b := m.batch
	m.queued = b.Sum("sluice.queue.waiting_requests")
	m.generation = b.Last("sluice.config.generation")
	m.loadTime = b.Last("sluice.config.load_timestamp_seconds")
	if cfg.TopOffenders != nil {
		for rank := range min(cfg.TopOffenders.Size, maxRanks) {
			m.ranks = append(m.ranks, b.Sum("sluice.top_offenders.rank."+strconv.FormatInt(rank+1, 10)+".rejections"))
		}
	}
	loads, loadSeconds = loads+1, unixMicros()/1e6
}

// nearLimit is whether more than 80 % of a limit is used: the threshold at which
// Envoy's rate limit service counts near_limit, too.
func nearLimit(d *algo.Decision, capacity int64) bool { return d.Remaining*5 < capacity }

// metricHost is Envoy's statistics.
type metricHost struct{}

// defined is the ids of this VM's metrics by kind and name. Contexts come and go
// with each reload, while what Envoy keeps for an id stays as long as the VM.
var defined = map[metric.Kind]map[string]uint32{
	metric.CounterKind: {}, metric.GaugeKind: {}, metric.HistogramKind: {},
}

// Define implements metric.Host.
func (metricHost) Define(kind metric.Kind, name string) uint32 {
	id, ok := defined[kind][name]
	if !ok {
		id = defineMetric(uint32(kind), name)
		defined[kind][name] = id
	}
	return id
}

// Add implements metric.Host.
func (metricHost) Add(id uint32, delta int64) { incrementMetric(id, delta) }

// Record implements metric.Host.
func (metricHost) Record(id uint32, value uint64) { recordMetric(id, value) }
