package redis

// kind is what an entry of the pipeline was sent for.
type kind uint8

const (
	checkEntry  kind = iota // a rule's check; a Waiter may wait for it
	refundEntry             // gives a charge back; nobody waits
	authEntry               // AUTH
	selectEntry             // SELECT
	probeEntry              // the breaker's probe: there is one while it is HalfOpen
	staleEntry              // a probe that was given up
)

// entry is one command whose reply has not come yet. It keeps what is needed to
// send the command again by source, or to give its charge back.
type entry struct {
	kind     kind
	bySource bool   // a check that was sent again, with EVAL
	last     bool   // the last command of its request
	failed   bool   // another check of its request has failed
	giveBack bool   // abandoned, and its request did not go on
	waiter   Waiter // nil: abandoned, or nobody ever waited
	index    int    // which of the request's rules
	script   *Script
	tag      []byte
	cost     int64
	nonce    int64

	chargedAtMicros int64 // refunds: Redis' time of the charge
	sentMicros      int64
}

// pipeline is the first-in first-out queue of entries: a ring that grows to the
// most that ever waited and keeps its entries' tag buffers. Positions count up
// from the beginning of the connection's life.
type pipeline struct {
	ring  []entry // length is a power of two
	first uint64  // position of the oldest entry
	next  uint64  // position of the entry after the newest
}

const minRing = 16

func (p *pipeline) len() int { return int(p.next - p.first) }

// at is the entry at a position from first to next-1, good until the next push.
func (p *pipeline) at(position uint64) *entry {
	return &p.ring[position&uint64(len(p.ring)-1)]
}

// push appends an entry, with its tag copied, and returns it where it is.
func (p *pipeline) push(e entry) *entry {
	if p.len() == len(p.ring) {
		p.grow()
	}
	slot := p.at(p.next)
	e.tag = append(slot.tag[:0], e.tag...)
	*slot = e
	p.next++
	return slot
}

func (p *pipeline) grow() {
	bigger := make([]entry, max(2*len(p.ring), minRing))
	for i := p.first; i < p.next; i++ {
		bigger[i&uint64(len(bigger)-1)] = *p.at(i)
	}
	p.ring = bigger
}

// pop removes the oldest entry. The result is good until the next push.
func (p *pipeline) pop() *entry {
	e := p.at(p.first)
	p.first++
	return e
}

// abandon stops the waiting of w in count entries, the oldest of which is at
// position from or later. They are found at once: a request's entries follow
// each other, but for those sent again by source.
func (p *pipeline) abandon(w Waiter, from uint64, count int, giveBack, failed bool) {
	for i := max(from, p.first); i < p.next && count > 0; i++ {
		if e := p.at(i); e.waiter == w {
			e.waiter, e.giveBack, e.failed = nil, giveBack, failed
			count--
		}
	}
}
