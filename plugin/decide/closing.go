package decide

import "github.com/sluiceproxy/sluice/plugin/must"

// closing is the end of a configuration: it stays for a moment, until what it gives back has
// reached Redis.
type closing struct {
	untilMicros int64 // when it is given up; 0: it is not to end
}

const (
	// Bound: us between looks whether a configuration can end. Below it, Envoy has no timer.
	// Protects memory.
	closingTickMicros = 4_000
	// Bound: us that a configuration outlives its end. Beyond it, what it had to give back is lost.
	// Protects memory: Envoy keeps both configurations.
	maxClosingMicros = 1_000_000
)

func (c *closing) begin(nowMicros int64) {
	must.Hold(c.untilMicros == 0, "a configuration ends once")
	c.untilMicros = nowMicros + maxClosingMicros
}

// over reports whether the configuration has ended. idle says that nothing of it is under way.
func (c *closing) over(idle bool, nowMicros int64) bool {
	return c.untilMicros > 0 && (idle || nowMicros >= c.untilMicros)
}

// nextMicros is how long until a tick is to ask whether it is over; 0 if it is not to end.
func (c *closing) nextMicros() int64 {
	if c.untilMicros == 0 {
		return 0
	}
	return closingTickMicros
}

// Close ends the configuration. It reports whether it has; otherwise a tick will.
func (w *Worker) Close(now Time) (ended bool) {
	w.EndRedirected(now) // its next pass is on the configuration that follows
	w.stores.Close(now)
	w.closing.begin(now.SteadyMicros)
	if w.conn == nil {
		return true
	}
	w.conn.SendOutbox(now.SteadyMicros)
	if w.closing.over(w.conn.Idle(), now.SteadyMicros) {
		return true
	}
	w.wake(now)
	return false
}
