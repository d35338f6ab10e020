package redis

import (
	"math"
	"slices"

	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/must"
)

// departure is when a background command goes into the pipe.
type departure uint8

const (
	atOnce   departure = iota // so that no later check overtakes it
	whenIdle                  // at once if the pipe is empty, else with the next request, reply or tick
	later                     // with the next request or tick
)

// policy is how the background commands of one kind are treated.
type policy struct {
	leaves departure
	// most is how many charges, or requests' slots, may wait for a connection; what is beyond it
	// is dropped. Below 0: none. 0: max_pending, including what was sent and has no reply.
	most int64
	// together is how many of them one call has at most, so that none holds Redis up, and
	// portion how many leave in one callback: the rest follows with the next reply or tick.
	together, portion int64
	// patienceMicros is how long a command may wait for a connection; 0: for as long as
	// the slots that it is about may live.
	patienceMicros int64
	told           bool // the Observer is told of each that is sent
}

const (
	// maxJoinLooks is at how many commands one looks for another of its identity: an identity
	// whose requests end in bursts is among the last.
	//
	// Bound: background commands looked at for one of the same identity. Beyond it, one travels alone.
	// Protects the worker.
	maxJoinLooks = 8
	// maxRefunds bounds the refunds that wait while Redis is away. A worker leases units of
	// 4,096 identities at most, in up to two batches each, and those of one identity
	// travel together.
	//
	// Bound: refunds that wait. Beyond it, a charge that should go back stands. Protects memory.
	maxRefunds = 1 << 14
	// Bound: requests whose slots wait to be given back. Beyond it, the slots end by their `ttl`.
	// Protects memory.
	maxReleases = 1 << 16
	// Bound: charges that one call changes. Beyond it, another call takes the rest. Protects Redis
	// from a long call.
	maxTogether = 16
	// Bound: requests whose slots one call gives back, and refunds of one callback. Beyond it, the
	// next call or callback takes the rest. Protects Redis from a long call.
	releasePortion = 256
	// Bound: us that a settlement waits for a connection. Beyond it, the reservation stands.
	// Protects memory.
	settleMicros = 3_000_000
	// refusedMicros is how long no command of a kind leaves after Redis has refused one that
	// will be sent again.
	//
	// Bound: us without background commands of a kind that Redis has refused. Below it, they wait.
	// Protects Redis from being asked in vain.
	refusedMicros = 500_000

	noBound = math.MaxInt64
)

// policies has a row for each background command. What follows when one was sent is in table.
var policies = [scripted]policy{
	refunding: {
		leaves: atOnce, most: maxRefunds, together: maxTogether, portion: releasePortion,
		patienceMicros: noBound, told: true,
	},
	settling:  {leaves: later, together: maxTogether, portion: noBound, patienceMicros: settleMicros},
	releasing: {leaves: whenIdle, most: maxReleases, together: releasePortion, portion: releasePortion},
	renewing:  {leaves: atOnce, most: -1, together: 1, portion: noBound, patienceMicros: noBound},
}

// outbox has the background commands that have not been sent.
type outbox struct {
	link       *link
	queues     [scripted]queue
	waiting    int     // commands in all of them
	maxPending int64   // Options.MaxPending
	draft      command // scratch: the command that is being made

	settling int64 // settlements that wait, or were sent and have no reply
}

type queue struct {
	ring[command]
	size         int64 // charges, or requests' slots, in it
	resumeMicros int64 // none leaves before this time, as Redis has refused one
}

func (o *outbox) settled(n int64, how metric.Event) {
	o.settling -= n
	must.Hold(o.settling >= 0, "no more settlements end than have begun")
	o.link.observer.Count(how, n)
}

