package decide

import "github.com/sluiceproxy/sluice/plugin/must"

// The shares of a crowd have turns: when Redis has room, they are asked about one after the other.

// turn is the share whose turn it is. There must be one.
func (c *crowd) turn() *share {
	must.Hold(c.turns > 0 && c.first != nil, "a share whose turn it is has waited for it")
	s := c.first
	c.first, s.next = s.next, nil
	c.turns--
	return s
}

// pop takes the first question out of a share.
func (c *crowd) pop(s *share) *Question {
	c.n--
	must.Hold(c.n >= 0, "no more requests leave the crowd than have come")
	return s.list.pop()
}

// remove takes out a question, if it is there.
func (c *crowd) remove(q *Question) {
	if c.n == 0 {
		return
	}
	for range c.turns {
		s := c.turn()
		was := s.n
		s.remove(q)
		c.n -= was - s.n
		c.await(s)
	}
}

// mayGoOn reports whether some are kept back, and Redis has room for one of them.
//
//go:inline
func (c *crowd) mayGoOn(nowMicros int64) bool {
	return c.n > 0 && !c.remote.conn.Crowded(maxRepeats, nowMicros)
}

// ask asks Redis about those who were kept back, share by share, as far as there is
// room. Of some the memory of rejections knows by now what becomes of them.
func (c *crowd) ask(now Time) {
	if sent, answered := c.remote.conn.Asked(); answered >= c.endsAt {
		c.round++
		c.endsAt = sent
	}
	for taken, idle := 0, 0; taken < maxTaken && idle < c.turns; idle++ {
		s := c.turn()
		if n := c.serve(s, maxTaken-taken, now); n > 0 {
			taken, idle = taken+n, -1
		}
		c.await(s)
	}
	if c.n == 0 && !c.remote.conn.Crowded(maxRepeats, now.SteadyMicros) {
		c.on = false
		c.stores.burst.on = false
	}
}

// serve takes up to most requests out of a share: the first ones as long as they need not be
// asked about, and one more. It returns how many.
func (c *crowd) serve(s *share, most int, now Time) (n int) {
	for n < most && s.n > 0 {
		n++
		c.stores.size(s.first, now) // its limits may have changed meanwhile
		if c.stores.ask(memoryLayer, s.first, now) {
			c.home.answered(c.pop(s))
			continue
		}
		if !c.mayAsk(s, now) {
			return n - 1
		}
		if q := c.pop(s); c.stores.AskRedis(q, now) {
			c.home.answered(q)
		}
		return n
	}
	return n
}

// expire ends the wait of those who have been kept back for the timeout.
func (c *crowd) expire(now Time) {
	if c.n == 0 {
		return
	}
	listening := c.remote.conn.ListeningMicros(now.SteadyMicros)
	for range c.turns {
		s := c.turn()
		for s.n > 0 && listening-s.first.keptMicros >= c.timeoutMicros {
			q := c.pop(s)
			q.overdue = true
			q.giveUp()
			c.home.answered(q)
		}
		c.await(s)
	}
}
