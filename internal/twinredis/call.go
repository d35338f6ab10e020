package twinredis

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// Call is one script that has run.
type Call struct {
	Kind    Kind
	Limits  *rule.LimitSet // of a check or refund
	Plan    *algo.Plan     // with the sizes that the call brought
	Tag     []byte
	Nonce   int64   // of the slots; 0 if there are none
	Costs   []int64 // of each limit: charged, or in a refund given back, or, below 0, owed
	Allowed bool    // of a check: everything was charged
	// ChargedMicros is when a refund's charge was made.
	ChargedMicros int64
	AtMicros      int64
}

const wrongArguments = "-ERR twinredis: nobody sends such arguments\r\n"

// arguments are those of a check or refund.
type arguments struct {
	costs  []int64
	nonce  int64
	over   algo.Over
	limits []string // of all limits, as set.args
	rest   []string
}

// parse reads the arguments of a plan's call.
func parse(k Kind, p *algo.Plan, args [][]byte) (a arguments, ok bool) {
	if k == Check && p.Packs() {
		return parsePacked(p, args)
	}
	at, ok := 0, true
	next := func() string {
		if at++; at > len(args) {
			ok = false
			return ""
		}
		return string(args[at-1])
	}
	for i := range p.Limits() {
		cost, err := strconv.ParseInt(next(), 10, 64)
		ok = ok && err == nil
		a.costs = append(a.costs, cost)
		if p.TakesNonce(i) {
			a.nonce, _ = strconv.ParseInt(next(), 10, 64)
		}
		if p.TakesOver(i) {
			a.over.Units, _ = strconv.ParseInt(next(), 10, 64)
			a.over.ChargedMicros, _ = strconv.ParseInt(next(), 10, 64)
		}
		for range p.NumArgs(i) {
			a.limits = append(a.limits, next())
		}
	}
	for ok && at < len(args) {
		a.rest = append(a.rest, next())
	}
	return a, ok
}

// run runs a script on keys.
func (s *Server) run(dst []byte, f *script, keys, args [][]byte, nowMicros int64) []byte {
	if f.kind == Release || f.kind == Renew {
		return s.slots(dst, f, keys[0], args, nowMicros)
	}
	a, ok := parse(f.kind, f.sets[0].Plan, args) // all sets of a script have the same shape
	if !ok || f.kind == Check && len(a.rest) < f.sets[0].Plan.NumTermArgs() || f.kind == Refund && len(a.rest) == 0 {
		return append(dst, wrongArguments...)
	}
	t, plan := f.plan(keys, a.limits, a.rest)
	if t == nil {
		return append(dst, wrongArguments...)
	}
	s.call = Call{
		Kind: f.kind, Limits: t.LimitSet, Plan: plan, Tag: tagOf(keys[0]),
		Nonce: a.nonce, Costs: a.costs, AtMicros: nowMicros,
	}
	if f.kind == Refund {
		return s.refund(dst, keys[:len(t.Limits)], &a)
	}
	return s.check(dst, keys, &a)
}

// tell tells of the call that has run.
func (s *Server) tell() {
	if s.Ran != nil {
		s.Ran(&s.call)
	}
}

// check decides, and charges.
func (s *Server) check(dst []byte, keys [][]byte, a *arguments) []byte {
	c := &s.call
	now, limits := c.AtMicros, keys[:len(c.Plan.Limits())]
	if c.Plan.OtherTime(now) {
		return appendIntegers(dst, now)
	}
	terms := s.terms(c.Plan, keys[len(limits):], a.rest, now)
	if reply, done := terms.before(dst); done {
		return reply
	}
	states := s.load(limits, now)
	out := s.out[:len(limits)]
	changed := c.Plan.RebaseFor(states, now, a.costs, out)
	if a.over.Units > 0 {
		c.Allowed = c.Plan.DecideBatch(a.over, states, now, a.costs, out)
	} else {
		c.Allowed = c.Plan.DecideAs(a.nonce, states, now, a.costs, out)
	}
	for i := range c.Costs {
		if c.Allowed && c.Plan.OthersPay(out) == (i < c.Plan.Own()) { // the one list, or the other
			c.Costs[i] = 0
		}
	}
	if c.Allowed || changed {
		s.save(c.Plan, limits, states)
	}
	earned := terms.after(c.Allowed)
	s.tell()
	if len(limits) == 0 {
		return appendIntegers(dst, now, int64(algo.MarkUnlimited), terms.ignored)
	}
	return appendIntegers(dst, terms.append(c.Plan.AppendReply(nil, now, out), earned)...)
}

