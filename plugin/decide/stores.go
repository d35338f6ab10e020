package decide

import (
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/redis"
)

// Recorder counts what happens. It is called once for each thing that does.
type Recorder interface {
	// Count counts an event n times.
	Count(e metric.Event, n int64)
	// RequestFailed counts a check that Redis did not decide.
	RequestFailed(cause redis.Cause)
	// RoundTrip counts the time in which Redis answered.
	RoundTrip(micros int64)
	// BreakerChanged notes the breaker's new state.
	BreakerChanged(state redis.BreakerState)
	// OverrideIgnored warns that an identity's override is not valid.
	OverrideIgnored(tag []byte)
	// Concluded counts a request that has its verdict, and each of its checks.
	Concluded(q *Question, v Verdict)
}

// Stores is all that can answer a Question, for one configuration in one worker: Redis, and a
// field for each feature. A layer owns its state, and sees checks and receipts, but no other layer.
// One that is off holds nothing and does nothing. What involves several of them, Stores does, in the
// order of features.go.
type Stores struct {
	host   Host
	record Recorder
	remote remote
	features
}

// alone reports whether there is no Redis to ask.
func (s *Stores) alone() bool { return s.order[len(s.order)-1] == onlyLayer }

// remote is the layer of Redis: it knows the scripts that decide. Where no Redis is configured
// it is never asked.
type remote struct {
	conn    *redis.Conn
	scripts []*redis.Script // by rule.LimitSet.ID
	back    []int64         // scratch, for a settlement
}

func (r *remote) charge(of *Receipt) redis.Charge {
	return redis.Charge{Script: r.scripts[of.Limits.ID], Demand: of.Demand, Nonce: of.nonce, AtMicros: of.atMicros}
}

// observer tells the Recorder and the Stores what happens to the connection.
type observer struct {
	Recorder
	stores *Stores
}
