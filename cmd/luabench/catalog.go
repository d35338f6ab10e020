package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sluiceproxy/sluice/algo"
)

// The goals for one check, in EVALSHA 'return 1' on Redis 7.0.
const (
	bucketGoal  = 4.0
	counterGoal = 3.8
	fixedGoal   = 3.4
	denialGoal  = 3.0
	slotsGoal   = 8.0
)

const (
	second = 1e6 // us
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour

	// A busy key: it holds a state at any time, and never uses it up.
	busy     = 1000 // units a second
	bigBurst = 1_000_000
	plenty   = 100_000_000
)

// comparison is a goal for one subject as a part of another, or for what it costs
// more.
type comparison struct {
	name, subject, of string
	goal              float64
	more              bool
}

var comparisons = []comparison{
	{"gcra / redis_rate v10", "gcra", peerName, 0.85, false},
	{"gcra, overrides - gcra", "gcra, overrides", "gcra", 0.4, true},
	{"gcra, an override that is known - gcra", "gcra, an override that is known", "gcra", 0.4, true},
	{"gcra, 3 limits: one call / 3 calls", "gcra, 3 limits in one call", "gcra, 3 limits in 3 calls", 0.65, false},
	{"gcra, 5 limits: one call / 5 calls", "gcra, 5 limits in one call", "gcra, 5 limits in 5 calls", 0.65, false},
}

// base is the unit of all figures.
func base() *subject {
	return &subject{name: "EVALSHA 'return 1'", check: func(id string) []call {
		return []call{evalsha("return 1", []string{"rl:{base|" + id + "}:none:1s"}, nil, nil)}
	}}
}

func bucket(a algo.Algorithm, window int64) algo.Limit {
	return algo.Limit{Algorithm: a, Units: busy * window / second, WindowMicros: window, Burst: bigBurst}
}

var (
	gcra  = bucket(algo.GCRA, second)
	queue = algo.Limit{
		Algorithm: algo.LeakyBucket, Units: busy, WindowMicros: second, Burst: bigBurst, Queue: true,
		MaxDelayMicros: hour,
	}
	waits = algo.Limit{
		Algorithm: algo.GCRA, Units: busy, WindowMicros: second, Burst: bigBurst, Queue: true, MaxDelayMicros: minute,
	}
	steps = algo.Limit{
		Algorithm: algo.TokenBucket, Units: busy, WindowMicros: second, Burst: bigBurst, Steps: true,
	}
	fixed   = algo.Limit{Algorithm: algo.FixedWindow, Units: plenty, WindowMicros: hour}
	first   = algo.Limit{Algorithm: algo.FixedWindow, Units: plenty, WindowMicros: hour, FromFirstRequest: true}
	daily   = algo.Limit{Algorithm: algo.FixedWindow, Units: plenty, WindowMicros: day}
	counter = algo.Limit{Algorithm: algo.SlidingWindowCounter, Units: plenty, WindowMicros: hour}
	short   = algo.Limit{Algorithm: algo.SlidingWindowLog, Units: plenty, WindowMicros: second / 100}
	long    = algo.Limit{Algorithm: algo.SlidingWindowLog, Units: plenty, WindowMicros: day}
	inUse   = algo.Limit{Algorithm: algo.Concurrency, Units: plenty, TTLMicros: hour}
	penalty = &algo.Penalty{After: 5, WithinMicros: minute, ForMicros: []int64{5 * minute, hour}}
)

// subjects are each algorithm and variant alone, the peer, limits under terms,
// denials, and several limits in one call and in as many.
func subjects(peerScript string) []*subject {
	all := []*subject{
		allowing("fixed_window", fixedGoal, fixed),
		allowing("fixed_window, first_request", fixedGoal, first),
		counting("sliding_window_counter", counterGoal, hour, 1),
		counting("sliding_window_counter, 10 sub_windows", 0, 100*second, 10),
		counting("sliding_window_counter, 60 sub_windows", 0, 600*second, 60),
		allowing("sliding_window_log, 10 ms", 0, short),
		allowing("token_bucket", bucketGoal, bucket(algo.TokenBucket, second)),
		allowing("leaky_bucket", 0, bucket(algo.LeakyBucket, second)),
		allowing("leaky_bucket, queue", 0, queue),
		allowing("token_bucket, refill step", 0, steps),
		allowing("gcra, queue", 0, waits),
		allowing("gcra", bucketGoal, gcra),
		redisRate(peerScript),
		incrby(),
		slots("concurrency, take and give back, 20 held", 20),
		slots("concurrency, take and give back, 1000 held", 1000),
		termed("gcra, overrides", 0, algo.Terms{Overrides: true}, gcra),
		contracted("gcra, an override that is known", "tier:pro"),
		termed("gcra, penalty", 0, algo.Terms{Penalty: penalty}, gcra),
	}
	return slices.Concat(all, denials(), together())
}

