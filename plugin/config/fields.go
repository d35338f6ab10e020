package config

import (
	"slices"

	"github.com/sluiceproxy/sluice/algo"
)

// field is one field of an object, and all that the parser has to know of it before it
// reads its value. The schema and the reference in docs/configuration.md are made from the
// same rows.
type field struct {
	name string
	kind kind
	// low and high bound a whole number, a duration in microseconds, or how many elements a list
	// has; a high of 0 does not.
	low, high int64
	// byDefault stands in for an absent field: a number, a duration in microseconds, the
	// place of a word, 1 for true.
	byDefault int64
	words     []string // of which it is one
	need      string   // what must be there; "" if the field may be absent
	want      string   // what stands in a text, which must not be empty, in a list or in an object of entries
	plural    string   // of the elements of a list that has a high
	orZero    string   // what "0s" means, where it may stand below low
	fields    []field  // of the object that it is, or may be
	hidden    bool     // messages do not show the value
}

// kind is the kind of a field's value.
type kind uint8

const (
	special    kind = iota // what a function of its own reads
	choice                 // special, too; of these fields an object has exactly one
	inner                  // an object
	entries                // an object whose names the user chooses
	list                   // an array
	plainText              // a string
	boolean                // true or false
	integer                // a whole number
	percentage             // such as "10%"
	duration               // such as "1m30s"
	word                   // one of a few
)

var topFields = []field{
	{
		name: "rules", kind: list, low: 1, need: "a list of at least one rule",
		want: `at least one rule such as {"name": "global", "limits": [...]}`,
	},
	{name: "mode", kind: word, words: modes[:Off]},
	{name: "redis", kind: inner, fields: redisFields, hidden: true},
	{name: "failure", kind: inner, fields: failureFields},
	{name: "response", kind: inner, fields: responseFields},
	{name: "headers", kind: list, want: `some of "x-ratelimit" and "draft", or [] for none`},
	{name: "reset", kind: word, words: []string{"delta", "unix"}},
	{name: "deny_cache", kind: inner, fields: denyCacheFields},
	{name: "retry_jitter", kind: percentage},
	{name: "top_offenders", kind: inner, fields: topOffendersFields},
	{name: "rejected_state", kind: boolean, byDefault: 1},
	{name: "envoy_ratelimited", kind: boolean},
	{name: "hash_secret_env", kind: plainText},
	{name: "quota", kind: inner, fields: quotaFields},
}

const quotaPath = `a path such as "/.well-known/quota"`

var quotaFields = []field{
	{name: "path", kind: plainText, need: quotaPath, want: quotaPath},
	{
		name: "rules", kind: list, low: 1, need: "the names of the rules whose limits callers may read",
		want: `names of rules such as "per-user"`,
	},
}

var redisFields = []field{
	{
		name: "cluster", kind: plainText, need: "the name of the Envoy cluster that leads to Redis",
		want: "the name of an Envoy cluster", hidden: true,
	},
	{name: "key_prefix", kind: plainText, want: `a prefix such as "rl"`},
	{name: "timeout", kind: duration, low: millisecond, high: maxTimeoutMicros, byDefault: defaultTimeoutMicros},
	{name: "username", kind: plainText, hidden: true},
	{name: "password", kind: plainText, hidden: true},
	{name: "password_env", kind: plainText, hidden: true},
	{name: "database", kind: integer, high: maxDatabase},
	{
		name: "max_stream_age", kind: duration, low: second, high: day, byDefault: 10 * minute,
		orZero: "streams live for ever",
	},
}

var failureFields = []field{
	{name: "mode", kind: word, words: failureModes},
	{name: "breaker", kind: inner, fields: breakerFields},
	{name: "max_pending", kind: integer, low: 1, high: maxCount, byDefault: defaultMaxPending},
}

var breakerFields = []field{
	{name: "failures", kind: integer, low: 1, high: maxCount, byDefault: defaultFailures},
	{name: "min_open", kind: duration, low: millisecond, high: day, byDefault: 100 * millisecond},
	{name: "max_open", kind: duration, low: millisecond, high: day, byDefault: 2 * second},
}

var responseFields = []field{
	{name: "status", kind: integer, low: 400, high: 599, byDefault: 429},
	{name: "content_type", kind: plainText, want: `a media type such as "application/json"`},
	{name: "body", kind: plainText},
	{name: "headers", kind: entries, want: `an object (want one such as {"x-reason": "quota"})`},
}