// add puts a command into the outbox, into the call of another one of the same identity
// if one of the last few is.
func (o *outbox) add(c *command) {
	p, q := &policies[c.kind], &o.queues[c.kind]
	if p.most != 0 && q.size >= p.most {
		return
	}
	patience := p.patienceMicros
	if patience == 0 {
		patience = c.script.plan.Limits()[c.slotLimit()].TTLMicros
	}
	c.untilMicros = min(c.sentMicros, noBound-patience) + patience
	q.size += c.size()
	// The charge of a rule with slots has a nonce of its own, so that two are never one call.
	alone := len(c.change) > 0 && c.script.slots >= 0
	for i := q.next; !alone && i > q.first && q.next-i < maxJoinLooks; i-- {
		other := q.at(i - 1)
		if other.blind == c.blind && other.over == c.over && other.same(c) && other.size()+c.size() <= p.together &&
			slices.Equal(other.Sizes, c.Sizes) && string(other.Values) == string(c.Values) {
			other.change = append(other.change, c.change...)
			other.slots = append(other.slots, c.slots...)
			other.untilMicros = max(other.untilMicros, c.untilMicros)
			return
		}
	}
	o.waiting++
	q.push().copyFrom(c)
}

// pop removes the oldest command of a queue. It is good until the next add.
func (o *outbox) pop(k kind) *command {
	q := &o.queues[k]
	c := q.pop()
	o.waiting--
	q.size -= c.size()
	must.Hold(o.waiting >= 0 && q.size >= 0, "what leaves the outbox was put into it")
	return c
}

// free gives the slots of a command back that has failed. What was lost may have given
// them back, or never have taken them: it is blind.
func (o *outbox) free(c *command, blind bool) {
	if len(c.slots) == 0 {
		return
	}
	d := &o.draft
	if c.script.per == nil || c.kind >= releasing {
		d.makeBackground(releasing, c.script, c.Tag, c.sentMicros)
		d.Values = append(d.Values, c.Values...)
		d.blind, d.slots = blind, append(d.slots, c.slots...)
		o.add(d)
		return
	}
	// Each value's slots are under a key of their own. Of a change, the first charge has slots.
	costs, values, slots := c.change, c.Values, c.slots
	if c.kind == checking {
		costs = c.Costs
	}
	var own []byte
	for i, per := range c.script.per {
		own = nil
		if per != "" {
			own, values = values.Next()
		}
		if !c.script.plan.TakesNonce(i) || costs[i] <= 0 {
			continue
		}
		d.makeBackground(releasing, c.script, c.Tag, c.sentMicros)
		d.Values = append(append(d.Values, per...), own...)
		d.blind, d.slots = blind, append(d.slots, slots[0])
		slots = slots[1:]
		o.add(d)
	}
}

// send sends a background command, or puts it into the outbox.
func (o *outbox) send(k *command, nowMicros int64) {
	p := &policies[k.kind]
	if p.leaves == atOnce && (o.link.stream.open || o.link.stream.resting) && o.link.ready(nowMicros) {
		o.sendNow(k, nowMicros)
		return
	}
	o.add(k)
	if p.leaves == whenIdle && o.link.pipe.commands.len() == 0 && !o.link.stream.deferring {
		o.post(whenIdle, nowMicros)
		o.link.transmitDeferred(nowMicros)
	}
}

// sendNow sends a background command, by source unless Redis knows its script.
func (o *outbox) sendNow(k *command, nowMicros int64) {
	if policies[k.kind].told {
		o.link.observer.Count(metric.ChargeRefunded, 1)
	}
	p := &o.link.pipe
	c := p.commands.push()
	c.copyFrom(k)
	known := c.script.known[table[c.kind].form] == o.link.stream.number
	c.bySource, c.byKey = !known, p.byKey
	p.stamp(c, nowMicros)
	p.out = c.appendTo(p.out)
}

// post sends from the outbox what may leave on an occasion, on a stream of its own if
// need be, and gives up what has waited too long. What was to leave at once goes first.
func (o *outbox) post(occasion departure, nowMicros int64) {
	for k := refunding; k < scripted && o.waiting > 0; k++ {
		q, p := &o.queues[k], &policies[k]
		if p.leaves > occasion || q.len() == 0 {
			continue
		}
		for left := p.portion; left > 0 && q.len() > 0 && nowMicros >= q.resumeMicros && o.link.ready(nowMicros); {
			c := o.pop(k)
			left -= c.size()
			o.sendNow(c, nowMicros)
		}
		for q.len() > 0 && nowMicros >= q.at(q.first).untilMicros {
			o.link.act(o.pop(k), end{outcome: givenUp, nowMicros: nowMicros})
		}
	}
}
