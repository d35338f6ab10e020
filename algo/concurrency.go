package algo

import (
	_ "embed"
	"errors"
)

//go:embed concurrency.lua
var concurrencyLua string

// Bounds of Limit.TTLMicros, both included.
const (
	// Bound: us of a slot's `ttl`. Below it, the configuration is refused. Protects slots from
	// ending between two renewals.
	MinTTLMicros = 5_000_000 // 5 s
	// Bound: us of a slot's `ttl`. Beyond it, the configuration is refused. Protects limits from
	// slots of a dead Envoy.
	MaxTTLMicros = 3_600_000_000 // 1 h
)

// slotRetryMicros is the wait that a request is told while other requests occupy the slots:
// when one of those ends cannot be known.
//
// Bound: us of `Retry-After` for slots. Below it, a request that is refused comes too soon.
// Protects Redis.
const slotRetryMicros = 1_000_000

// concurrency counts the slots that requests hold at this moment. Its State is
// entries in no order. An entry that is not renewed in time has ended, so that slots
// of a process that died are not lost.
type concurrency struct {
	room int64 // of the request's class: the limit, where there are none
	ttl  int64 // us
	of   int64 // the limit
}

// An entry of a concurrency's State.
const (
	slotNonce = iota
	slotCount
	slotEnd // us since the Unix epoch
	slotLen
)

// concurrencyAlgorithm is the row of concurrency.
var concurrencyAlgorithm = algorithm{
	name: "concurrency", fields: common | 1<<FieldTTL, windows: noWindow,
	leasable: func(*Limit) error { return errSlotLease },
	longer: func(_ *Limit, _, retryAfterMicros int64) (int64, bool) {
		return retryAfterMicros, true // any wait is a guess
	},
	lasts: untilReset, // which no client is told: no time brings slots back
	make: func(l *Limit) limiter {
		return limiter{form: &slotsForm, slots: concurrency{l.roomOf(l.Units), l.TTLMicros, l.Units}}
	},
}

var errSlotLease = errors.New("a slot is held by one request, and given back when it ends")

var slotsForm = form{
	file: "concurrency", lua: concurrencyLua, nonce: true,
	args: concurrencyArgs[:], reply: slotsReply[:], room: "limit",
}

var slotsReply = [...]replyField{replyRemaining, replyRetry}

var concurrencyArgs = [...]argument{
	{name: "limit", number: func(l *limiter) int64 { return l.slots.of }},
	{name: "ttl", number: func(l *limiter) int64 { return l.slots.ttl }},
	{name: roomArgument, number: func(l *limiter) int64 { return l.slots.room }},
}

func (c *concurrency) check(s State, nowMicros, cost int64) Decision {
	used := int64(0)
	for ; len(s) >= slotLen; s = s[slotLen:] {
		if s[slotEnd] > nowMicros {
			used += s[slotCount]
		}
	}
	d := uncharged(c.room-used, 0)
	switch {
	case cost > c.room:
		d.reject(Never)
	case cost > d.Remaining:
		d.reject(slotRetryMicros)
	}
	return d
}

// charge adds an entry, or to the one of this nonce.
func (c *concurrency) charge(s State, nowMicros, nonce, cost int64, d *Decision) State {
	d.Remaining -= cost
	d.ResetAfterMicros = 0
	end := nowMicros + c.ttl
	if e := slotsOf(s, nonce); e != nil {
		e[slotCount] += cost
		e[slotEnd] = end
		return s
	}
	return append(s, nonce, cost, end)
}

// Renew makes the slots that are held under a nonce so many, in the state of the limit
// that Slots names, and their ttl begin anew. It asks for no room. With 0 none are
// held. What Rebase changes must have been changed before.
func (p *Plan) Renew(states []State, nowMicros, nonce, slots int64) {
	hold(p.slots >= 0 && slots >= 0, "slots are of a limit that has some")
	s := states[p.slots]
	e, end := slotsOf(s, nonce), nowMicros+p.limiters[p.slots].slots.ttl
	switch {
	case e == nil && slots > 0:
		s = append(s, nonce, slots, end)
	case e != nil && slots > 0:
		e[slotCount], e[slotEnd] = slots, end
	case e != nil:
		s = append(s[:len(s)-len(e)], e[slotLen:]...)
	}
	states[p.slots] = s
}

// slotsOf is the part of s that begins with the entry of a nonce; nil if there is
// none.
func slotsOf(s State, nonce int64) State {
	for ; len(s) >= slotLen; s = s[slotLen:] {
		if s[slotNonce] == nonce {
			return s
		}
	}
	return nil
}

// rebase drops the entries that have ended, and shortens those that end later than an entry
// can. Once the entries seen occupy all slots, it stops: they decide.
func (c *concurrency) rebase(s State, nowMicros int64) (State, bool) {
	s = s[:len(s)/slotLen*slotLen]
	plain := int64(0) // entries that end within a ttl, as all do unless the ttl was longer or the clock was set back
	for rest := s; len(rest) >= slotLen; rest = rest[slotLen:] {
		if within(rest[slotEnd], nowMicros+1, nowMicros+c.ttl) {
			plain++
		}
	}
	if plain >= c.room {
		return s, false
	}
	kept, changed := s[:0], false
	for ; len(s) > 0; s = s[slotLen:] {
		end := s[slotEnd]
		if end <= nowMicros {
			changed = true
			continue
		}
		if latest := nowMicros + MaxTTLMicros; end > latest {
			end, changed = latest, true
		}
		kept = append(kept, s[slotNonce], s[slotCount], end)
	}
	return kept, changed
}