var denyCacheFields = []field{
	{name: "size", kind: integer, high: maxDenyCacheSize, byDefault: defaultDenyCacheSize},
}

var topOffendersFields = []field{
	{name: "size", kind: integer, low: 1, high: maxOffenders, byDefault: 100},
	{name: "interval", kind: duration, low: second, high: hour, byDefault: minute},
}

var ruleFields = []field{
	{name: "name", need: `one such as "per-user"`},
	{name: "match", kind: inner, fields: matchFields},
	{name: "exempt", kind: boolean},
	{name: "key", kind: list, want: `components such as {"header": "x-api-key"}, or [] for one key for all`},
	{name: "cost", high: algo.MaxCost, byDefault: 1, fields: costFields},
	{name: "settle", kind: inner, fields: settleFields},
	{name: "limits", kind: choice},
	{name: "limits_by", kind: choice, fields: tierFields},
	{name: "mode", kind: word, words: modes},
	{name: "failure", kind: word, words: failureModes},
	{name: "overrides", kind: boolean},
	{name: "penalty", kind: inner, fields: penaltyFields},
	{name: "over", kind: inner, fields: overFields},
	{name: "response", kind: inner, fields: responseFields},
	{name: "headers", kind: boolean, byDefault: 1},
}

// limitsField is any list of limits.
var limitsField = field{
	name: "limits", kind: list, low: 1, high: algo.MaxLimits, plural: "limits",
	want: `at least one limit such as {"algorithm": "gcra", "limit": 10, "window": "1s"}`,
}

var overFields = []field{
	{name: "set_headers", kind: entries, want: `an object such as {"x-quota": "over"}`},
	{name: "limits", kind: list, low: 1, high: maxOverLimits},
}

var matchFields = []field{
	{name: "path"},
	{name: "host"},
	{name: "methods", kind: list, low: 1, want: `methods such as "GET"`},
	{name: "headers", kind: entries, want: `an object (want one such as {"x-plan": "pro"})`},
	{name: "query", kind: entries, want: `an object (want one such as {"preview": {"present": true}})`},
	{name: "cookies", kind: entries, want: `an object (want one such as {"plan": "pro"})`},
	{
		name: "client_ip", kind: list, low: 1, high: maxNetworks, plural: "networks",
		want: `networks such as "10.0.0.0/8"`,
	},
	{name: "expr"},
	{name: "not", low: 1, want: `matches such as {"path": "/healthz"}`},
}

// opFields are the fields of a matcher, in the order of MatchOp.
var opFields = []field{
	{name: "exact", kind: choice},
	{name: "prefix", kind: choice},
	{name: "suffix", kind: choice},
	{name: "contains", kind: choice},
	{name: "regex", kind: choice},
	{name: "present", kind: choice},
}

// sourceFields say where a component's value comes from. Their order is that of Source.
var sourceFields = []field{
	{name: "header", kind: choice},
	{name: "cookie", kind: choice},
	{name: "query", kind: choice},
	{name: "client_ip", kind: choice, fields: prefixFields},
	{name: "path", kind: choice, fields: segmentFields},
	{name: "method", kind: choice},
	{name: "host", kind: choice},
	{name: "metadata", kind: choice},
	{name: "property", kind: choice},
	{name: "constant", kind: choice},
	{name: "expr", kind: choice},
	{name: "bearer", kind: choice},
}

var componentFields = append(sourceFields[:len(sourceFields):len(sourceFields)],
	field{name: "hash"}, field{name: "default"}, field{name: "repeated", words: []string{"first"}})

var prefixFields = []field{
	{name: "v4_prefix", kind: integer, high: 32, byDefault: 32},
	{name: "v6_prefix", kind: integer, high: 128, byDefault: 128},
}

var segmentFields = []field{
	{
		name: "segments", kind: integer, low: 1, high: maxCount,
		need: "how many leading segments count; true for the whole path",
	},
}

var costFields = []field{
	{name: "header", kind: choice},
	{name: "expr", kind: choice},
	{name: "default", kind: integer, high: algo.MaxCost, byDefault: 1},
	{name: "max", kind: integer, low: 1, high: algo.MaxCost, byDefault: algo.MaxCost},
}

var settleFields = []field{
	{name: "status", kind: list, low: 1, want: `statuses such as "401", "4xx", "500-599"`},
	{name: "expr"},
	{name: "cost", kind: inner, fields: settleCostFields},
	{name: "missing", kind: word, words: []string{"keep", "release"}, fields: missingFields},
}

