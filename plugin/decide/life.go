package decide

// Tick passes time to what the stores hold.
func (s *Stores) Tick(now Time) {
	if s.leases != nil {
		s.leases.Expire(now.SteadyMicros)
	}
	s.returnUnits(now)
	s.renewSlots(now)
}

// NextMicros is how long until the stores have something to do, at least 1; 0 if
// nothing waits.
func (s *Stores) NextMicros(nowMicros int64) int64 {
	if s.ready.len() > 0 || s.crowd.len() > 0 && !s.conn.Crowded(false, nowMicros) {
		return 1
	}
	next := s.queue.nextMicros(nowMicros)
	if s.leases != nil {
		if due := s.leases.NextMicros(nowMicros); next == 0 || due > 0 && due < next {
			next = due
		}
	}
	if s.slots != nil {
		if due := s.slots.NextMicros(nowMicros); next == 0 || due > 0 && due < next {
			next = due
		}
	}
	return next
}

// Queued is how many requests wait for their turn.
func (s *Stores) Queued() int { return len(s.queue.heap) }

// Close gives back all that the leases hold, and what they will be given: the
// configuration ends, and the next one takes units of its own.
func (s *Stores) Close(now Time) {
	if s.leases != nil {
		s.leases.Close(now.SteadyMicros)
	}
}
