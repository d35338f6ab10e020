package redis

import (
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/redisresp"
)

// This file gives slots back, and renews them. Both commands name a request's own entry
// in Redis and no other, so they may be sent any number of times: a command that is lost
// with its connection is sent again.

// releasing is the slots that are being given back.
type releasing struct {
	queue         ring[release] // not sent yet
	waiting       int           // how many requests' slots are in it
	releaseKnown  uint64        // number of the stream on which the script was run by source; 0: none
	renewKnown    uint64        // likewise
	resumeMicros  int64         // not before this time, as Redis has refused one
	gone, renewed int64         // slots
	slots         []int64       // scratch
}

// release is one command. The charge's Costs are pairs of a nonce and slots.
type release struct {
	charge      Charge
	blind       bool  // nobody knows whether the slots were ever taken
	untilMicros int64 // when they have ended by themselves
}

// maxReleases bounds the memory for slots that wait to be given back while Redis is
// away. Slots beyond that end by themselves.
const maxReleases = 1 << 16

// releasePortion is how many requests' slots leave at once, so that neither a worker nor
// Redis is kept busy where very many requests end together: the rest follows with the
// next reply or tick. One command gives back no more than that either.
const releasePortion = 256

// refusedMicros is how long no slots are given back after Redis has refused some.
const refusedMicros = 500_000

// Release gives back the slots of a charge and nothing else. The command leaves at once if
// nothing else is under way, because others may wait for the slots; otherwise with the
// next request, reply or tick. While Redis is away it waits until Redis is back, unless
// the slots have ended by then.
func (c *Conn) Release(charge Charge, nowMicros int64) {
	c.queueRelease(&charge, false, nowMicros)
	if c.pipe.entries.len() == 0 && !c.deferring {
		c.release(nowMicros)
		c.transmitDeferred(nowMicros)
	}
}

func (c *Conn) queueRelease(charge *Charge, blind bool, nowMicros int64) {
	s := charge.Script
	if s.slots < 0 || charge.costOf(s.slots) <= 0 || c.releasing.waiting >= maxReleases {
		return
	}
	t := &c.releasing
	t.slots = append(t.slots[:0], charge.Nonce, charge.costOf(s.slots))
	c.pushRelease(Charge{Script: s, Tag: charge.Tag, Costs: t.slots}, blind, nowMicros+s.ttlMicros())
}

// pushRelease queues a release, with the one before where that is of the same identity.
func (c *Conn) pushRelease(charge Charge, blind bool, untilMicros int64) {
	t := &c.releasing
	t.waiting += charge.requests()
	if t.queue.len() > 0 {
		last := t.queue.at(t.queue.next - 1)
		if last.blind == blind && last.charge.sameKeys(&charge) && last.charge.requests()+charge.requests() <= releasePortion {
			last.charge.Costs = append(last.charge.Costs, charge.Costs...)
			last.untilMicros = untilMicros
			return
		}
	}
	slot := t.queue.push()
	slot.charge.keep(charge)
	slot.blind, slot.untilMicros = blind, untilMicros
}

// popRelease takes the oldest release out of the queue.
func (c *Conn) popRelease() *release {
	r := c.releasing.queue.pop()
	c.releasing.waiting -= r.charge.requests()
	return r
}

// requests is how many requests' slots a release or a renewal is about.
func (a *Charge) requests() int { return len(a.Costs) / 2 }

// ttlMicros is after how long slots have ended by themselves.
func (s *Script) ttlMicros() int64 { return s.plan.Limits()[s.slots].TTLMicros }

// release sends what is to be given back, on a stream of its own if need be, and gives
// up what has ended by itself.
func (c *Conn) release(nowMicros int64) {
	t := &c.releasing
	if t.queue.len() == 0 || nowMicros < t.resumeMicros {
		return
	}
	if c.breaker.state == Closed && (c.stream.open || c.connect(nowMicros)) {
		c.pushReleases(nowMicros)
	}
	for t.queue.len() > 0 && nowMicros >= t.queue.at(t.queue.first).untilMicros {
		c.popRelease()
	}
}

// pushReleases queues the commands of releases that wait: a portion.
func (c *Conn) pushReleases(nowMicros int64) {
	t := &c.releasing
	for left := releasePortion; t.queue.len() > 0 && left > 0 && nowMicros >= t.resumeMicros; {
		r := c.popRelease()
		left -= r.charge.requests()
		known := t.releaseKnown == c.stream.number
		c.push(entry{kind: releaseEntry, charge: r.charge, blind: r.blind, bySource: !known}, nowMicros)
	}
}

