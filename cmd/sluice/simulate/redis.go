package simulate

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"strconv"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/rule"
	"github.com/sluiceproxy/sluice/redisresp"
)

// server is a Redis that knows the scripts of one configuration. It does what
// they do by their Go twins, on one core for each shard.
type server struct {
	scripts map[string]script // by SHA-1, and by source
	states  map[string]algo.State
	decoder *redisresp.Decoder
	limits  []algo.Decision

	freeNanos []int64 // by shard: when its core has done what it was sent
	readBy    []int64 // by shard: the last arrival it has read from
	arrivals  int64   // of commands, one or several together
	commands  int64
	received  int64 // bytes
	busyNanos int64
	expires   map[string]int64
}

// script is what a text of Lua means.
type script struct {
	set    *rule.LimitSet
	refund bool
	nanos  int64 // of Redis' core for a check that is admitted
}

func newServer(rules *rule.Set, shards int) *server {
	s := &server{
		scripts:   map[string]script{},
		decoder:   redisresp.NewDecoder(redisresp.Limits{}),
		limits:    make([]algo.Decision, algo.MaxLimits),
		freeNanos: make([]int64, shards),
		readBy:    make([]int64, shards),
	}
	for _, set := range rules.LimitSets {
		nanos := checkNanos(set.Plan.Limits())
		check, refund := set.Plan.Script(), set.Plan.RefundScript()
		for _, name := range []string{check.SHA1, check.Source} {
			s.scripts[name] = script{set: set, nanos: nanos}
		}
		for _, name := range []string{refund.SHA1, refund.Source} {
			s.scripts[name] = script{set: set, refund: true, nanos: nanos}
		}
	}
	release := algo.ReleaseScript()
	for _, name := range []string{release.SHA1, release.Source} {
		s.scripts[name] = script{} // its cost is in the check's
	}
	s.lose()
	return s
}

// lose forgets all counters.
func (s *server) lose() { s.states, s.expires = map[string]algo.State{}, map[string]int64{} }

// receive runs commands that arrive now. It returns the replies and when the last
// of them is ready.
func (s *server) receive(commands []byte, nowMicros int64) (replies []byte, readyMicros int64) {
	s.received += int64(len(commands))
	s.arrivals++
	readyMicros = nowMicros
	for len(commands) > 0 {
		command, n, outcome := s.decoder.Decode(commands)
		if outcome != redisresp.Complete { // the plugin sends whole commands
			return append(replies, "-ERR not a command\r\n"...), readyMicros
		}
		commands = commands[n:]
		s.commands++
		var ready int64
		replies, ready = s.run(replies, command, nowMicros)
		readyMicros = max(readyMicros, ready)
	}
	return replies, readyMicros
}

// occupy has the core of a key's shard work, and returns when it is done. What
// arrives together is read and answered once.
func (s *server) occupy(key []byte, nanos, nowMicros int64) (doneMicros int64) {
	shard := uint32(0)
	if len(s.freeNanos) > 1 {
		hash := fnv.New32a()
		hash.Write(key[:lastBrace(string(key))+1])
		shard = hash.Sum32() % uint32(len(s.freeNanos))
	}
	if s.readBy[shard] != s.arrivals {
		s.readBy[shard] = s.arrivals
		nanos += readNanos
	}
	free := &s.freeNanos[shard]
	*free = max(*free, nowMicros*1000) + nanos
	s.busyNanos += nanos
	return (*free + 999) / 1000
}

// run appends the reply to one command, and returns when it is ready.
func (s *server) run(dst []byte, command redisresp.Reply, nowMicros int64) ([]byte, int64) {
	var words [][]byte
	for it := command.Iter(); it.Next(); {
		words = append(words, it.Reply().Bytes)
	}
	if len(words) < 4 || !bytes.HasPrefix(words[0], []byte("EVAL")) {
		return append(dst, "+OK\r\n"...), nowMicros // AUTH, SELECT
	}
	keys, err := strconv.Atoi(string(words[2]))
	if err != nil || keys < 1 || len(words) < 3+keys {
		return append(dst, "-ERR wrong arguments\r\n"...), nowMicros
	}
	found, ok := s.scripts[string(words[1])]
	if !ok {
		return append(dst, "+OK\r\n"...), s.occupy(words[3], callNanos, nowMicros) // the breaker's probe
	}
	done := s.occupy(words[3], found.nanos, nowMicros)
	if found.set == nil {
		return append(dst, s.release(string(words[3]), words[4:])...), done
	}
	return s.call(dst, &found, words[3:3+keys], words[3+keys:], done), done
}

