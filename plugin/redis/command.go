package redis

import (
	"slices"
	"strings"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/must"
	"github.com/sluiceproxy/sluice/plugin/rule"
	"github.com/sluiceproxy/sluice/plugin/text"
	"github.com/sluiceproxy/sluice/redisresp"
)

// kind is the purpose of a command.
type kind uint8

const (
	checking  kind = iota // charges for a request, for which a Waiter waits
	refunding             // gives a charge back
	settling              // makes charges what responses were worth
	releasing             // gives slots back, and nothing else
	renewing              // renews slots

	loggingIn      // AUTH
	selecting      // SELECT
	probing        // the breaker's probe: there is one while it is HalfOpen
	probingStream  // what a stream in place of a lost one has to answer first
	askingServer   // INFO server, of the startup check
	askingRole     // INFO replication, of the startup check
	askingMemory   // INFO memory, of the startup check or for the server stats
	askingStats    // INFO stats, for the server stats
	askingKeys     // INFO keyspace, for the server stats
	startupProbing // what the startup check has to be able to do
	abandoned      // a probe that had no reply in time

	kinds

	scripted = renewing + 1 // the kinds below it call a rule's scripts
)

// form is which of a rule's scripts a command calls.
type form uint8

const (
	noForm form = iota // its sender has encoded it, and it is never sent again
	checkForm
	changeForm
	releaseForm
	renewForm

	forms
)

// command is one command to Redis, in the pipe until its reply has come, or in the
// outbox. It keeps what it takes to send it again.
type command struct {
	kind   kind
	script *Script
	// Demand is the command's own copy. A check alone has costs. The values of a release or renewal are
	// its part's id.
	rule.Demand
	nonce int64     // of the charge
	over  algo.Over // of an earlier batch

	bySource bool // with EVAL
	byKey    bool // without TIME, see outcomeOf

	madeFor  []byte // the override that a check was made for
	strikes  []algo.Strikes
	deferred bool // a rejection is no strike yet
	// change is the corrections of a refund or settlement: for each charge the units to take off
	// every limit or, below 0, to add, and then the charge's time.
	change []int64
	slots  []Slots // of a release or renewal; those that a check may take, or a refund gives back
	blind  bool    // a release of slots that may never have been taken

	waiter   Waiter
	index    int    // which of the request's checks
	question uint64 // which request
	expired  bool   // its Waiter has heard that the timeout is over
	overtook bool   // a background command in front of it was not carried out
	retimed  bool   // sent with the sizes of another time
	remade   bool   // sent as another override makes it

	sentMicros     int64 // when it was first sent
	listenedMicros int64 // the same in listening time
	keptMicros     int64 // listening time for which its request had waited before
	untilMicros    int64 // in the outbox: when it is given up
}

// same reports whether two commands are about one identity of one rule, whatever the values
// within it are: they have limits without "per" in common.
func (c *command) same(other *command) bool {
	return c.script == other.script && string(c.Tag) == string(other.Tag)
}

