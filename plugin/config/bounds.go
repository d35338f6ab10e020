package config

// The bounds and defaults in the tables of fields that are in no other package.

// maxCount bounds counts that need no bound of their own.
//
// Bound: of `max_pending`, `failures`, `segments`, `per`. Beyond it, the configuration is refused.
// Protects arithmetic.
const maxCount = 1_000_000_000

// Bound: number of Redis' database. Beyond it, the configuration is refused. Protects the
// connection: no Redis has more.
const maxDatabase = 1<<31 - 1

const (
	// Bound: us that a request waits for Redis, unless `timeout` says otherwise. Beyond it, the
	// failure mode decides. Protects requests from a Redis that hangs.
	defaultTimeoutMicros = 50 * millisecond
	// Bound: us of `timeout`. Beyond it, the configuration is refused. Protects requests.
	maxTimeoutMicros = minute
	// Bound: requests with commands in a worker's pipe, unless `max_pending` says otherwise. Beyond
	// it, further requests wait in the worker. Protects Redis and the worker's memory.
	defaultMaxPending = 4096
	// Bound: failures in a row, unless `failures` says otherwise. Beyond it, the breaker opens.
	// Protects requests from waiting for a Redis that fails.
	defaultFailures = 5
)

// Bound: us that a queue holds a request, unless `max_delay` says otherwise. Beyond it, the request
// is refused. Protects clients from waits without end.
const defaultMaxDelayMicros = 30 * second

// Bound: us of `max_delay`. Beyond it, the configuration is refused. Protects clients from waits
// without end.
const maxQueueMicros = hour

// Bound: us of `max_wait`. Beyond it, the configuration is refused. Protects clients from waits
// without end.
const maxWaitMicros = minute

// Bound: us that a slot outlives its last renewal, unless `ttl` says otherwise. Beyond it, the slot
// ends. Protects limits from slots of a dead Envoy.
const defaultTTLMicros = 30 * second

const (
	// Bound: entries of the deny cache, unless `size` says otherwise. Beyond it, the one unused for
	// longest is forgotten. Protects memory.
	defaultDenyCacheSize = 4096
	// Bound: of `deny_cache.size`. Beyond it, the configuration is refused. Protects memory.
	maxDenyCacheSize = 1_000_000
)

// Bound: of `top_offenders.size`. Beyond it, the configuration is refused. Protects memory.
const maxOffenders = 1000

// Bound: us of a lease's `ttl`. Below it, the configuration is refused. Protects Redis: a shorter
// lease saves no calls.
const minLeaseMicros = 10 * millisecond
