package redis

import "github.com/sluiceproxy/sluice/plugin/metric"

// How errands leave, and what the actions do with them.

// send sends an errand, or puts it into the outbox.
func (o *outbox) send(k *command, nowMicros int64) {
	p := &policies[k.kind]
	if p.leaves == atOnce && (o.link.stream.open || o.link.stream.resting) && o.link.ready(nowMicros) {
		o.sendErrand(k, nowMicros)
		return
	}
	o.add(k)
	if p.leaves == whenIdle && o.link.pipe.commands.len() == 0 && !o.link.stream.deferring {
		o.post(whenIdle, nowMicros)
		o.link.transmitDeferred(nowMicros)
	}
}

func (o *outbox) sendErrand(k *command, nowMicros int64) {
	if policies[k.kind].told {
		o.link.observer.Count(metric.ChargeRefunded, 1)
	}
	o.link.pipe.addErrand(k, o.link.stream.number, nowMicros)
}

// post sends from the outbox what may leave on an occasion, on a stream of its own if
// need be, and gives up what has waited too long. What was to leave at once goes first.
func (o *outbox) post(occasion departure, nowMicros int64) {
	for k := refunding; k < errands && o.waiting > 0; k++ {
		q, p := &o.queues[k], &policies[k]
		if p.leaves > occasion || q.len() == 0 {
			continue
		}
		for left := p.portion; left > 0 && q.len() > 0 && nowMicros >= q.resumeMicros && o.link.ready(nowMicros); {
			errand := o.pop(k)
			left -= errand.size()
			o.sendErrand(errand, nowMicros)
		}
		for q.len() > 0 && nowMicros >= q.at(q.first).untilMicros {
			o.link.act(o.pop(k), end{outcome: givenUp}, nowMicros)
		}
	}
}

// act does what follows from the end of an errand.
func (o *outbox) act(a action, k *command) {
	switch a {
	case sendAgain:
		o.link.pipe.sendAgain(k)
	case renewAgain:
		if o.link.pipe.forgetFreed(k) {
			o.link.pipe.sendAgain(k)
		}
	case free:
		o.free(k, true)
	case freeLater:
		o.freeLater(k)
	case countSent:
		o.end(k.size(), metric.SettlementSent)
	case countLost:
		o.end(k.size(), metric.SettlementLost)
	case countEnded:
		if !k.blind {
			o.link.observer.Count(metric.SlotsExpired, o.link.reply.Int)
		}
	case countRenewed:
		o.link.observer.Count(metric.SlotsRenewed, k.size())
	}
}
