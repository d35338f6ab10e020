package simulate

import (
	"bytes"
	"hash/fnv"
	"strings"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/twinredis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// server is a Redis of Go twins that takes as long as a real one does, on one core for each
// shard.
type server struct {
	RedisReport // what is counted on the way
	twin        *twinredis.Server

	freeNanos   []int64 // by shard: when its core has done what it was sent
	readBy      []int64 // by shard: the last arrival it has read from
	arrivals    int64   // of commands, one or several together
	readyMicros int64   // when the last reply to that arrival is ready
	received    int64   // bytes
	busyNanos   int64
}

// run has the core of a command's shard work, and returns when it is done.
func (s *server) run(words [][]byte, nowMicros int64) (doneMicros int64) {
	s.Commands++
	if len(words) < 4 {
		return nowMicros // AUTH, SELECT
	}
	nanos := int64(0) // of what gives slots back: it is in the check's
	if set, known := s.twin.SetOf(words); set != nil {
		nanos = checkNanos(set.Plan.Limits())
	} else if !known { // the breaker's probe
		nanos = callNanos
	}
	key, shard := words[3], uint32(0)
	if len(s.freeNanos) > 1 {
		hash := fnv.New32a()
		hash.Write(key[:bytes.LastIndexByte(key, '}')+1])
		shard = hash.Sum32() % uint32(len(s.freeNanos))
	}
	if s.readBy[shard] != s.arrivals { // what arrives together is read and answered once
		s.readBy[shard] = s.arrivals
		nanos += readNanos
	}
	free := &s.freeNanos[shard]
	*free = max(*free, nowMicros*1000) + nanos
	s.busyNanos += nanos
	doneMicros = (*free + 999) / 1000
	s.readyMicros = max(s.readyMicros, doneMicros)
	return doneMicros
}

// memory is the memory of the counters now.
func (s *server) memory(nowMicros int64, rules *rule.Set) (keys int, size int64) {
	sizes := map[string]algo.Limit{}
	for _, set := range rules.LimitSets {
		for i, suffix := range set.KeySuffixes {
			sizes[suffix] = set.Limits[i].Limit
		}
	}
	s.twin.States(nowMicros, func(key string, state algo.State) {
		keys++
		limit, ok := sizes[key[strings.LastIndexByte(key, '}')+1:]]
		if ok {
			size += bytesOf(&limit, state)
		} else {
			size += penaltyBytes
		}
	})
	return keys, size
}

// What was measured, by "make bench-lua" on Redis 7.0 (docs/algorithms.md, "Which
// one", and docs/sizing.md) and by "make bench" (docs/benchmarks.md).
const (
	callNanos = 1400 // of Redis' core for EVALSHA 'return 1': 1.1 to 1.7 us
	readNanos = 7000 // of the same to read what arrives on a connection, and to answer
)

// relative is a check's cost in those of EVALSHA 'return 1', admitted: these are figures, which no property of an
// algorithm tells.
var relative = map[algo.Algorithm]float64{
	algo.FixedWindow: 3.3, algo.SlidingWindowLog: 5.4, algo.SlidingWindowCounter: 3.6,
	algo.TokenBucket: 3.8, algo.LeakyBucket: 3.8, algo.GCRA: 3.8,
	algo.Concurrency: 6.0, // with what gives the slot back
}

// penaltyBytes is the memory of one identity of a penalty.
const penaltyBytes = 182

// bytesOf is the memory of one identity, its key and expiry included.
func bytesOf(l *algo.Limit, s algo.State) int64 {
	switch l.Algorithm {
	case algo.FixedWindow:
		if !l.FromFirstRequest {
			return 150
		}
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
			return 198 + 39*max(0, requests-1)
		}
		return 126 * requests
	}
	return 182
}

// checkNanos is the cost of one call on Redis' core: of several limits in one call,
// each further one adds what it does apart from the call itself.
func checkNanos(limits []algo.Limit) int64 {
	sum := 1.0
	for i := range limits {
		one := relative[limits[i].Algorithm]
		if limits[i].SubWindows > 1 {
			one = 5.9
		}
		sum += one - 1
	}
	return int64(sum * callNanos)
}