// appendTo encodes a command that calls a rule's script. This is the one place that
// tells commands apart: all else about a kind is a row of a table.
func (c *command) appendTo(dst []byte) []byte {
	s, form := c.script, table[c.kind].form
	switch form {
	case checkForm: // its head counts the arguments of one without an override
		dst = appendHead(dst, &s.commandsOf(c.byKey).check, c.bySource, min(len(c.madeFor), 1))
		dst = s.appendKeys(dst, c)
		for _, suffix := range s.terms {
			dst = s.appendKey(dst, c.Tag, suffix)
		}
		if c.byKey {
			dst = s.appendKey(dst, c.Tag, algo.ClockSuffix)
		}
		if s.packed == nil {
			dst = s.appendLimits(dst, c, c.Costs)
		} else {
			s.holdCosts(c.Costs)
			s.arg = algo.AppendCosts(s.arg[:0], c.Costs)
			dst = redisresp.AppendBulk(dst, s.arg)
			if s.slots >= 0 {
				dst = redisresp.AppendBulkInt(dst, c.nonce)
			}
			if plan := s.planOf(c.Sizes); plan == s.plan {
				dst = append(dst, s.packed...)
			} else {
				s.arg = plan.AppendNumbers(s.arg[:0])
				dst = redisresp.AppendBulk(dst, s.arg)
			}
		}
		if s.penalty != nil {
			dst = append(dst, s.penalty...)
			s.arg = algo.AppendStrikes(s.arg[:0], c.strikes, c.deferred)
			dst = redisresp.AppendBulk(dst, s.arg)
		}
		if len(c.madeFor) > 0 {
			dst = redisresp.AppendBulk(dst, c.madeFor)
		}

	case changeForm: // its head counts the arguments of one charge
		limits := len(s.suffixes)
		must.Hold(len(c.change) > 0 && len(c.change)%(limits+1) == 0,
			"a change has of each charge a number for each limit, and its time")
		dst = appendHead(dst, &s.commandsOf(c.byKey).refund, c.bySource, len(c.change)-limits-1)
		dst = s.appendKeys(dst, c)
		if c.byKey {
			dst = s.appendKey(dst, c.Tag, algo.ClockSuffix)
		}
		dst = s.appendLimits(dst, c, c.change[:limits])
		for _, v := range c.change[limits:] {
			dst = redisresp.AppendBulkInt(dst, v)
		}

	case releaseForm, renewForm: // a release does not ask for the time
		script, keys, args := algo.ReleaseScript(), 1, 2*len(c.slots)
		switch {
		case form == renewForm && c.byKey:
			script, keys, args = algo.RenewScriptWithoutTime(), 2, args+1
		case form == renewForm:
			script, args = algo.RenewScript(), args+1
		}
		dst = appendCall(dst, script, c.bySource, keys, args)
		limit, values := c.slotLimit(), c.Values
		if s.per != nil {
			values = values[min(len(s.per[limit]), len(values)):]
		}
		s.key = append(AppendKey(s.key[:0], s.prefix, c.Tag, s.suffixes[limit]), values...)
		dst = redisresp.AppendBulk(dst, s.key)
		if keys > 1 {
			dst = s.appendKey(dst, c.Tag, algo.ClockSuffix)
		}
		if form == renewForm { // the slots live for another ttl
			dst = redisresp.AppendBulkInt(dst, s.plan.Limits()[limit].TTLMicros)
		}
		for _, held := range c.slots {
			dst = redisresp.AppendBulkInt(dst, held.Nonce)
			dst = redisresp.AppendBulkInt(dst, held.Count)
		}
	}
	return dst
}

// copyFrom copies another command into c, in the memory that c has.
func (c *command) copyFrom(from *command) {
	demand, madeFor := c.Demand, append(c.madeFor[:0], from.madeFor...)
	demand.CopyFrom(&from.Demand)
	strikes := append(c.strikes[:0], from.strikes...)
	change, slots := append(c.change[:0], from.change...), append(c.slots[:0], from.slots...)
	*c = *from
	c.Demand, c.madeFor, c.strikes, c.change, c.slots = demand, madeFor, strikes, change, slots
}

// size is how many charges, or how many requests' slots, a background command is about.
func (c *command) size() int64 {
	if len(c.change) > 0 {
		return int64(len(c.change) / (len(c.script.suffixes) + 1))
	}
	return int64(len(c.slots))
}

// Check is one rule's charge for a request, as Redis is asked for it. Add copies it.
type Check struct {
	Script *Script
	rule.Demand
	Cost int64 // of each limit, where Costs is empty
	// MadeFor is the override that the check was made for; empty: none.
	MadeFor []byte
	// Strikes are rejections of the identity to report, see algo.Penalty.
	Strikes []algo.Strikes
	// Over is the rest of an earlier batch, where the check is of a batch.
	Over algo.Over
	// Deferred: a rejection does not count as a strike yet; the worker judges it first.
	Deferred bool
}

// Reply is Redis' answer to one check. Its lists are good during the call only.
type Reply struct {
	algo.Ruling                 // AtMicros is Redis' time
	Decisions   []algo.Decision // of the limits, where they have decided
	// OtherOverride: the check was made for another override than Override, which is in force
	// and lasts for LeftMicros; empty: there is none. They matter to Remake alone.
	OtherOverride bool
	Override      []byte
}

// appendCosts appends one cost for each limit: costs, or cost where there are none.
func appendCosts(dst, costs []int64, cost int64, limits int) []int64 {
	if len(costs) > 0 {
		return append(dst, costs...)
	}
	for range limits {
		dst = append(dst, cost)
	}
	return dst
}

