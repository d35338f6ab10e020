package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/algo"
)

// subject is one way to decide a request, whose cost is measured.
type subject struct {
	name    string
	prime   func(id string) []call // brings an identity's keys into the state that is measured; may be nil
	check   func(id string) []call
	charges int // after how many checks the size of the state is measured
}

// call is one command.
type call struct {
	command []any
	script  string                 // that EVALSHA names; "" for other commands
	keys    []string               // of the script
	accept  func(*redis.Cmd) error // returns why a reply is wrong; nil accepts any
}

// command is a call that may answer anything.
func command(words ...any) call { return call{command: words} }

// evalsha calls a script.
func evalsha(source string, keys, args []string, accept func(*redis.Cmd) error) call {
	words := []any{"EVALSHA", redis.NewScript(source).Hash(), len(keys)}
	for _, word := range slices.Concat(keys, args) {
		words = append(words, word)
	}
	return call{words, source, keys, accept}
}

// rule is a policy with keys of its own.
type rule struct {
	*algo.Plan
	tag string // as long for every rule, as the length of a key costs time and memory
}

// newRule makes a rule of limits and terms that are known to be right.
func newRule(name string, terms algo.Terms, limits ...algo.Limit) rule {
	p, err := algo.NewPlanWithTerms(limits, terms)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", name, err))
	}
	return rule{p, fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(name)))}
}

// keys are as the plugin builds them: those of the limits, then those of the terms.
func (r rule) keys(id string) (keys []string) {
	var suffixes []string
	for _, l := range r.Limits() {
		suffixes = append(suffixes, l.KeySuffix())
	}
	for _, suffix := range append(suffixes, r.TermSuffixes()...) {
		keys = append(keys, fmt.Sprintf("rl:{%s|%s}%s", r.tag, id, suffix))
	}
	return keys
}

// firstNonce is as long as those of the plugin are.
const firstNonce = int64(1) << 62

// decide is a check that the limits must admit, or reject.
func (r rule) decide(id string, nonce, cost int64, allowed bool) call {
	args := r.CheckArgs(firstNonce+nonce, algo.Over{}, r.Each(cost))
	if penalty := r.Terms().Penalty; penalty != nil {
		args = append(append(args, penalty.Args()...), "")
	}
	return evalsha(r.Script().Source, r.keys(id), args, func(reply *redis.Cmd) error {
		values, err := reply.Int64Slice()
		if err != nil {
			return err
		}
		ruling, err := r.ParseRuling(values, make([]algo.Decision, len(r.Limits())))
		if err == nil && (ruling.By != algo.ByLimits || ruling.Allowed != allowed) {
			err = fmt.Errorf("%+v, which is not what is to be measured", ruling)
		}
		return err
	})
}

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

// base is the unit of all figures.
var base = subject{name: "EVALSHA 'return 1'", check: func(id string) []call {
	return []call{evalsha("return 1", []string{"rl:{base|" + id + "}:none:1s"}, nil, nil)}
}}

func bucket(a algo.Algorithm, window int64) algo.Limit {
	return algo.Limit{Algorithm: a, Units: busy * window / second, WindowMicros: window, Burst: bigBurst}
}

// with is a limit with a change.
func with(l algo.Limit, change func(*algo.Limit)) algo.Limit {
	change(&l)
	return l
}

func queued(l *algo.Limit)    { l.Queue, l.MaxDelayMicros = true, hour }
func stepped(l *algo.Limit)   { l.Steps = true }
func fromFirst(l *algo.Limit) { l.FromFirstRequest = true }

var (
	gcra    = bucket(algo.GCRA, second)
	fixed   = algo.Limit{Algorithm: algo.FixedWindow, Units: plenty, WindowMicros: hour}
	daily   = algo.Limit{Algorithm: algo.FixedWindow, Units: plenty, WindowMicros: day}
	counter = algo.Limit{Algorithm: algo.SlidingWindowCounter, Units: plenty, WindowMicros: hour}
	short   = algo.Limit{Algorithm: algo.SlidingWindowLog, Units: plenty, WindowMicros: second / 100}
	long    = algo.Limit{Algorithm: algo.SlidingWindowLog, Units: plenty, WindowMicros: day}
	inUse   = algo.Limit{Algorithm: algo.Concurrency, Units: plenty, TTLMicros: hour}
	penalty = &algo.Penalty{After: 5, WithinMicros: minute, ForMicros: []int64{5 * minute, hour}}
)

