package main

import (
	"encoding/binary"
	"fmt"
	"math"
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

	overridesGoal = 0.4 // that the lookup of an override adds
)

// Names that comparisons refer to.
const (
	baseName = "EVALSHA 'return 1'"
	peerName = "redis_rate v10"
	gcraName = "gcra"

	overridesName = "gcra, overrides"
)

// comparison is a goal for one subject as a part of another, or for what it costs
// more.
type comparison struct {
	name, subject, of string
	goal              float64
	more              bool
}

func comparisons() []comparison {
	all := []comparison{
		{name: gcraName + " / " + peerName, subject: gcraName, of: peerName, goal: 0.85},
		{name: overridesName + " - " + gcraName, subject: overridesName, of: gcraName, goal: overridesGoal, more: true},
	}
	for _, n := range []int{3, 5} {
		for _, what := range []string{"gcra", "mixed"} {
			name := fmt.Sprintf("%s, %d limits: one call / %[2]d calls", what, n)
			goal := map[int]float64{3: 0.65, 5: 0.65}[n]
			all = append(all, comparison{name: name, subject: inOneCall(what, n), of: inCalls(what, n), goal: goal})
		}
	}
	return all
}

func inOneCall(what string, n int) string { return fmt.Sprintf("%s, %d limits in one call", what, n) }

func inCalls(what string, n int) string { return fmt.Sprintf("%s, %d limits in %[2]d calls", what, n) }

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

// base is what all is measured in.
func base() subject {
	const script = "return 1"
	return subject{
		name: baseName, scripts: []string{script},
		check: func(id string) []call {
			return []call{evalsha(script, []string{"rl:{base|" + id + "}:none:1s"}, nil, anything)}
		},
	}
}

func subjects(peerScript string) []*subject {
	var all []*subject
	for _, group := range [][]subject{
		single(), {redisRate(peerScript), incrby()}, slots(), withTerms(), denials(), several(),
	} {
		for i := range group {
			all = append(all, &group[i])
		}
	}
	return all
}

func bucket(a algo.Algorithm, window int64) algo.Limit {
	return algo.Limit{Algorithm: a, Units: busy * window / second, WindowMicros: window, Burst: bigBurst}
}

// single has each algorithm and variant alone.
func single() []subject {
	queue := bucket(algo.LeakyBucket, second)
	queue.Queue, queue.MaxDelayMicros = true, hour
	uneven := bucket(algo.GCRA, second)
	uneven.Units = 997 // an interval that is not a whole number of microseconds
	return []subject{
		allowing("fixed_window", fixedGoal, algo.Limit{Algorithm: algo.FixedWindow, Units: plenty, WindowMicros: hour}),
		allowing("fixed_window, first_request", fixedGoal,
			algo.Limit{Algorithm: algo.FixedWindow, Units: plenty, WindowMicros: hour, FromFirstRequest: true}),
		counting("sliding_window_counter", counterGoal, hour, 1),
		counting("sliding_window_counter, 10 sub_windows", 0, 100*second, 10),
		counting("sliding_window_counter, 60 sub_windows", 0, 600*second, 60),
		allowing("sliding_window_log, 10 ms", 0,
			algo.Limit{Algorithm: algo.SlidingWindowLog, Units: plenty, WindowMicros: second / 100}),
		logging("sliding_window_log, 1000 entries", 1000),
		allowing("token_bucket", bucketGoal, bucket(algo.TokenBucket, second)),
		allowing("leaky_bucket", 0, bucket(algo.LeakyBucket, second)),
		allowing("leaky_bucket, queue", 0, queue),
		allowing(gcraName, bucketGoal, bucket(algo.GCRA, second)),
		allowing("gcra, uneven interval", bucketGoal, uneven),
	}
}

// counting is a sliding window counter whose earlier sub-windows hold counts.
func counting(name string, goal float64, window, subWindows int64) subject {
	l := algo.Limit{Algorithm: algo.SlidingWindowCounter, Units: plenty, WindowMicros: window, SubWindows: subWindows}
	s := allowing(name, goal, l)
	s.prime = func(id string) []call {
		size := window / subWindows
		newest := time.Now().UnixMicro()/size*size - size
		state := binary.LittleEndian.AppendUint64(nil, math.Float64bits(float64(newest)))
		for range subWindows + 1 {
			state = binary.LittleEndian.AppendUint32(state, 1)
		}
		command := []string{"SET", newRule(name, l).keys(id)[0], string(state)}
		return []call{{command, anything}}
	}
	return s
}