// Renew renews slots of an identity: pairs of the nonce of a call and how many it took.
// They leave with the next Flush. Where Redis is away nothing is renewed.
func (c *Conn) Renew(script *Script, tag []byte, slots []int64, nowMicros int64) {
	if c.breaker.state != Closed || !c.stream.open && !c.connect(nowMicros) {
		return
	}
	known := c.releasing.renewKnown == c.stream.number
	c.push(entry{kind: renewEntry, charge: Charge{Script: script, Tag: tag, Costs: slots}, bySource: !known}, nowMicros)
}

// Slots is how many slots were renewed, and how many had ended by themselves before
// they were given back.
func (c *Conn) Slots() (renewed, gone int64) { return c.releasing.renewed, c.releasing.gone }

// answerSlots handles the reply to a release or a renewal. What Redis refuses is given
// back later; it is renewed when its turn comes again.
func (c *Conn) answerSlots(e *entry, r redisresp.Reply) {
	t, taken := &c.releasing, r.Kind != redisresp.Error
	switch {
	case e.kind == renewEntry && taken:
		t.renewed += int64(e.charge.requests())
		if e.bySource {
			t.renewKnown = c.stream.number
		}
	case e.kind == renewEntry:
	case taken:
		if !e.blind {
			t.gone += r.Int
		}
		if e.bySource {
			t.releaseKnown = c.stream.number
		}
	default:
		c.releaseLater(e, e.blind)
	}
}

// releaseLater gives back once more what Redis has refused to take back.
func (c *Conn) releaseLater(e *entry, blind bool) {
	c.releasing.resumeMicros = e.sentMicros + refusedMicros
	c.releaseAgain(e, blind)
}

// releaseAgain gives back once more what a command was to give back, or what one may
// have taken: blindly, if it may have been carried out.
func (c *Conn) releaseAgain(e *entry, blind bool) {
	switch {
	case e.kind != releaseEntry:
		c.queueRelease(&e.charge, blind, e.sentMicros)
	case c.releasing.waiting < maxReleases:
		c.pushRelease(e.charge, blind, e.sentMicros+e.charge.Script.ttlMicros())
	}
}

// stillHeld takes out of a renewal that is to be sent again what was given back since
// it was first sent: nobody would give that back another time. It reports whether
// anything is left.
func (c *Conn) stillHeld(e *entry) bool {
	for i := c.pipe.entries.first; i < c.pipe.entries.next; i++ {
		behind := c.pipe.entries.at(i)
		if behind.kind != releaseEntry && behind.kind != refundEntry || !behind.charge.sameKeys(&e.charge) {
			continue
		}
		if behind.kind == refundEntry {
			e.charge.dropSlot(behind.charge.Nonce)
			continue
		}
		for j := 0; j < len(behind.charge.Costs); j += 2 {
			e.charge.dropSlot(behind.charge.Costs[j])
		}
	}
	return len(e.charge.Costs) > 0
}

// dropSlot takes a nonce, and the slots behind it, out of the Costs of a renewal.
func (a *Charge) dropSlot(nonce int64) {
	for i := 0; i < len(a.Costs); i += 2 {
		if a.Costs[i] == nonce {
			a.Costs = slices.Delete(a.Costs, i, i+2)
			return
		}
	}
}

// appendSlots appends the command of a release or a renewal.
func (s *Script) appendSlots(dst []byte, e *entry) []byte {
	script, renews := s.release, e.kind == renewEntry
	keys, args := 1, len(e.charge.Costs)
	if renews {
		script, args = s.renew, args+1
	}
	if renews && e.byKey {
		script, keys = algo.RenewScriptWithoutTime(), 2
	}
	dst = redisresp.AppendArray(dst, 3+keys+args)
	if e.bySource {
		dst = redisresp.AppendBulkString(dst, "EVAL")
		dst = redisresp.AppendBulkString(dst, script.Source)
	} else {
		dst = redisresp.AppendBulkString(dst, "EVALSHA")
		dst = redisresp.AppendBulkString(dst, script.SHA1)
	}
	dst = redisresp.AppendBulkInt(dst, int64(keys))
	dst = s.appendKey(dst, e.charge.Tag, s.suffixes[s.slots])
	if keys == 2 {
		dst = s.appendKey(dst, e.charge.Tag, algo.ClockSuffix)
	}
	if renews {
		dst = redisresp.AppendBulkInt(dst, s.ttlMicros())
	}
	for _, v := range e.charge.Costs {
		dst = redisresp.AppendBulkInt(dst, v)
	}
	return dst
}