// denials are limits that are used up.
func denials() (all []*subject) {
	first := usedUp(algo.FixedWindow)
	first.FromFirstRequest = true
	for _, a := range []algo.Algorithm{
		algo.FixedWindow, algo.SlidingWindowCounter, algo.TokenBucket, algo.LeakyBucket, algo.GCRA,
	} {
		all = append(all, denying("denied: "+a.String(), denialGoal, usedUp(a)))
	}
	return append(all,
		denying("denied: fixed_window, first_request", denialGoal, first),
		denying("denied: concurrency", denialGoal, algo.Limit{Algorithm: algo.Concurrency, Units: 1, TTLMicros: hour}),
		denying("denied: sliding_window_log", 0, algo.Limit{Algorithm: algo.SlidingWindowLog, Units: 16, WindowMicros: day}))
}

// together are several limits in one call, and in as many.
func together() (all []*subject) {
	gcras := []algo.Limit{
		gcra, bucket(algo.GCRA, 10*second), bucket(algo.GCRA, minute), bucket(algo.GCRA, hour),
		bucket(algo.GCRA, day),
	}
	for _, n := range []int{3, 5} {
		all = append(all,
			allowing(fmt.Sprintf("gcra, %d limits in one call", n), 0, gcras[:n]...),
			separately(fmt.Sprintf("gcra, %d limits in %[1]d calls", n), gcras[:n]...))
	}
	return all
}

// usedUp is one unit a day.
func usedUp(a algo.Algorithm) algo.Limit {
	return algo.Limit{Algorithm: a, Units: 1, WindowMicros: day}
}

// counting is a sliding window counter whose earlier sub-windows hold counts.
func counting(name string, goal float64, window, subWindows int64) *subject {
	l := algo.Limit{Algorithm: algo.SlidingWindowCounter, Units: plenty, WindowMicros: window, SubWindows: subWindows}
	s, r := allowing(name, goal, l), newRule(name, algo.Terms{}, l)
	s.prime = func(id string) []call {
		size := window / subWindows
		newest := time.Now().UnixMicro()/size*size - size
		state := binary.LittleEndian.AppendUint64(nil, math.Float64bits(float64(newest)))
		for range subWindows + 1 {
			state = binary.LittleEndian.AppendUint32(state, 1)
		}
		return []call{command("SET", r.keys(id)[0], string(state))}
	}
	return s
}

// holding takes a slot more with each check.
func holding(name string) *subject {
	r, nonce := newRule(name, algo.Terms{}, inUse), int64(0)
	return &subject{name: name, check: func(id string) []call {
		nonce++
		return []call{r.take(id, nonce, 1)}
	}}
}

// slots takes a slot and gives it back, while so many others are held.
func slots(name string, held int64) *subject {
	r := newRule(name, algo.Terms{}, inUse)
	return &subject{
		name: name, goal: slotsGoal,
		prime: func(id string) (calls []call) {
			for nonce := range held {
				calls = append(calls, r.take(id, nonce+1, 1))
			}
			return calls
		},
		check: func(id string) []call {
			release := []string{fmt.Sprint(firstNonce), "1"}
			return []call{r.take(id, 0, 1), evalsha(algo.ReleaseScript().Source, r.keys(id), release, nil)}
		},
	}
}

// contracted is a rule whose checks are made for the override that is set.
func contracted(name, value string) *subject {
	r := newRule(name, algo.Terms{Overrides: true}, gcra)
	return &subject{
		name:  name,
		prime: func(id string) []call { return []call{command("SET", r.keys(id)[1], value)} },
		check: func(id string) []call {
			c := r.take(id, 0, 1)
			c.command = append(c.command, value)
			return []call{c}
		},
	}
}
