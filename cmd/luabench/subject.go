package main

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/algo"
)

// subject is one way to decide a request, whose cost is measured.
type subject struct {
	name  string
	goal  float64                // the most it should cost, in return 1; 0 for no goal
	prime func(id string) []call // brings an identity's keys into the state that is measured; may be nil
	check func(id string) []call
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
	sum := sha1.Sum([]byte(source))
	words := []any{"EVALSHA", hex.EncodeToString(sum[:]), len(keys)}
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
	for _, l := range r.Limits() {
		keys = append(keys, r.key(id, l.KeySuffix()))
	}
	for _, suffix := range r.TermSuffixes() {
		keys = append(keys, r.key(id, suffix))
	}
	return keys
}

func (r rule) key(id, suffix string) string { return fmt.Sprintf("rl:{%s|%s}%s", r.tag, id, suffix) }

// args are the arguments of a check.
func (r rule) args(nonce, cost int64) (args []string) {
	args = r.CheckArgs(firstNonce+nonce, algo.Over{}, r.Each(cost))
	if penalty := r.Terms().Penalty; penalty != nil {
		args = append(append(args, penalty.Args()...), "")
	}
	return args
}

// firstNonce is as long as those of the plugin are.
const firstNonce = int64(1) << 62

// decide is a check that the limits must admit, or reject.
func (r rule) decide(id string, nonce, cost int64, allowed bool) call {
	return evalsha(r.Script().Source, r.keys(id), r.args(nonce, cost), func(reply *redis.Cmd) error {
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

// take is a check that the limits must admit.
func (r rule) take(id string, nonce, cost int64) call {
	return r.decide(id, nonce, cost, true)
}

// allowing is a rule of limits that admit what is measured.
func allowing(name string, goal float64, limits ...algo.Limit) *subject {
	return termed(name, goal, algo.Terms{}, limits...)
}

// termed is allowing with terms.
func termed(name string, goal float64, terms algo.Terms, limits ...algo.Limit) *subject {
	r := newRule(name, terms, limits...)
	return &subject{name: name, goal: goal, check: func(id string) []call { return []call{r.take(id, 0, 1)} }}
}

// denying is a rule of one limit that is used up, for a day.
func denying(name string, goal float64, l algo.Limit) *subject {
	r := newRule(name, algo.Terms{}, l)
	return &subject{
		name: name, goal: goal,
		prime: func(id string) []call { return []call{r.take(id, 0, l.Units)} },
		check: func(id string) []call { return []call{r.decide(id, 0, 1, false)} },
	}
}

// separately decides each limit with a call of its own.
func separately(name string, limits ...algo.Limit) *subject {
	return &subject{name: name, check: func(id string) (calls []call) {
		for _, l := range limits {
			calls = append(calls, allowing(name, 0, l).check(id)...)
		}
		return calls
	}}
}
