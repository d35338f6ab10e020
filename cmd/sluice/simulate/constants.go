package simulate

import "github.com/sluiceproxy/sluice/algo"

// What was measured, by "make bench-lua" on Redis 7.0 (docs/algorithms.md, "Which
// one", and docs/capacity.md) and by "make bench" (docs/benchmarks.md).
const (
	callNanos = 1400 // of Redis' core for EVALSHA 'return 1': 1.1 to 1.7 us
	readNanos = 7000 // of the same to read what arrives on a connection, and to answer
	// CheckMicros is the CPU of a check in Envoy and Redis together, with the
	// connection's share.
	CheckMicros = 32
	// WorkerBytes is what one worker holds beside Envoy's own memory: two VMs.
	WorkerBytes = 12 << 20
)

// relative is a check's cost in those of EVALSHA 'return 1', admitted.
func relative(l *algo.Limit) float64 {
	switch l.Algorithm {
	case algo.FixedWindow:
		return 3.3
	case algo.SlidingWindowLog:
		return 5.4
	case algo.SlidingWindowCounter:
		if l.SubWindows > 1 {
			return 5.9
		}
		return 3.6
	case algo.Concurrency:
		return 6.6 // with what gives the slot back
	}
	return 3.8
}

// checkNanos is what one call costs Redis' core: of several limits in one call,
// each further one adds what it does beside the call itself.
func checkNanos(limits []algo.Limit) int64 {
	sum := 1.0
	for i := range limits {
		sum += relative(&limits[i]) - 1
	}
	return int64(sum * callNanos)
}

// stateBytes is what one identity of a limit takes in Redis, its key and expiry
// included.
func stateBytes(l *algo.Limit, s algo.State) int64 {
	switch l.Algorithm {
	case algo.FixedWindow:
		if l.FromFirstRequest {
			return 182
		}
		return 150
	case algo.SlidingWindowLog:
		units := int64(0)
		for i := 2; i < len(s); i += 3 { // behind the times of the first and the last
			units += s[i]
		}
		if units <= 128 {
			return 214 + 32*max(0, units-1)
		}
		return 126 * min(units, 4098) // entries
	case algo.SlidingWindowCounter:
		return 198 + 4*max(0, l.SubWindows-1)
	case algo.Concurrency:
		requests := int64(len(s) / 3)
		if requests <= 128 {
			return 202 + 39*max(0, requests-1)
		}
		return 126 * requests
	}
	return 182
}