// call runs a script on keys.
func (s *server) call(dst []byte, c *script, keys, args [][]byte, nowMicros int64) []byte {
	costs, nonce, charged, ok := arguments(c.set.Plan, args, c.refund)
	if !ok {
		return append(dst, "-ERR wrong arguments\r\n"...)
	}
	var penalty *underPenalty
	if !c.refund && c.set.Rule.HasTerms() {
		penalty = s.penalty(c.set, keys, args, nowMicros)
		if left := penalty.left(nowMicros); left > 0 {
			return appendIntegers(dst, nowMicros, replyPenalty, left)
		}
		if len(c.set.Limits) == 0 {
			return appendIntegers(dst, nowMicros, replyUnlimited, 0)
		}
		keys = keys[:len(c.set.Limits)]
	}
	states := make([]algo.State, len(keys))
	for i, key := range keys {
		if s.expires[string(key)] > nowMicros {
			states[i] = append(algo.State(nil), s.states[string(key)]...)
		}
	}
	plan, allowed := planAt(c.set, nowMicros), true
	out := s.limits[:len(keys)]
	if c.refund {
		plan.RefundAs(nonce, states, charged, nowMicros, costs)
	} else {
		allowed = plan.DecideAs(nonce, states, nowMicros, costs, out)
	}
	if allowed {
		for i, key := range keys {
			s.states[string(key)] = states[i]
			s.expires[string(key)] = plan.ExpiresAtMicros(i, states[i])
		}
	}
	if c.refund {
		return append(dst, ":0\r\n"...)
	}
	return appendIntegers(dst, penalty.append(appendDecisions(plan, out, nowMicros), allowed, nowMicros)...)
}

// planAt is a list of limits with the calendar windows around a time.
func planAt(set *rule.LimitSet, micros int64) *algo.Plan {
	if set.Calendars == nil {
		return set.Plan
	}
	sizes := make([]algo.Size, len(set.Limits))
	for i := range sizes {
		sizes[i] = algo.Size{Units: set.Limits[i].Units, Burst: set.Limits[i].Burst}
		if windows := set.Calendars[i]; windows != nil {
			sizes[i].Bounds = windows.Around(micros)
		}
	}
	plan, ok := set.Plan.Sized(new(algo.Plan), sizes)
	if !ok {
		return set.Plan
	}
	return plan
}

// slotPlan stands for every concurrency limit: all of them give slots back alike.
var slotPlan, _ = algo.NewPlan([]algo.Limit{{Algorithm: algo.Concurrency, TTLMicros: algo.MinTTLMicros}})

// release gives slots of a key back: pairs of a nonce and slots.
func (s *server) release(key string, args [][]byte) (reply string) {
	states := []algo.State{s.states[key]}
	for ; len(args) >= 2; args = args[2:] {
		nonce, err := strconv.ParseInt(string(args[0]), 10, 64)
		slots, err2 := strconv.ParseInt(string(args[1]), 10, 64)
		if err != nil || err2 != nil {
			return "-ERR wrong arguments\r\n"
		}
		slotPlan.RefundAs(nonce, states, 0, 0, []int64{slots})
	}
	s.states[key] = states[0]
	if len(states[0]) == 0 {
		delete(s.states, key)
		delete(s.expires, key)
	}
	return ":0\r\n"
}

// arguments reads the costs of a call, one for each limit, its nonce if it has one, and
// of a refund when they were charged.
func arguments(plan *algo.Plan, args [][]byte, refund bool) (costs []int64, nonce, charged int64, ok bool) {
	at := 0
	for i := range plan.Limits() {
		if at >= len(args) {
			return nil, 0, 0, false
		}
		cost, err := strconv.ParseInt(string(args[at]), 10, 64)
		if err != nil {
			return nil, 0, 0, false
		}
		costs = append(costs, cost)
		at += 1 + plan.NumArgs(i)
		if plan.TakesNonce(i) {
			nonce, _ = strconv.ParseInt(string(args[min(at-plan.NumArgs(i), len(args)-1)]), 10, 64)
			at++
		}
	}
	if !refund {
		return costs, nonce, 0, true
	}
	charged, err := strconv.ParseInt(string(args[len(args)-1]), 10, 64)
	return costs, nonce, charged, err == nil
}

// appendDecisions is what a script answers.
func appendDecisions(plan *algo.Plan, out []algo.Decision, nowMicros int64) (values []int64) {
	values = []int64{nowMicros}
	for i := range out {
		d := &out[i]
		if plan.Limits()[i].Algorithm == algo.Concurrency {
			values = append(values, d.Remaining, d.RetryAfterMicros)
			continue
		}
		values = append(values, d.Remaining, d.ResetAfterMicros, d.RetryAfterMicros, d.ResetBeforeMicros)
		if plan.Limits()[i].Queue {
			values = append(values, d.DelayMicros)
		}
		if plan.Limits()[i].CalendarID != "" {
			values = append(values, d.BeginsMicros)
		}
	}
	return values
}

// appendIntegers writes an array of integers.
func appendIntegers(dst []byte, values ...int64) []byte {
	dst = fmt.Appendf(dst, "*%d\r\n", len(values))
	for _, v := range values {
		dst = fmt.Appendf(dst, ":%d\r\n", v)
	}
	return dst
}

// memory is what the counters take now.
func (s *server) memory(nowMicros int64, rules *rule.Set) (keys int, bytes int64) {
	sizes := map[string]algo.Limit{}
	for _, set := range rules.LimitSets {
		for i, suffix := range set.KeySuffixes {
			sizes[suffix] = set.Limits[i].Limit
		}
	}
	for key, state := range s.states {
		if s.expires[key] <= nowMicros {
			continue
		}
		keys++
		if i := lastBrace(key); i >= 0 {
			limit := sizes[key[i+1:]]
			bytes += stateBytes(&limit, state)
		}
	}
	return keys, bytes
}

func lastBrace(key string) int {
	for i := len(key) - 1; i >= 0; i-- {
		if key[i] == '}' {
			return i
		}
	}
	return -1
}