// planned are the limits that docs/sizing.md plans with.
func planned() []subject {
	return []subject{
		allowing("fixed_window", daily),
		allowing("gcra", gcra),
		allowing("sliding_window_counter", counter),
		allowing("two limits in one rule", gcra, counter),
		allowing("three limits in one rule", gcra, counter, daily),
		denying("denied: gcra", usedUp(algo.GCRA)),
	}
}

// subjects are each algorithm and variant alone, the peer, limits under terms,
// denials, and several limits in one call and in as many.
func subjects() []subject {
	all := []subject{
		allowing("fixed_window", fixed),
		allowing("fixed_window, first_request", with(fixed, fromFirst)),
		counting("sliding_window_counter", hour, 1),
		counting("sliding_window_counter, 10 sub_windows", 100*second, 10),
		counting("sliding_window_counter, 60 sub_windows", 600*second, 60),
		allowing("sliding_window_log, 10 ms", short),
		allowing("token_bucket", bucket(algo.TokenBucket, second)),
		allowing("leaky_bucket", bucket(algo.LeakyBucket, second)),
		allowing("leaky_bucket, queue", with(bucket(algo.LeakyBucket, second), queued)),
		allowing("token_bucket, refill step", with(bucket(algo.TokenBucket, second), stepped)),
		allowing("gcra, queue", with(gcra, queued)),
		allowing("gcra", gcra),
		redisRate(),
		{name: "INCRBY, EXPIRE: two commands, no script", check: func(id string) []call {
			return []call{command("INCRBY", "domain_key_"+id, "1"), command("EXPIRE", "domain_key_"+id, "3600")}
		}},
		slots("concurrency, take and give back, 20 held", 20),
		termed("gcra, overrides", algo.Terms{Overrides: true}, gcra),
		overridden("gcra, an override that is known", "tier:pro"),
		termed("gcra, penalty", algo.Terms{Penalty: penalty}, gcra),
		denying("denied: fixed_window, first_request", with(usedUp(algo.FixedWindow), fromFirst)),
		denying("denied: concurrency", algo.Limit{Algorithm: algo.Concurrency, Units: 1, TTLMicros: hour}),
		denying("denied: sliding_window_log", algo.Limit{Algorithm: algo.SlidingWindowLog, Units: 16, WindowMicros: day}),
	}
	for _, a := range []algo.Algorithm{
		algo.FixedWindow, algo.SlidingWindowCounter, algo.TokenBucket, algo.LeakyBucket, algo.GCRA,
	} {
		all = append(all, denying("denied: "+a.String(), usedUp(a)))
	}
	const apart = "gcra, 3 limits in 3 calls"
	three := []algo.Limit{gcra, bucket(algo.GCRA, minute), bucket(algo.GCRA, hour)}
	return append(all, allowing("gcra, 3 limits in one call", three...),
		subject{name: apart, check: func(id string) (calls []call) {
			for _, l := range three {
				calls = append(calls, allowing(apart, l).check(id)...)
			}
			return calls
		}})
}

// sizes are subjects whose states differ in size.
func sizes() []subject {
	// What has refilled leaves nothing behind: a unit takes 86 s here.
	slow := func(a algo.Algorithm) algo.Limit {
		return algo.Limit{Algorithm: a, Units: 1000, Burst: 1000, WindowMicros: day}
	}
	all := []subject{
		allowing("fixed_window", fixed),
		allowing("fixed_window, first_request", with(fixed, fromFirst)),
		counting("sliding_window_counter, 1 sub_windows", hour, 1),
		counting("sliding_window_counter, 60 sub_windows", hour, 60),
		allowing("token_bucket", slow(algo.TokenBucket)),
		allowing("leaky_bucket", slow(algo.LeakyBucket)),
		allowing("gcra", slow(algo.GCRA)),
		allowing("token_bucket, refill step", with(slow(algo.TokenBucket), stepped)),
		allowing("leaky_bucket, queue", with(slow(algo.LeakyBucket), queued)),
		allowing("gcra, queue", with(slow(algo.GCRA), queued)),
	}
	for i := range all {
		all[i].charges = 1
	}
	for _, n := range []int{1, 128, 1000} {
		name := fmt.Sprintf("concurrency, %d in flight", n)
		r, nonce := newRule(name, algo.Terms{}, inUse), int64(0)
		log := allowing(fmt.Sprintf("sliding_window_log, %d entries", n), long)
		log.charges = n
		all = append(all, log, subject{name: name, charges: n, check: func(id string) []call {
			nonce++
			return []call{r.decide(id, nonce, 1, true)}
		}})
	}
	return all
}

