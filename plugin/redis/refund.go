package redis

import "github.com/sluiceproxy/sluice/redisresp"

// Refund gives back what a check has charged. Nobody waits for it; if it is
// lost, the charge stands. It leaves at once, so that no later check overtakes
// it.
func (c *Conn) Refund(charge Charge, nowMicros int64) {
	if charge.isNothing() {
		return
	}
	if !c.stream.open && !(c.stream.resting && c.connect(nowMicros)) {
		c.Release(charge, nowMicros)
		return
	}
	c.pushRefund(refundEntry, charge, nowMicros)
	c.observer.Refunded()
	if !c.deferring {
		c.transmit(nowMicros)
	}
}

func (c *Conn) pushRefund(k kind, charge Charge, nowMicros int64) {
	c.push(entry{kind: k, charge: charge, bySource: !c.knowsRefund(charge.Script)}, nowMicros)
}

// settling is the settlements that are under way. Requests end in bursts, and no
// settlement is urgent: they leave together.
type settling struct {
	queue    ring[settlement] // not sent yet
	underWay int64            // those, and the sent ones without a reply
	sent     int64            // that Redis has taken
	lost     int64
}

type settlement struct {
	charge       Charge
	queuedMicros int64
}

// settleMicros is how long a settlement may wait for a connection. Redis is gone
// for longer than that: the reservation stands.
const settleMicros = 3_000_000

// Settle changes a charge to what a response has shown it to be worth: Costs are how
// much less that is of each limit, or, below 0, how much more. It leaves with the next
// request or tick, in one call with others of the same identity. At most MaxPending
// settlements are under way; what is beyond that, or lost, stays charged.
func (c *Conn) Settle(charge Charge, nowMicros int64) {
	if charge.isNothing() {
		return
	}
	t := &c.settling
	if t.underWay >= c.options.MaxPending {
		t.lost++
		return
	}
	t.underWay++
	if t.join(&charge) {
		return
	}
	slot := t.queue.push()
	slot.charge.keep(charge)
	slot.queuedMicros = nowMicros
}

// join adds a settlement to one of the same identity that waits. It looks at the last few
// only: an identity whose requests end in bursts is among them.
func (t *settling) join(charge *Charge) bool {
	const looks = 8
	for i := t.queue.next; i > t.queue.first && t.queue.next-i < looks; i-- {
		if t.queue.at(i - 1).charge.join(charge) {
			return true
		}
	}
	return false
}

// Settlements is how many settlements Redis has taken, and how many were lost.
func (c *Conn) Settlements() (sent, lost int64) { return c.settling.sent, c.settling.lost }

// SendSettlements sends the settlements that wait at once: nobody knows whether a
// tick comes.
func (c *Conn) SendSettlements(nowMicros int64) {
	c.deferring = true
	c.settle(nowMicros)
	c.transmitDeferred(nowMicros)
}

// settle sends the settlements that wait, on a stream of their own if need be, and
// gives up those that have waited too long for one.
func (c *Conn) settle(nowMicros int64) {
	t := &c.settling
	if t.queue.len() == 0 {
		return
	}
	if c.stream.open || c.breaker.state == Closed && c.connect(nowMicros) {
		c.pushSettlements(nowMicros)
	}
	for t.queue.len() > 0 && nowMicros-t.queue.at(t.queue.first).queuedMicros >= settleMicros {
		c.settled(&t.queue.pop().charge, false)
	}
}

// pushSettlements queues the commands of all settlements that wait.
func (c *Conn) pushSettlements(nowMicros int64) {
	for t := &c.settling; t.queue.len() > 0; {
		c.pushRefund(settleEntry, t.queue.pop().charge, nowMicros)
	}
}

// settled counts a settlement that is over, and those that have left with it.
func (c *Conn) settled(charge *Charge, taken bool) {
	n := charge.settlements()
	c.settling.underWay -= n
	if taken {
		c.settling.sent += n
	} else {
		c.settling.lost += n
	}
}

// answerRefund handles the reply to a refund or settlement. If Redis does not know its
// script, or does not let it call TIME, the command is sent again. The client's next
// check may stand behind the first attempt in the pipe. It has then been decided as if
// there were no refund, so if it is rejected, it is sent again behind the second attempt.
func (c *Conn) answerRefund(e *entry, r redisresp.Reply) {
	if isNoScript(r) && !e.bySource || c.lacksTime(e, r) {
		for i := c.pipe.entries.first; i < c.pipe.entries.next; i++ {
			if behind := c.pipe.entries.at(i); behind.kind == checkEntry && behind.charge.sameKeys(&e.charge) {
				behind.overtook = true
			}
		}
		e.bySource = true
		if e.kind != renewEntry || c.stillHeld(e) {
			c.pushAgain(e)
		}
		return
	}
	if e.kind == releaseEntry || e.kind == renewEntry {
		c.answerSlots(e, r)
		return
	}
	taken := r.Kind != redisresp.Error
	if taken && e.bySource {
		e.charge.Script.refundKnownTo = c.stream.number
	}
	switch {
	case e.kind == settleEntry:
		c.settled(&e.charge, taken)
	case !taken && e.charge.Script.slots >= 0: // the slots would outlive their request
		c.releaseLater(e, false)
	}
}

// knowsRefund reports whether what answers on this stream has run a script's
// refund by source, which lets Redis keep it.
func (c *Conn) knowsRefund(s *Script) bool { return s.refundKnownTo == c.stream.number }
