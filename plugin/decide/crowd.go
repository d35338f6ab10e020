package decide

import (
	"math"

	"github.com/sluiceproxy/sluice/plugin/keyhash"
	"github.com/sluiceproxy/sluice/plugin/must"
)

// Requests that arrive in one burst wait here, because Envoy reads them all before it reads any
// reply. A client can send thousands in one write. If Redis were asked about all of them at
// once, it would answer the last ones too late, and the failure mode would decide the requests of
// well-behaved clients. Of one client's requests the answers to the first usually reject the
// rest, as the worker remembers rejections.
//
// A request that is kept back waits no longer than one that Redis was asked about: for the
// timeout, from its arrival on. Then the worker decides it without Redis, see overload.go.

const (
	// maxRepeats is how many requests have commands in the pipe before others of the same
	// identities are kept back. Redis answers as many within some five milliseconds, and
	// with a shard that hangs, for 20 ms each time, they are still 25,000 a second.
	//
	// Bound: requests with commands in the pipe. Beyond it, further requests of the same identities
	// wait in the worker. Protects Redis from a flood that memory can answer.
	maxRepeats = 512
	// maxFirst is about how many requests of each flow Redis is asked at once even then, as
	// far as max_pending lets it: most identities need no more.
	//
	// Bound: requests of one flow and round. Beyond it, the rest waits for the first ones'
	// replies. Protects other identities from one that floods.
	maxFirst = 16
	// Bound: flows of a crowd. Beyond it, identities have a flow in common, and wait for each
	// other. Protects memory.
	maxFlows = 1 << 10
	// maxTaken is how many of those that were kept back one callback takes up: it takes some
	// milliseconds.
	//
	// Bound: requests that one callback takes out of a crowd. Beyond it, the next callback goes on.
	// Protects the worker from standing still.
	maxTaken = 512
)

// crowd is the requests that are kept back. Each is in the flow that its identities hash
// into, in the order of arrival. The flows are served in turn, so that one client's flood keeps no
// other's requests waiting: stochastic fairness queueing (P. McKenney, INFOCOM 1990). However
// many requests there are, they need no memory that they would not need otherwise, as a request
// has its Question until its stream ends.
type crowd struct {
	stores        *Stores
	home          *questions // where those go that wait for nothing any more
	timeoutMicros int64      // of Redis

	key   keyhash.Key
	flows []flow // nil before the first crowd

	on          bool  // others are kept back, or were a moment ago
	n           int   // requests in all flows
	turns       int   // flows that have some
	first, last *flow // the turns of these

	round  uint32 // counts the times in which all that was asked before has been answered
	endsAt uint64 // the round ends when so many requests have been answered, see redis.Conn.Asked
}

// keptBack says how long a request has been kept back.
type keptBack struct {
	atMicros int64 // since when, see redis.Conn.ListeningMicros; 0: it was not
	overdue  bool  // for the whole timeout
}

// flow is some identities' requests.
type flow struct {
	list
	next  *flow  // in turn
	round uint32 // when Redis was asked last
	asked int    // about how many in that round
}

// await gives a flow another turn, if it needs one.
func (c *crowd) await(f *flow) {
	if f.n == 0 {
		return
	}
	if c.turns++; c.turns == 1 {
		c.first = f
	} else {
		c.last.next = f
	}
	c.last = f
}

// keepsBack keeps a request back that Redis is to be asked about, if it must wait. It reports
// whether it does.
func (c *crowd) keepsBack(q *Question, now Time) bool {
	if c.n == 0 && !c.stores.remote.conn.Crowded(maxRepeats, now.SteadyMicros) {
		return false
	}
	return c.mustWait(q, now)
}

