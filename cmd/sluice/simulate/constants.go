package simulate

import "github.com/sluiceproxy/sluice/algo"

// What was measured, by "make bench-lua" on Redis 7.0 (docs/algorithms.md, "Which
// one", and docs/sizing.md) and by "make bench" (docs/benchmarks.md).
const (
	callNanos = 1400 // of Redis' core for EVALSHA 'return 1': 1.1 to 1.7 us
	readNanos = 7000 // of the same to read what arrives on a connection, and to answer
)

// measured has the figures of one algorithm in Redis.
type measured struct {
	// relative is a check's cost in those of EVALSHA 'return 1', admitted.
	relative func(l *algo.Limit) float64
	// bytes is the memory of one identity, its key and expiry included.
	bytes func(l *algo.Limit, s algo.State) int64
}

var bucket = measured{
	relative: func(*algo.Limit) float64 { return 3.8 },
	bytes:    func(*algo.Limit, algo.State) int64 { return 182 },
}

// penaltyBytes is the memory of one identity of a penalty.
const penaltyBytes = 182

// measurements has a row for each algorithm: these are figures, which no property of an
// algorithm tells.
var measurements = map[algo.Algorithm]measured{
	algo.FixedWindow: {
		relative: func(*algo.Limit) float64 { return 3.3 },
		bytes: func(l *algo.Limit, _ algo.State) int64 {
			if l.FromFirstRequest {
				return 182
			}
			return 150
		},
	},
	algo.SlidingWindowLog: {
		relative: func(*algo.Limit) float64 { return 5.4 },
		bytes:    logBytes,
	},
	algo.SlidingWindowCounter: {
		relative: func(l *algo.Limit) float64 {
			if l.SubWindows > 1 {
				return 5.9
			}
			return 3.6
		},
		bytes: func(l *algo.Limit, _ algo.State) int64 { return 198 + 4*max(0, l.SubWindows-1) },
	},
	algo.TokenBucket: bucket,
	algo.LeakyBucket: bucket,
	algo.GCRA:        bucket,
	algo.Concurrency: {
		relative: func(*algo.Limit) float64 { return 6.0 }, // with what gives the slot back
		bytes: func(_ *algo.Limit, s algo.State) int64 {
			requests := int64(len(s) / 3)
			if requests <= 128 {
				return 198 + 39*max(0, requests-1)
			}
			return 126 * requests
		},
	},
}

func logBytes(_ *algo.Limit, s algo.State) int64 {
	units := int64(0)
	for i := 2; i < len(s); i += 3 { // behind the times of the first and the last
		units += s[i]
	}
	if units <= 128 {
		return 214 + 32*max(0, units-1)
	}
	return 126 * min(units, 4098) // entries
}

// checkNanos is the cost of one call on Redis' core: of several limits in one call,
// each further one adds what it does apart from the call itself.
func checkNanos(limits []algo.Limit) int64 {
	sum := 1.0
	for i := range limits {
		sum += measurements[limits[i].Algorithm].relative(&limits[i]) - 1
	}
	return int64(sum * callNanos)
}
