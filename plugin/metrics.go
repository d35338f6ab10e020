package main

import (
	"cmp"
	"strconv"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/decide"
	"github.com/sluiceproxy/sluice/plugin/jsontext"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/offenders"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// metrics counts for a limiter. docs/observability.md says what each metric means; envoy.yaml
// turns elements such as "rule.<name>" into labels.
type metrics struct {
	batch *metric.Batch
	ids   *metricIDs
	host  host
	line  []byte // scratch

	offenders *topOffenders // nil: not followed

	requests [answer.Outcomes]metric.Counter
	rules    [][answer.Outcomes]metric.Counter // by rule.Rule.ID; zero where it cannot happen
	limits   [][]limitMetrics                  // by rule.LimitSet.ID, parallel to its Limits

	events    [metric.Events]metric.Counter
	errors    [redis.Causes]metric.Counter
	roundTrip metric.Histogram
	states    [len(breakerStateNames)]metric.Gauge
	inFlight  metric.Gauge
	queued    metric.Gauge
	holding   []metric.Gauge // by rule.LimitSet.ID; noGauge where there are no slots
	evictions uint64         // of the embedded store, as last seen
	breaker   redis.BreakerState

	generation, loadTime metric.Gauge
	buildInfo            metric.Gauge
	ranks                []metric.Gauge // of the top offenders

	redisEvicted                   metric.Counter
	redisUsed, redisMax, redisKeys metric.Gauge // noGauge until Redis has told them
}

// noGauge stands for the lack of a gauge.
const noGauge = metric.Gauge(-1)

// topOffenders follows the identities that are rejected most, and reports them after each
// interval with a rejection.
type topOffenders struct {
	sketch         *offenders.Sketch
	intervalMicros int64
	sinceMicros    int64 // when the interval began; 0 before a rejection
	shown          bool  // the gauges are not zero
}

type limitMetrics struct{ near, over metric.Counter }

var breakerStateNames = [...]string{redis.Closed: "closed", redis.HalfOpen: "half_open", redis.Open: "open"}

// newMetrics defines all metrics of a limiter, so that they are there, at zero,
// before anything happens. Nothing is set yet: the limiter may be one that Envoy
// makes only to see whether the configuration is right, which no tick ever comes
// to and which is never closed.
func newMetrics(ids *metricIDs, rules *rule.Set, cfg *config.Config) *metrics {
	b := metric.Void()
	if withMetrics {
		b = metric.New(ids, ids.host.Uint64())
	}
	m := &metrics{batch: b, ids: ids, host: ids.host}
	for o := range m.requests {
		m.requests[o] = b.Counter(metric.Of(metric.Requests, answer.Outcome(o).Metric()))
	}
	for e, name := range metric.EventMetrics {
		if cfg.Redis != nil || metric.Event(e) < metric.CheckSent {
			m.events[e] = b.Counter(name)
		}
	}
	for _, r := range rules.Rules {
		possible := []answer.Outcome{answer.Allowed, answer.Limited, answer.FailedAllow}
		switch {
		case r.Exempt:
			possible = []answer.Outcome{answer.Exempt}
		case !r.Enforced:
			possible[1] = answer.ShadowLimited
		case r.Failure == config.FailDeny:
			possible[2] = answer.FailedDeny
		case r.Failure == config.FailLocal && cfg.Redis != nil:
			possible = append(possible, answer.LocalAllowed, answer.LocalLimited)
		}
		if r.HasTerms && r.Enforced {
			possible = append(possible, answer.Blocked)
		}
		if r.Over != nil && r.Enforced {
			possible = append(possible, answer.Over)
		}
		var counters [answer.Outcomes]metric.Counter
		for _, o := range possible {
			counters[o] = b.Counter(metric.Of(metric.RuleRequests, r.Name, o.Metric()))
		}
		m.rules = append(m.rules, counters)
	}
	for _, set := range rules.LimitSets {
		var limits []limitMetrics
		for i := range set.Labels {
			name := set.Labels[i].Name
			limits = append(limits, limitMetrics{
				near: b.Counter(metric.Of(metric.NearLimit, set.Rule.Name, name)),
				over: b.Counter(metric.Of(metric.OverLimit, set.Rule.Name, name)),
			})
		}
		m.limits = append(m.limits, limits)
		holding := noGauge
		if set.HasSlots {
			holding = b.Sum(metric.Of(metric.InFlightRequests, set.Rule.Name))
		}
		m.holding = append(m.holding, holding)
	}
	if cfg.Redis != nil {
		m.redisEvicted = b.Counter(metric.Of(metric.RedisEvictedKeys, cmp.Or(cfg.Redis.Cluster, "none")))
		m.redisUsed, m.redisMax, m.redisKeys = noGauge, noGauge, noGauge
		for c := redis.NoCause + 1; int(c) < redis.Causes; c++ {
			m.errors[c] = b.Counter(metric.Of(metric.RedisErrors, c.String()))
		}
		m.roundTrip = b.Histogram(metric.RoundTrip)
		for state, name := range breakerStateNames {
			m.states[state] = b.Sum(metric.Of(metric.BreakerWorkers, name))
		}
		m.inFlight = b.Sum(metric.InFlight)
	}
	m.queued = b.Sum(metric.QueueWaiting)
	m.generation = b.Last(metric.Generation)
	m.loadTime = b.Last(metric.LoadTimestamp)
	m.buildInfo = b.Last(metric.BuildInfo(buildVersion()))
	if c := cfg.TopOffenders; c != nil {
		sketch := offenders.New(int(c.Size), ids.host.Uint64())
		m.offenders = &topOffenders{sketch: sketch, intervalMicros: c.IntervalMicros}
		for rank := range min(c.Size, maxRanks) {
			m.ranks = append(m.ranks, b.Sum(metric.Of(metric.OffenderRejections, strconv.FormatInt(rank+1, 10))))
		}
	}
	b.Touch()
	return m
}

// Bound: gauges of the top offenders. Beyond it, an offender has no gauge, only a place in the
// log's list. Protects Envoy's statistics from names without end.
const maxRanks = 10

// outcome counts a request by its outcome.
//
//go:inline
func (m *metrics) outcome(o answer.Outcome) { m.batch.Inc(m.requests[o]) }

// Concluded implements decide.Recorder.
func (m *metrics) Concluded(q *decide.Question, v decide.Verdict) {
	m.outcome(v.Outcome)
	admitted := v.Event != decide.Refused
	for i := range q.Checks {
		c := &q.Checks[i]
		if c.Status == decide.Unasked || c.Rule.Reports {
			continue
		}
		m.batch.Inc(m.rules[c.Rule.ID][c.Outcome()])
		if admitted && c.Source == decide.FromLease {
			m.Count(metric.UnitsSpent, 1)
		}
		// Rejected are those for whom the request is refused, or would be in a rule that is in shadow.
		if m.offenders != nil && c.Status == decide.Rejected && !c.Over {
			m.offenders.sketch.Add(c.Rule.Name, c.Tag)
		}
		if !c.Decided() || c.By != algo.ByLimits {
			continue
		}
		for j := range c.Decisions {
			d := &c.Decisions[j]
			switch limit := &m.limits[c.Limits.ID][j]; {
			case d.Hidden: // it was not asked
			case !d.Allowed:
				m.batch.Inc(limit.over)
			case admitted && c.Status == decide.Allowed && d.Remaining*5 < c.Room(j):
				// More than 80 % is used, the threshold at which Envoy's rate limit service counts near_limit.
				m.batch.Inc(limit.near)
			}
		}
	}
}

// OverrideIgnored implements decide.Recorder.
func (m *metrics) OverrideIgnored(tag []byte) {
	m.line = jsontext.AppendString(append(m.line[:0], "sluice: the override of "...), text.View(tag))
	m.line = append(m.line, ` is not valid and is ignored (want block, free, a factor from x0.001 to x1000, `+
		`tier:NAME with a tier of the rule, or limits:LIMIT=N with limits of the tier in force)`...)
	m.host.logLine(logWarn, text.View(m.line))
}

// Count implements decide.Recorder.
//
//go:inline
func (m *metrics) Count(e metric.Event, n int64) { m.batch.Add(m.events[e], n) }

// RequestFailed and RoundTrip implement decide.Recorder.
func (m *metrics) RequestFailed(cause redis.Cause) { m.batch.Inc(m.errors[cause]) }
func (m *metrics) RoundTrip(micros int64)          { m.batch.Observe(m.roundTrip, micros) }

// BreakerChanged implements decide.Recorder. It counts an outage that begins; any
// other change shows with the next flush.
func (m *metrics) BreakerChanged(state redis.BreakerState) {
	m.batch.Touch()
	if m.breaker == redis.Closed && state == redis.Open {
		m.Count(metric.BreakerOpened, 1)
	}
	m.breaker = state
}

// metricIDs is Envoy's statistics, as this VM has defined them. Contexts come and go
// with each reload, while what Envoy keeps for an id stays as long as the VM.
type metricIDs struct {
	host    host
	defined [metric.HistogramKind + 1]map[string]uint32 // by kind and name

	// How many configurations this VM has loaded, and when the last of them, in Unix
	// time. These are per VM, not per configuration, because several listeners report
	// them in any order.
	loads, loadSeconds int64
}

// Define implements metric.Host.
func (m *metricIDs) Define(kind metric.Kind, name string) uint32 {
	id, ok := m.defined[kind][name]
	if !ok {
		id = m.host.defineMetric(uint32(kind), name)
		m.defined[kind][name] = id
	}
	return id
}

// Add and Record implement metric.Host.
func (m *metricIDs) Add(id uint32, delta int64)     { m.host.incrementMetric(id, delta) }
func (m *metricIDs) Record(id uint32, value uint64) { m.host.recordMetric(id, value) }

// observe counts and sets everything of a limiter that is not counted as it happens.
func (m *metrics) observe(from *limiter) {
	// The connection of Envoy's main thread, which no request uses, has no gauges.
	if conn := from.conn; conn != nil && conn.Used() {
		for state := range m.states {
			in := int64(0)
			if conn.State() == redis.BreakerState(state) {
				in = 1
			}
			m.batch.Set(m.states[state], in)
		}
		m.batch.Set(m.inFlight, conn.InFlight())
	}
	// How many requests hold slots of each rule. The tiers of a rule share a gauge, to which each adds its own.
	for i, holding := range m.holding {
		if holding != noGauge {
			m.batch.Set(holding, from.worker.InFlight(rule.LimitSetID(i)))
		}
	}
	m.batch.Set(m.queued, int64(from.worker.Queued()))
	m.batch.Set(m.generation, m.ids.loads)
	m.batch.Set(m.loadTime, m.ids.loadSeconds)
	m.batch.Set(m.buildInfo, 1)
	if from.embedded != nil {
		evictions := from.embedded.Evictions()
		m.Count(metric.IdentityEvicted, int64(evictions-m.evictions))
		m.evictions = evictions
	}
}

// show sets the gauge of a number that Redis may not tell. It defines the gauge with the first
// number.
func (m *metrics) show(g *metric.Gauge, name string, value int64) {
	if value == redis.Unknown {
		return
	}
	if *g == noGauge {
		*g = m.batch.Last(name)
	}
	m.batch.Show(*g, value)
}