// refund changes a charge, and any further ones.
func (s *Server) refund(dst []byte, keys [][]byte, a *arguments) []byte {
	c := &s.call
	n, gone := len(keys), int64(0)
	states := s.load(keys, c.AtMicros)
	c.Plan.Rebase(states, c.AtMicros)
	for numbers := a.rest; ; numbers = numbers[n:] {
		charged, ok := readInt(numbers[0])
		if !ok {
			return append(dst, wrongArguments...)
		}
		if numbers = numbers[1:]; len(numbers) > 0 && len(numbers) < n+1 {
			return append(dst, wrongArguments...)
		}
		c.ChargedMicros = charged
		before := lengths(states)
		if a.over.Units > 0 {
			c.Plan.RefundBatch(states, charged, c.AtMicros, c.Costs)
		} else {
			c.Plan.RefundAs(c.Nonce, states, charged, c.AtMicros, c.Costs)
		}
		for j := range states {
			if c.Plan.TakesNonce(j) && c.Costs[j] > 0 && len(states[j]) == before[j] {
				gone++
			}
		}
		s.tell()
		if len(numbers) == 0 {
			break
		}
		for i := range n {
			c.Costs[i], _ = readInt(numbers[i])
		}
	}
	s.save(c.Plan, keys, states)
	return appendInteger(dst, gone)
}

// lengths are those of states.
func lengths(states []algo.State) (all []int) {
	for i := range states {
		all = append(all, len(states[i]))
	}
	return all
}

// load reads copies of the limits' states.
func (s *Server) load(keys [][]byte, nowMicros int64) []algo.State {
	states := make([]algo.State, len(keys))
	for i, key := range keys {
		states[i] = slices.Clone(s.get(key, nowMicros).state)
	}
	return states
}

func (s *Server) save(p *algo.Plan, keys [][]byte, states []algo.State) {
	for i, key := range keys {
		s.put(key, states[i], p.ExpiresAtMicros(i, states[i]))
	}
}

// slots gives back slots of requests, or renews them: pairs of a nonce and slots, after
// the ttl of those that are renewed.
func (s *Server) slots(dst []byte, f *script, key []byte, args [][]byte, nowMicros int64) []byte {
	var numbers []int64
	for _, arg := range args {
		v, ok := readInt(string(arg))
		if !ok {
			return append(dst, wrongArguments...)
		}
		numbers = append(numbers, v)
	}
	ttl := int64(algo.MinTTLMicros)
	if f.kind == Renew && len(numbers) > 0 {
		ttl, numbers = numbers[0], numbers[1:]
	}
	p, err := algo.NewPlan([]algo.Limit{{Algorithm: algo.Concurrency, Units: 1, TTLMicros: ttl}})
	if err != nil || len(numbers)%2 != 0 {
		return append(dst, wrongArguments...)
	}
	states, changed := []algo.State{slices.Clone(s.get(key, nowMicros).state)}, int64(0)
	for ; len(numbers) > 0; numbers = numbers[2:] {
		before := len(states[0])
		if f.kind == Renew {
			p.Renew(states, nowMicros, numbers[0], numbers[1])
		} else {
			p.RefundAs(numbers[0], states, 0, nowMicros, numbers[1:2])
		}
		if (len(states[0]) != before) == (f.kind == Renew) {
			changed++
		}
		s.call = Call{Kind: f.kind, Tag: tagOf(key), Nonce: numbers[0], Costs: numbers[1:2], AtMicros: nowMicros}
		s.tell()
	}
	s.put(key, states[0], p.ExpiresAtMicros(0, states[0]))
	return appendInteger(dst, changed)
}

// parsePacked reads the arguments of a check of a plan that packs.
func parsePacked(p *algo.Plan, args [][]byte) (a arguments, ok bool) {
	n := p.NumCheckArgs()
	if len(args) < n || len(args[0]) == 0 {
		return a, false
	}
	costs := strings.Split(string(args[0]), " ")
	for i := range p.Limits() {
		cost, err := strconv.ParseInt(costs[min(i, len(costs)-1)], 10, 64)
		if err != nil {
			return a, false
		}
		a.costs = append(a.costs, cost)
	}
	if _, slots := p.Slots(); slots {
		a.nonce, _ = strconv.ParseInt(string(args[1]), 10, 64)
	}
	for packed := args[n-1]; len(packed) >= 8; packed = packed[8:] {
		a.limits = append(a.limits, exactly(math.Float64frombits(binary.LittleEndian.Uint64(packed))))
	}
	for _, arg := range args[n:] {
		a.rest = append(a.rest, string(arg))
	}
	return a, len(costs) == 1 || len(costs) == len(a.costs)
}

// exactly is a number with all its digits, as algo.Plan.Args has them: it counts 2^-30 at the
// finest.
func exactly(number float64) string {
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(number, 'f', 30, 64), "0"), ".")
}
