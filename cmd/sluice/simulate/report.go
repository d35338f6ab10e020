package simulate

import (
	"maps"
	"slices"

	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/metric"
)

// Report is the result of a simulation, as -o json prints it.
type Report struct {
	Seconds  float64 `json:"seconds"`
	Envoys   int     `json:"envoys"`
	Workers  int     `json:"workers"` // of each Envoy
	Requests int64   `json:"requests"`
	Retries  int64   `json:"retries"` // of these requests

	Admitted  int64 `json:"admitted"` // those that Redis did not decide included
	Rejected  int64 `json:"rejected"` // 429
	Refused   int64 `json:"refused"`  // 503
	Undecided int64 `json:"undecided"`
	Over      int64 `json:"over"`  // over a limit, and admitted
	Local     int64 `json:"local"` // decided by the embedded store in place of Redis

	WaitP50Micros int64 `json:"wait_p50_micros"` // for Redis
	WaitP99Micros int64 `json:"wait_p99_micros"`

	Groups []GroupReport `json:"clients"`
	Rules  []RuleReport  `json:"rules"`
	Redis  *RedisReport  `json:"redis,omitempty"` // absent without Redis
	Log    []LogLine     `json:"log"`
	Chart  []Bucket      `json:"chart"` // of parts of the time that are equally long
}

// LogLine is a line that the plugin would log, and how often.
type LogLine struct {
	Text  string `json:"text"`
	Times int64  `json:"times"`
}

// GroupReport is the result of one group's requests.
type GroupReport struct {
	Name     string `json:"name"`
	Requests int64  `json:"requests"`
	Retries  int64  `json:"retries"`
	Admitted int64  `json:"admitted"`
	Rejected int64  `json:"rejected"`
	Refused  int64  `json:"refused"`
}

// RuleReport is the result of one rule.
type RuleReport struct {
	Rule     string        `json:"rule"`
	Mode     string        `json:"mode"`
	Checked  int64         `json:"checked"`
	Admitted int64         `json:"admitted"`
	Rejected int64         `json:"rejected"`
	Shadow   int64         `json:"shadow_rejected"`
	Over     int64         `json:"over"` // that the rule rejected, and that went on
	Limits   []LimitReport `json:"limits"`
	// Why it applied to no request; empty if it did.
	Why string `json:"why,omitempty"`
}

// LimitReport is one limit, and the most that an identity was admitted.
type LimitReport struct {
	explain.Limit

	MostInWindow int64 `json:"most_in_window"` // units within any stretch of the window's length
}

// RedisReport is the work of Redis.
type RedisReport struct {
	Commands          int64   `json:"commands"`
	CommandsASecond   float64 `json:"commands_a_second"`
	CommandsARequest  float64 `json:"commands_a_request"`
	BytesASecond      float64 `json:"bytes_a_second"` // to Redis
	Cores             float64 `json:"cores"`          // that are busy, from what was measured
	Shards            int     `json:"shards"`
	Keys              int     `json:"keys"`      // at the end
	KeyBytes          int64   `json:"key_bytes"` // from what was measured
	Connections       int     `json:"connections"`
	Failures          int64   `json:"failures"` // checks that it did not decide
	BreakerOpenings   int64   `json:"breaker_openings"`
	DenyCacheHits     int64   `json:"deny_cache_hits"`
	Refunds           int64   `json:"refunds"`
	LeaseUnitsTaken   int64   `json:"lease_units_taken"`
	LeaseUnitsGivenUp int64   `json:"lease_units_returned"`
}

// Bucket is one part of the time.
type Bucket struct {
	Admitted  int64 `json:"admitted"`
	Undecided int64 `json:"undecided"` // admitted, but not by a decision
	Rejected  int64 `json:"rejected"`
	Refused   int64 `json:"refused"`
}

func (t *tally) report() *Report {
	w := t.world
	r := &Report{
		Seconds: float64(w.end-epochMicros) / 1e6,
		Envoys:  w.options.Envoys, Workers: w.options.Workers,
		Requests: t.requests, Retries: t.retries,
		Undecided:     t.outcomes[answer.FailedAllow],
		Over:          t.outcomes[answer.Over],
		Rejected:      t.outcomes[answer.Limited] + t.outcomes[answer.LocalLimited] + t.outcomes[answer.Blocked],
		Refused:       t.outcomes[answer.FailedDeny],
		Local:         t.outcomes[answer.LocalAllowed] + t.outcomes[answer.LocalLimited],
		WaitP50Micros: t.percentile(0.5), WaitP99Micros: t.percentile(0.99),
		Log:   []LogLine{},
		Chart: t.buckets[:],
	}
	for _, text := range slices.Sorted(maps.Keys(t.lines)) {
		r.Log = append(r.Log, LogLine{text, t.lines[text]})
	}
	for _, b := range t.buckets {
		r.Admitted += b.Admitted + b.Undecided
	}
	for _, i := range slices.Sorted(maps.Keys(t.groups)) {
		r.Groups = append(r.Groups, *t.groups[i])
	}
	idle := t.idle()
	for _, rule := range w.rules.Rules {
		of := t.rule(rule.Name, rule.Exempt, rule.Mode)
		of.Why = idle[rule.Name]
		r.Rules = append(r.Rules, of)
	}
	if w.cfg.Redis != nil {
		r.Redis = t.redis()
	}
	return r
}

func (t *tally) rule(name string, exempt bool, mode config.Mode) RuleReport {
	of := t.rules[name]
	r := RuleReport{
		Rule: name, Mode: "enforce", Checked: of.checked, Admitted: of.admitted, Rejected: of.limited,
		Shadow: of.shadow, Over: of.over,
	}
	switch {
	case exempt:
		r.Mode = "exempt"
	case mode == config.Shadow:
		r.Mode = "shadow"
	}
	for _, l := range of.limits {
		r.Limits = append(r.Limits, l.report)
	}
	return r
}

func (t *tally) redis() *RedisReport {
	s, seconds := t.world.server, float64(t.world.end-epochMicros)/1e6
	return &RedisReport{
		Commands:          s.commands,
		CommandsASecond:   float64(s.commands) / seconds,
		CommandsARequest:  float64(s.commands) / float64(max(1, t.requests)),
		BytesASecond:      float64(s.received) / seconds,
		Cores:             float64(s.busyNanos) / 1e9 / seconds,
		Shards:            len(s.freeNanos),
		Keys:              t.keys,
		KeyBytes:          t.keyBytes,
		Connections:       len(t.world.workers),
		Failures:          t.failures,
		BreakerOpenings:   t.events[metric.BreakerOpened],
		DenyCacheHits:     t.events[metric.DenyCacheHit],
		Refunds:           t.events[metric.ChargeRefunded],
		LeaseUnitsTaken:   t.events[metric.UnitsTaken],
		LeaseUnitsGivenUp: t.events[metric.UnitsReturned],
	}
}