// allowing is a rule of limits that admit what is measured.
func allowing(name string, limits ...algo.Limit) subject {
	return termed(name, algo.Terms{}, limits...)
}

// termed is allowing with terms.
func termed(name string, terms algo.Terms, limits ...algo.Limit) subject {
	r := newRule(name, terms, limits...)
	return subject{name: name, check: func(id string) []call { return []call{r.decide(id, 0, 1, true)} }}
}

// usedUp is one unit a day.
func usedUp(a algo.Algorithm) algo.Limit {
	return algo.Limit{Algorithm: a, Units: 1, WindowMicros: day}
}

// denying is a rule of one limit that is used up, for a day.
func denying(name string, l algo.Limit) subject {
	r := newRule(name, algo.Terms{}, l)
	return subject{
		name:  name,
		prime: func(id string) []call { return []call{r.decide(id, 0, l.Units, true)} },
		check: func(id string) []call { return []call{r.decide(id, 0, 1, false)} },
	}
}

// counting is a sliding window counter whose earlier sub-windows hold counts.
func counting(name string, window, subWindows int64) subject {
	l := algo.Limit{Algorithm: algo.SlidingWindowCounter, Units: plenty, WindowMicros: window, SubWindows: subWindows}
	s, r := allowing(name, l), newRule(name, algo.Terms{}, l)
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

// slots takes a slot and gives it back, while so many others are held.
func slots(name string, held int64) subject {
	r := newRule(name, algo.Terms{}, inUse)
	return subject{
		name: name,
		prime: func(id string) (calls []call) {
			for nonce := range held {
				calls = append(calls, r.decide(id, nonce+1, 1, true))
			}
			return calls
		},
		check: func(id string) []call {
			release := []string{fmt.Sprint(firstNonce), "1"}
			return []call{r.decide(id, 0, 1, true), evalsha(algo.ReleaseScript().Source, r.keys(id), release, nil)}
		},
	}
}

// overridden is a rule whose checks are made for the override that is set.
func overridden(name, value string) subject {
	r := newRule(name, algo.Terms{Overrides: true}, gcra)
	return subject{
		name:  name,
		prime: func(id string) []call { return []call{command("SET", r.keys(id)[1], value)} },
		check: func(id string) []call {
			c := r.decide(id, 0, 1, true)
			c.command = append(c.command, value)
			return []call{c}
		},
	}
}

// recorder is a Redis that learns the script and the arguments of the peer's calls.
type recorder struct {
	redis.Cmdable

	script string
	args   []string
}

// EvalSha knows no script, so that the peer sends it.
func (r *recorder) EvalSha(ctx context.Context, _ string, _ []string, _ ...any) *redis.Cmd {
	reply := redis.NewCmd(ctx)
	reply.SetErr(redis.ErrNoScript)
	return reply
}

// Eval keeps the script.
func (r *recorder) Eval(ctx context.Context, script string, _ []string, args ...any) *redis.Cmd {
	r.script, r.args = script, nil
	for _, arg := range args {
		r.args = append(r.args, fmt.Sprint(arg))
	}
	return r.EvalSha(ctx, "", nil)
}

// redisRate calls the script of redis_rate v10, the usual GCRA of Go programs on Redis, as its Allow does, for
// 1000 a second. https://github.com/go-redis/redis_rate
func redisRate() subject {
	var r recorder
	_, _ = redis_rate.NewLimiter(&r).Allow(context.Background(), "", redis_rate.Limit{
		Rate: busy, Burst: bigBurst, Period: second * 1000,
	})
	admitted := func(reply *redis.Cmd) error {
		if values, _ := reply.Slice(); len(values) == 0 || values[0] != int64(1) {
			return fmt.Errorf("its reply is %v (want 1 first)", values)
		}
		return nil
	}
	return subject{name: "redis_rate v10", check: func(id string) []call {
		key := "rl:{redisrat|" + id + "}:gcra:1s" // as long as ours: it is the scripts that are compared
		return []call{evalsha(r.script, []string{key}, r.args, admitted)}
	}}
}
