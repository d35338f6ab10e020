package metric

import (
	"strings"

	"github.com/sluiceproxy/sluice/plugin/text"
)

// Event is something that is counted apart from the outcomes of requests.
type Event uint8

// The events. Those before CheckSent happen without Redis, too; a configuration without it does not
// have the metrics of the others.
const (
	// RequestHeld: an admitted request was queued until its turn.
	RequestHeld Event = iota
	// TurnExpired: the client of a queued request left, and its place was given back.
	TurnExpired
	// IdentityEvicted: the embedded store dropped an identity because it needed the room.
	IdentityEvicted
	// PenaltyEarned: a rejection has earned its identity a block.
	PenaltyEarned
	// CheckSent: a script was called in Redis.
	CheckSent
	// The checks that were sent once more (redis/checks.go says why): Redis did not
	// have the script, or does not let scripts call TIME; the check was sized for
	// another calendar window, or another override; or a refund came late.
	RetriedUnknownScript
	RetriedNoTime
	RetriedOtherTime
	RetriedOtherOverride
	RetriedOvertaken
	// ChargeRefunded: a refund was sent to Redis.
	ChargeRefunded
	// SettlementSent and SettlementLost: Redis has taken a settlement, or will not.
	SettlementSent
	SettlementLost
	// Reconnected: another connection to Redis was opened in place of an earlier one.
	Reconnected
	// BreakerOpened: an outage of Redis began.
	BreakerOpened
	// DenyCacheHit: a remembered rejection concluded a request.
	DenyCacheHit
	// UnitsTaken, UnitsSpent and UnitsReturned are the units of leases.
	UnitsTaken
	UnitsSpent
	UnitsReturned
	// SlotsRenewed: slots of requests that live long were renewed.
	SlotsRenewed
	// SlotsExpired: slots had ended by themselves when they were given back.
	SlotsExpired
	// OverrideFree, OverrideBlock, OverrideFactor, OverrideTier, OverrideNumbers and
	// OverrideIgnored are the checks for which Redis held an override, or a value that is not one.
	OverrideFree
	OverrideBlock
	OverrideFactor
	OverrideTier
	OverrideNumbers
	OverrideIgnored

	// Events is how many events there are.
	Events
)

// EventMetrics are the counters of events. docs/observability.md says what each
// means; envoy.yaml turns elements such as "event.<name>" into labels.
var EventMetrics = [Events]string{
	RequestHeld:     "sluice.queue.held_total",
	TurnExpired:     "sluice.queue.expired_total",
	IdentityEvicted: "sluice.local.evictions_total",
	CheckSent:       "sluice.redis.checks_total",
	ChargeRefunded:  "sluice.redis.refunds_total",
	SettlementSent:  "sluice.redis.event.sent.settlements_total",
	SettlementLost:  "sluice.redis.event.lost.settlements_total",
	Reconnected:     "sluice.redis.reconnects_total",
	BreakerOpened:   "sluice.redis.breaker_openings_total",
	DenyCacheHit:    "sluice.deny_cache.hits_total",
	UnitsTaken:      "sluice.lease.event.taken.units_total",
	UnitsSpent:      "sluice.lease.event.spent.units_total",
	UnitsReturned:   "sluice.lease.event.returned.units_total",
	SlotsRenewed:    "sluice.slots.renewed_total",
	SlotsExpired:    "sluice.slots.expired_total",
	OverrideFree:    "sluice.overrides.event.free.checks_total",
	OverrideBlock:   "sluice.overrides.event.block.checks_total",
	OverrideFactor:  "sluice.overrides.event.factor.checks_total",
	OverrideTier:    "sluice.overrides.event.tier.checks_total",
	OverrideNumbers: "sluice.overrides.event.limits.checks_total",
	OverrideIgnored: "sluice.overrides.event.ignored.checks_total",
	PenaltyEarned:   "sluice.penalty.blocks_total",

	RetriedUnknownScript: "sluice.redis.event.unknown_script.checks_retried_total",
	RetriedNoTime:        "sluice.redis.event.no_time.checks_retried_total",
	RetriedOtherTime:     "sluice.redis.event.other_time.checks_retried_total",
	RetriedOtherOverride: "sluice.redis.event.other_override.checks_retried_total",
	RetriedOvertaken:     "sluice.redis.event.overtaken.checks_retried_total",
}

// The names of the other metrics. Where one has asterisks, Of puts elements in their place.
const (
	RoundTrip     = "sluice.redis.round_trip_microseconds"
	InFlight      = "sluice.redis.in_flight_requests"
	QueueWaiting  = "sluice.queue.waiting_requests"
	Generation    = "sluice.config.generation"
	LoadTimestamp = "sluice.config.load_timestamp_seconds"

	Requests         = "sluice.outcome.*.requests_total"
	RuleRequests     = "sluice.rule.*.outcome.*.rule_requests_total" // decisions of a rule
	InFlightRequests = "sluice.rule.*.in_flight_requests"            // that hold slots of a rule
	NearLimit        = "sluice.rule.*.limit.*.near_limit_total"
	OverLimit        = "sluice.rule.*.limit.*.over_limit_total" // decisions in which the limit rejected

	RedisErrors      = "sluice.redis.cause.*.errors_total"          // checks that Redis did not decide
	BreakerWorkers   = "sluice.redis.state.*.breaker_workers"       // whose breaker is in a state
	RedisMemory      = "sluice.redis.cluster.*.kind.*.memory_bytes" // "used", or "max" of what it may use
	RedisEvictedKeys = "sluice.redis.cluster.*.evicted_keys_total"
	RedisKeys        = "sluice.redis.cluster.*.keys" // in a Redis' database

	OffenderRejections = "sluice.top_offenders.rank.*.rejections" // from rank 1 on
)

// Of is a name with elements in place of its asterisks. In an element everything is percent-encoded but
// letters, digits, "-", "_" and "~" (RFC 3986, section 2.1), and so is the dot, which separates elements.
// No two elements become the same.
func Of(pattern string, elements ...string) string {
	var name []byte
	for _, element := range elements {
		before, after, _ := strings.Cut(pattern, "*")
		name, pattern = append(name, before...), after
		for i := range len(element) {
			if c := element[i]; c != '.' && text.IsUnreserved(c) {
				name = append(name, c)
			} else {
				name = text.AppendEscape(name, c)
			}
		}
	}
	return string(append(name, pattern...))
}

// BuildInfo is the gauge whose name has the version of the build.
func BuildInfo(version string) string { return "sluice.version." + version + ".build_info" }
