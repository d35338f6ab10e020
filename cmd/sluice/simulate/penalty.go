package simulate

import (
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// The second integer of a reply that no limit has a part in, see algo.Ruling. Nobody
// sets overrides in a simulation.
const (
	replyPenalty   = 2
	replyUnlimited = 3
)

// underPenalty is an identity of a rule with a penalty, during a call; nil without.
type underPenalty struct {
	*algo.Penalty
	server *server
	key    string
}

// penalty begins a call: it counts what the worker brings.
func (s *server) penalty(set *rule.LimitSet, keys, args [][]byte, nowMicros int64) *underPenalty {
	p := set.Rule.Terms.Penalty
	if p == nil {
		return nil
	}
	u := &underPenalty{p, s, string(keys[len(keys)-1])}
	state, _ := p.Rebase(u.state(nowMicros), nowMicros)
	u.keep(p.Remember(state, parseStrikes(string(args[len(args)-1])), nowMicros))
	return u
}

func (u *underPenalty) state(nowMicros int64) algo.State {
	if u.server.expires[u.key] <= nowMicros {
		return nil
	}
	return u.server.states[u.key]
}

func (u *underPenalty) keep(state algo.State) {
	if len(state) > 0 {
		u.server.states[u.key], u.server.expires[u.key] = state, u.ExpiresAtMicros(state)
	}
}

// left is how long the identity is blocked.
func (u *underPenalty) left(nowMicros int64) int64 {
	if u == nil {
		return 0
	}
	return u.LeftMicros(u.state(nowMicros), nowMicros)
}

// append appends what the reply has after the limits' integers.
func (u *underPenalty) append(values []int64, allowed bool, nowMicros int64) []int64 {
	if u == nil {
		return values
	}
	earned := int64(0)
	if !allowed {
		var state algo.State
		state, earned = u.Strike(u.state(nowMicros), nowMicros)
		u.keep(state)
	}
	return append(values, earned)
}

// parseStrikes reads what algo.AppendStrikes has written.
func parseStrikes(text string) (strikes []algo.Strikes) {
	for _, pair := range strings.Fields(text) {
		age, count, _ := strings.Cut(pair, ":")
		a, _ := strconv.ParseInt(age, 10, 64)
		n, _ := strconv.ParseInt(count, 10, 64)
		strikes = append(strikes, algo.Strikes{AgeMicros: a, Count: n})
	}
	return strikes
}