var missingFields = []field{
	{name: "cost", kind: integer, low: 1, high: algo.MaxCost, need: "what an answer without a value costs"},
}

var settleCostFields = []field{
	{name: "header", kind: choice},
	{name: "metadata", kind: choice},
	{name: "property", kind: choice},
	{name: "expr", kind: choice},
	{name: "per", kind: integer, low: 1, high: maxCount, byDefault: 1},
	{name: "max", kind: integer, low: 1, high: algo.MaxCost, need: "the most that a request may cost"},
}

var penaltyFields = []field{
	{name: "after", kind: integer, low: 1, high: algo.MaxStrikes, need: "how many rejections earn a block"},
	{
		name: "within", kind: duration, low: algo.MinWindowMicros, high: algo.MaxWindowMicros,
		need: `a duration such as "1m"`,
	},
	{
		name: "for", kind: list, low: 1, high: algo.MaxBlocks, plural: "durations",
		need: `the durations of the first block, the second and so on, such as ["5m", "1h"]`,
		want: `durations such as "5m"`,
	},
}

var limitFields = []field{
	{name: "algorithm", kind: word, words: algorithms, byDefault: -1, need: `one such as "gcra"`},
	{name: "limit", high: algo.MaxUnits, fields: unitsFields, need: "how many units a window admits"},
	{name: "window", low: algo.MinWindowMicros, high: algo.MaxWindowMicros, need: `a duration such as "1s"`},
	{name: "timezone", kind: plainText},
	{name: "starts"},
	{name: "name"},
	{name: "unit", kind: plainText},
	{name: "burst", low: 1, high: algo.MaxUnits, fields: unitsFields},
	{name: "anchor", kind: word, words: []string{"clock", "first_request"}},
	{name: "sub_windows", kind: integer, low: 1, high: algo.MaxSubWindows, byDefault: 1},
	{name: "refill", kind: word, words: []string{"continuous", "step"}},
	{name: "overflow", kind: word, words: []string{"reject", "queue"}},
	{name: "max_delay", kind: duration, low: millisecond, high: maxQueueMicros, byDefault: defaultMaxDelayMicros},
	{
		name: "max_wait", kind: duration, low: millisecond, high: maxWaitMicros,
		need: `how long what is over the burst may wait, such as "5s"`,
	},
	{name: "ttl", kind: duration, low: algo.MinTTLMicros, high: algo.MaxTTLMicros, byDefault: defaultTTLMicros},
	{name: "cost", high: algo.MaxCost, fields: costFields},
	{name: "lease", kind: inner, fields: leaseFields},
	{name: "per", kind: list, low: 1, want: `components such as {"header": "x-team"}`},
	{name: "ceiling", kind: inner, fields: ceilingFields},
	{name: "guarantee", kind: boolean},
}

const classWant = `an object such as {"critical": 100, "bulk": 50}`

var ceilingFields = []field{
	{name: "source", need: `a key component such as {"header": "x-priority"}`},
	{name: "values", kind: entries, need: classWant},
	{name: "default", kind: plainText, need: "the class of requests whose source names none"},
}

var unitsFields = []field{
	{name: "expr", kind: choice},
	{name: "header", kind: choice},
	{name: "metadata", kind: choice},
	{name: "default", kind: integer, high: algo.MaxUnits, need: "the number for requests that bring none"},
	{name: "max", kind: integer, low: 1, high: algo.MaxUnits, need: "the largest number that a request may bring"},
}

var leaseFields = []field{
	{name: "units", kind: integer, low: 1, high: algo.MaxUnits},
	{name: "ttl", kind: duration, low: minLeaseMicros, high: algo.MaxWindowMicros, need: `a duration such as "200ms"`},
}

const sourceWant = `a key component such as {"header": "x-plan"}`

const tierWant = `an object such as {"free": [...], "pro": [...]}`

var tierFields = []field{
	{name: "source"},
	{name: "values", kind: entries, need: tierWant},
	{name: "default", kind: plainText},
}

// namesOf are the fields' names.
func namesOf(fields []field) []string {
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].name
	}
	return names
}

// placeOf is where a field of this name is, or -1.
func placeOf(fields []field, name string) int {
	return slices.IndexFunc(fields, func(f field) bool { return f.name == name })
}