// logging is a log that already has so many entries less one, which stay.
func logging(name string, entries int64) subject {
	l := algo.Limit{Algorithm: algo.SlidingWindowLog, Units: plenty, WindowMicros: day}
	s := allowing(name, 0, l)
	s.prime = func(id string) []call {
		command := []string{"ZADD", newRule(name, l).keys(id)[0]}
		now := time.Now().UnixMicro() - minute
		for n := range entries - 1 {
			member := binary.LittleEndian.AppendUint64(nil, math.Float64bits(float64(now+n)))
			member = binary.LittleEndian.AppendUint32(member, 1)
			member = binary.LittleEndian.AppendUint32(member, uint32(n+1))
			command = append(command, fmt.Sprint(now+n), string(member))
		}
		return []call{{command, anything}}
	}
	return s
}

// holding takes a slot more with each check.
func holding(name string) subject {
	l := algo.Limit{Algorithm: algo.Concurrency, Units: plenty, TTLMicros: hour}
	s, r, nonce := allowing(name, 0, l), newRule(name, l), int64(0)
	s.check = func(id string) []call {
		nonce++
		return []call{r.decideAs(nonce, id, 1, true)}
	}
	return s
}

// slots take a slot and give it back, while so many others are held.
func slots() (all []subject) {
	for _, held := range []int64{20, 1000} {
		name := fmt.Sprintf("concurrency, take and give back, %d held", held)
		r := newRule(name, algo.Limit{Algorithm: algo.Concurrency, Units: plenty, TTLMicros: hour})
		all = append(all, subject{
			name: name, goal: slotsGoal, scripts: []string{r.Script().Source, algo.ReleaseScript().Source},
			prime: func(id string) (calls []call) {
				for nonce := range held {
					calls = append(calls, r.decideAs(nonce+1, id, 1, true))
				}
				return calls
			},
			check: func(id string) []call { return []call{r.decideAs(0, id, 1, true), r.release(0, id, 1)} },
		})
	}
	return all
}

// denials have one unit a day, which is used up; the log has a few.
func denials() (all []subject) {
	for _, l := range []algo.Limit{
		{Algorithm: algo.FixedWindow},
		{Algorithm: algo.FixedWindow, FromFirstRequest: true},
		{Algorithm: algo.SlidingWindowCounter},
		{Algorithm: algo.TokenBucket},
		{Algorithm: algo.LeakyBucket},
		{Algorithm: algo.GCRA},
	} {
		name := "denied: " + l.Algorithm.String()
		if l.FromFirstRequest {
			name += ", first_request"
		}
		l.Units, l.WindowMicros = 1, day
		all = append(all, denying(name, denialGoal, l))
	}
	slots := algo.Limit{Algorithm: algo.Concurrency, Units: 1, TTLMicros: hour}
	all = append(all, denying("denied: concurrency", denialGoal, slots))
	log := algo.Limit{Algorithm: algo.SlidingWindowLog, Units: 16, WindowMicros: day}
	return append(all, denying("denied: sliding_window_log", 0, log))
}

// several has three and five limits, in one call and in as many.
func several() (all []subject) {
	var gcras []algo.Limit
	for _, window := range []int64{second, 10 * second, minute, hour, day} {
		gcras = append(gcras, bucket(algo.GCRA, window))
	}
	mixed := []algo.Limit{
		bucket(algo.GCRA, second),
		{Algorithm: algo.SlidingWindowCounter, Units: plenty, WindowMicros: hour},
		{Algorithm: algo.FixedWindow, Units: plenty, WindowMicros: day},
		bucket(algo.TokenBucket, minute),
		bucket(algo.LeakyBucket, 10*second),
	}
	for _, n := range []int{3, 5} {
		all = append(all,
			allowing(inOneCall("gcra", n), 0, gcras[:n]...), separately(inCalls("gcra", n), gcras[:n]...),
			allowing(inOneCall("mixed", n), 0, mixed[:n]...), separately(inCalls("mixed", n), mixed[:n]...))
	}
	return all
}