//go:noinline
func (c *crowd) mustWait(q *Question, now Time) bool {
	if q.first(isUnasked) == nil || !c.stores.remote.conn.Crowded(0, now.SteadyMicros) {
		return false
	}
	if !c.on { // from now on identities matter
		if c.flows == nil {
			c.flows = make([]flow, maxFlows)
		}
		c.on = true
		c.round++
		c.endsAt, _ = c.stores.remote.conn.Asked()
		c.stores.burst.on = true
		c.stores.burst.number++
	}
	hash := uint64(0) // another one for each combination of identities
	for i := range q.Checks {
		hash = hash<<7 ^ hash>>57 ^ c.key.Sum(q.Checks[i].Tag)
		if values := q.Checks[i].Values; values != nil {
			hash = hash<<7 ^ hash>>57 ^ c.key.Sum(values)
		}
	}
	f := &c.flows[hash%maxFlows]
	if f.n == 0 && c.mayAsk(f, now) {
		return false
	}
	q.kept.atMicros = c.stores.remote.conn.ListeningMicros(now.SteadyMicros)
	must.Hold(c.on && !q.concluded, "who is kept back in a crowd has no verdict")
	f.list.push(q)
	c.n++
	if f.n == 1 {
		c.await(f)
	}
	return true
}

// mayAsk reports whether Redis can be asked about another request of a flow now, and counts
// it.
func (c *crowd) mayAsk(f *flow, now Time) bool {
	if f.round != c.round {
		f.round, f.asked = c.round, 0
	}
	most := int64(math.MaxInt64)
	if f.asked >= maxFirst {
		most = maxRepeats
	}
	if c.stores.remote.conn.Crowded(most, now.SteadyMicros) {
		return false
	}
	f.asked++
	return true
}

// The flows of a crowd have turns: when Redis has room, they are asked about one after the other.

// turn is the flow whose turn it is. There must be one.
func (c *crowd) turn() *flow {
	must.Hold(c.turns > 0 && c.first != nil, "some flow waits for its turn")
	f := c.first
	c.first, f.next = f.next, nil
	c.turns--
	return f
}

// pop takes the first question out of a flow.
func (c *crowd) pop(f *flow) *Question {
	c.n--
	must.Hold(c.n >= 0, "no more requests leave the crowd than have come")
	return f.list.pop()
}

// remove takes out a question, if it is there.
func (c *crowd) remove(q *Question) {
	if c.n == 0 {
		return
	}
	for range c.turns {
		f := c.turn()
		was := f.n
		f.remove(q)
		c.n -= was - f.n
		c.await(f)
	}
}

// ask asks Redis about requests that were kept back, flow by flow, as far as there is room: of each the
// first ones as long as they need not be asked about, because the worker rejects them from memory by now,
// and one more.
func (c *crowd) ask(now Time) {
	if sent, answered := c.stores.remote.conn.Asked(); answered >= c.endsAt {
		c.round++
		c.endsAt = sent
	}
	for taken, idle := 0, 0; taken < maxTaken && idle < c.turns; idle++ {
		f := c.turn()
		for asked := false; !asked && taken < maxTaken && f.n > 0; {
			c.stores.before(f.first, now) // its limits may have changed meanwhile
			if c.stores.ask(memoryLayer, f.first, now) {
				c.home.answered(c.pop(f))
			} else if asked = true; !c.mayAsk(f, now) {
				break
			} else if q := c.pop(f); c.stores.AskRedis(q, now) {
				c.home.answered(q)
			}
			taken, idle = taken+1, -1
		}
		c.await(f)
	}
	if c.n == 0 && !c.stores.remote.conn.Crowded(maxRepeats, now.SteadyMicros) {
		c.on = false
		c.stores.burst.on = false
	}
}

// expire ends the wait of requests that have been kept back for the timeout.
func (c *crowd) expire(now Time) {
	if c.n == 0 {
		return
	}
	listening := c.stores.remote.conn.ListeningMicros(now.SteadyMicros)
	for range c.turns {
		f := c.turn()
		for f.n > 0 && listening-f.first.kept.atMicros >= c.timeoutMicros {
			q := c.pop(f)
			q.kept.overdue = true
			c.stores.before(q, now) // its limits may have changed meanwhile
			q.giveUp()
			c.home.answered(q)
		}
		c.await(f)
	}
}
