package main

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"hash/crc32"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/redisresp"
)

// subject is one way to decide a request, whose cost is measured.
type subject struct {
	name    string
	goal    float64                // the most it should cost, in return 1; 0 for no goal
	scripts []string               // what SCRIPT LOAD must have seen
	prime   func(id string) []call // brings an identity's keys into the state that is measured; may be nil
	check   func(id string) []call
}

// call is one command and what its reply must be.
type call struct {
	command []string
	accept  func(redisresp.Reply) error
}

// anything accepts every reply.
func anything(redisresp.Reply) error { return nil }

// evalsha is a call of a script.
func evalsha(source string, keys, args []string, accept func(redisresp.Reply) error) call {
	sum := sha1.Sum([]byte(source))
	command := append([]string{"EVALSHA", hex.EncodeToString(sum[:]), fmt.Sprint(len(keys))}, keys...)
	return call{append(command, args...), accept}
}

// rule is a policy with keys of its own.
type rule struct {
	*algo.Plan
	tag string // as long for every rule, as the length of a key costs time and memory
}

// newRule makes a rule of limits that are known to be right.
func newRule(name string, limits ...algo.Limit) rule {
	p, err := algo.NewPlan(limits)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", name, err))
	}
	return rule{p, fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(name)))}
}

// decide is a call of the rule's script that must be allowed, or denied.
func (r rule) decide(id string, cost int64, allowed bool) call {
	return r.decideAs(0, id, cost, allowed)
}

// decideAs is decide of a request with a nonce.
func (r rule) decideAs(nonce int64, id string, cost int64, allowed bool) call {
	return evalsha(r.Script().Source, r.keys(id), r.args(nonce, cost), func(reply redisresp.Reply) error {
		return r.accept(reply, allowed)
	})
}

// release is a call that gives slots back.
func (r rule) release(nonce int64, id string, slots int64) call {
	return evalsha(algo.ReleaseScript().Source, r.keys(id), []string{nonceOf(nonce), fmt.Sprint(slots)}, anything)
}

// nonceOf is as long as those of the plugin are.
func nonceOf(n int64) string { return fmt.Sprint(int64(1)<<62 + n) }

// args are the arguments of a call.
func (r rule) args(nonce, cost int64) (args []string) {
	for i := range r.Limits() {
		args = append(args, fmt.Sprint(cost))
		if r.TakesNonce(i) {
			args = append(args, nonceOf(nonce))
		}
		args = append(args, r.Args(i)...)
	}
	return args
}

// keys are as the plugin builds them.
func (r rule) keys(id string) (keys []string) {
	for _, l := range r.Limits() {
		keys = append(keys, fmt.Sprintf("rl:{%s|%s}%s", r.tag, id, l.KeySuffix()))
	}
	return keys
}

func (r rule) accept(reply redisresp.Reply, want bool) error {
	var values []int64
	for it := reply.Iter(); it.Next(); {
		values = append(values, it.Reply().Int)
	}
	_, allowed, err := r.ParseReply(values, make([]algo.Decision, len(r.Limits())))
	if err == nil && allowed != want {
		err = fmt.Errorf("allowed is %v, which is not what is to be measured", allowed)
	}
	return err
}

// allowing is a rule that admits what is measured.
func allowing(name string, goal float64, limits ...algo.Limit) subject {
	r := newRule(name, limits...)
	return subject{
		name: name, goal: goal, scripts: []string{r.Script().Source},
		check: func(id string) []call { return []call{r.decide(id, 1, true)} },
	}
}

// denying is a rule of one limit that is used up, for a day.
func denying(name string, goal float64, l algo.Limit) subject {
	r := newRule(name, l)
	return subject{
		name: name, goal: goal, scripts: []string{r.Script().Source},
		prime: func(id string) []call { return []call{r.decide(id, l.Units, true)} },
		check: func(id string) []call { return []call{r.decide(id, 1, false)} },
	}
}

// separately decides each limit with a call of its own.
func separately(name string, limits ...algo.Limit) subject {
	s := subject{name: name}
	var rules []rule
	for _, l := range limits {
		r := newRule(name, l)
		rules = append(rules, r)
		s.scripts = append(s.scripts, r.Script().Source)
	}
	s.check = func(id string) (calls []call) {
		for _, r := range rules {
			calls = append(calls, r.decide(id, 1, true))
		}
		return calls
	}
	return s
}