// Charge is the charge of a check, with all that it takes to change it.
type Charge struct {
	Script      *Script
	rule.Demand       // at the sizes that it was charged at
	Cost        int64 // of each limit, where Costs is empty
	Nonce       int64 // from Add
	AtMicros    int64 // Redis' time of the charge; 0: nothing was charged
	Batch       bool  // whether the units are of a batch
}

// makeChange turns c into a command that takes back units of a charge: of each limit, in order.
// It reports whether there is anything to do.
func (c *command) makeChange(k kind, charge *Charge, back []int64, nowMicros int64) bool {
	c.makeBackground(k, charge.Script, charge.Tag, nowMicros)
	c.nonce, c.Sizes = charge.Nonce, append(c.Sizes, charge.Sizes...)
	c.Values = append(c.Values, charge.Values...)
	for i := range c.Sizes {
		if c.Sizes[i].Ceiling > 0 { // a change is the same in all classes
			c.Sizes[i].Ceiling = algo.MaxCeiling
		}
	}
	c.change = appendCosts(c.change, back, charge.Cost, len(charge.Script.suffixes))
	if charge.Batch {
		c.over.Units = 1
	}
	if charge.AtMicros == 0 || slices.Max(c.change) == 0 && slices.Min(c.change) == 0 {
		return false
	}
	c.slots = charge.Script.appendHeld(c.slots, charge.Nonce, c.change)
	c.change = append(c.change, charge.AtMicros)
	return true
}

// makeBackground turns c into a background command without any charge or slots yet, and keeps
// its memory.
func (c *command) makeBackground(k kind, script *Script, tag []byte, nowMicros int64) {
	*c = command{
		kind: k, script: script,
		Demand: rule.Demand{
			Tag: append(c.Tag[:0], tag...), Values: c.Values[:0], Costs: c.Costs[:0], Sizes: c.Sizes[:0],
		},
		strikes: c.strikes[:0],
		change:  c.change[:0], slots: c.slots[:0], sentMicros: nowMicros,
	}
}

// The commands that give slots back, and renew them. Both name a request's own entry in Redis and
// no other, so they may be sent any number of times: the Conn repeats one that was lost with
// its connection.

// Slots are one request's units of a concurrency limit.
type Slots struct {
	Nonce int64 // of the call that took them
	Count int64
}

// slotLimit is the limit, of the command's part, whose slots a release or renewal is about.
func (c *command) slotLimit() int {
	s := c.script
	for i := s.slots; s.per != nil && i < len(s.suffixes); i++ {
		if !s.plan.TakesNonce(i) {
			continue
		}
		if id := s.per[i]; (id == "") == (len(c.Values) == 0) && strings.HasPrefix(text.View(c.Values), id) {
			return i
		}
	}
	return s.slots
}

// makeSlotCommand turns c into a command about the slots of a part of an identity.
func (c *command) makeSlotCommand(k kind, script *Script, part []byte, nowMicros int64) {
	if script.per == nil {
		c.makeBackground(k, script, part, nowMicros)
		return
	}
	tag, id := rule.CutPart(part)
	c.makeBackground(k, script, tag, nowMicros)
	c.Values = append(c.Values, id...)
}

// appendHeld appends the slots that costs of the limits take.
func (s *Script) appendHeld(dst []Slots, nonce int64, costs []int64) []Slots {
	must.Hold(len(costs) == len(s.suffixes), "there is a cost for each limit")
	for i := s.slots; i >= 0 && i < len(s.suffixes); i++ {
		if s.plan.TakesNonce(i) && costs[i] > 0 {
			dst = append(dst, Slots{nonce, costs[i]})
		}
	}
	return dst
}

// appendCall begins a call of a script with so many keys and arguments.
func appendCall(dst []byte, script algo.Script, bySource bool, keys, args int) []byte {
	dst = redisresp.AppendArray(dst, 3+keys+args)
	name, body := "EVALSHA", script.SHA1
	if bySource {
		name, body = "EVAL", script.Source
	}
	dst = redisresp.AppendBulkString(redisresp.AppendBulkString(dst, name), body)
	return redisresp.AppendBulkInt(dst, int64(keys))
}
