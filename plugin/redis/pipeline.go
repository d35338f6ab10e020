package redis

// kind is what an entry of the pipeline was sent for.
type kind uint8

const (
	checkEntry   kind = iota // a rule's check, for which a Waiter waits
	refundEntry              // gives a charge back; nobody waits
	settleEntry              // likewise, as a settlement
	releaseEntry             // gives slots back, and nothing else
	renewEntry               // renews slots
	authEntry                // AUTH
	selectEntry              // SELECT
	probeEntry               // the breaker's probe: there is one while it is HalfOpen
	serverEntry              // INFO server, of the trial
	roleEntry                // INFO replication, likewise
	trialEntry               // the trial's script
	staleEntry               // a probe or trial that was given up
)

// entry is one command whose reply has not come yet. It keeps what is needed to
// send the command again.
type entry struct {
	kind     kind
	bySource bool // sent with EVAL
	byKey    bool // sent without TIME, see clock.go
	blind    bool // a release of what may never have been taken
	expired  bool // its Waiter has heard that the timeout is over
	overtook bool // a refund in front of it was not carried out
	resized  bool // sent with other sizes than at first, for another time
	factors  int8 // how often it was sent with those of another factor
	waiter   Waiter
	index    int    // which of the request's checks
	question uint64 // which request
	charge   Charge

	sentMicros     int64 // when it was first sent
	listenedMicros int64 // likewise, in listening time
}

// question is one request, from Flush until the last reply to its checks.
type question struct {
	commands int  // how many of its checks are in the pipe
	failed   bool // one of them has failed or expired, which has been counted
}

// pipeline is the first-in first-out queue of entries, and the requests that
// they belong to. Both are rings that grow to the most that ever waited.
// Positions count up from the beginning of the connection's life.
type pipeline struct {
	entries ring[entry]
	asked   ring[question]
	waiting int64 // requests with commands in the pipe
}

// push appends an entry, with its charge copied, and returns it where it is. The
// ring's entries keep the memory of their charges.
func (p *pipeline) push(e entry) *entry {
	slot := p.entries.push()
	kept := slot.charge
	kept.keep(e.charge)
	e.charge = kept
	*slot = e
	return slot
}

// ask begins a request with so many checks. Its position is what asked.next was.
func (p *pipeline) ask(commands int) {
	*p.asked.push() = question{commands: commands}
	p.waiting++
}

// finish takes one check of a request out of account.
func (p *pipeline) finish(position uint64) {
	q := p.asked.at(position)
	if q.commands--; q.commands > 0 {
		return
	}
	p.waiting--
	for p.asked.len() > 0 && p.asked.at(p.asked.first).commands == 0 {
		p.asked.pop()
	}
}

// ring is a first-in first-out queue whose elements have a position and are used
// again, with the memory they hold.
type ring[T any] struct {
	slots []T    // its length is a power of two
	first uint64 // position of the oldest element
	next  uint64 // position of the element after the newest
}

const minRing = 16

func (r *ring[T]) len() int { return int(r.next - r.first) }

// at is the element at a position from first to next-1, good until the next push.
func (r *ring[T]) at(position uint64) *T {
	return &r.slots[position&uint64(len(r.slots)-1)]
}

// push appends an element and returns it as it was last used.
func (r *ring[T]) push() *T {
	if r.len() == len(r.slots) {
		bigger := make([]T, max(2*len(r.slots), minRing))
		for i := r.first; i < r.next; i++ {
			bigger[i&uint64(len(bigger)-1)] = *r.at(i)
		}
		r.slots = bigger
	}
	r.next++
	return r.at(r.next - 1)
}

// pop removes the oldest element. The result is good until the next push.
func (r *ring[T]) pop() *T {
	e := r.at(r.first)
	r.first++
	return e
}
