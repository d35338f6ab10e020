package twinredis

import (
	"slices"
	"strings"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/redisresp"
)

// terms are a rule's override and penalty during one call: override.lua and
// penalty.lua.
type terms struct {
	server *Server
	algo.Terms
	override  []byte // the key
	penalty   []byte // the key
	strikes   []algo.Strikes
	deferred  bool
	madeFor   string // the override that the call was made for
	nowMicros int64

	state   algo.State // of the penalty
	changed bool
	ignored int64
}

func (s *Server) terms(p *algo.Plan, keys [][]byte, args []string, nowMicros int64) *terms {
	t := &terms{server: s, Terms: p.Terms(), nowMicros: nowMicros}
	if t.Overrides {
		t.override, keys = keys[0], keys[1:]
	}
	if t.Penalty != nil {
		t.penalty = keys[0]
		n := p.NumTermArgs()
		t.strikes, t.deferred = readStrikes(args[n-1])
		args = args[n:]
	}
	if len(args) > 0 {
		t.madeFor = args[0]
	}
	return t
}

// before appends the reply of a call in which the limits are not asked. It reports whether it has.
func (t *terms) before(dst []byte) (reply []byte, done bool) {
	value, leftMicros := "", int64(0) // of the override
	if t.Overrides {
		v := t.server.get(t.override, t.nowMicros)
		leftMicros = leftOf(v.expiresMicros, t.nowMicros)
		switch value = v.text; {
		case value == t.madeFor:
		case value == "free":
			t.server.Delete(string(t.penalty))
			return appendIntegers(dst, t.nowMicros, int64(algo.MarkFree), leftMicros), true
		case value == "block":
			return appendIntegers(dst, t.nowMicros, int64(algo.MarkBlock), leftMicros), true
		case len(value) > algo.MaxOverrideBytes:
			value, t.ignored = "", 1
		}
	}
	if t.Penalty != nil {
		if blocked := t.blockedMicros(); blocked > 0 {
			return appendIntegers(dst, t.nowMicros, int64(algo.MarkPenalty), blocked), true
		}
	}
	if !t.Overrides || value == t.madeFor {
		return dst, false
	}
	dst = redisresp.AppendArray(dst, 4)
	for _, n := range []int64{t.nowMicros, int64(algo.MarkOverride), leftMicros} {
		dst = appendInteger(dst, n)
	}
	return redisresp.AppendBulkString(dst, value), true
}

// leftOf is how long an operator's key lasts, by the millisecond.
func leftOf(expiresMicros, nowMicros int64) int64 {
	if expiresMicros == 0 {
		return algo.Never
	}
	return max((expiresMicros-nowMicros)/1000, 1) * 1000
}

// blockedMicros counts what the worker has told, and returns for how long the penalty blocks.
func (t *terms) blockedMicros() int64 {
	t.state = slices.Clone(t.server.get(t.penalty, t.nowMicros).state)
	t.state, t.changed = t.Penalty.Rebase(t.state, t.nowMicros)
	before := slices.Clone(t.state)
	t.state = t.Penalty.Remember(t.state, t.strikes, t.nowMicros)
	t.changed = t.changed || !slices.Equal(before, t.state)
	left := t.Penalty.LeftMicros(t.state, t.nowMicros)
	if left > 0 {
		t.save()
	}
	return left
}

func (t *terms) save() {
	if t.changed {
		t.server.put(t.penalty, t.state, t.Penalty.ExpiresAtMicros(t.state))
	}
}

// after counts a rejection, and returns the length of the block that it has earned.
func (t *terms) after(allowed bool) (earnedMicros int64) {
	if t.Penalty == nil {
		return 0
	}
	if !allowed && !t.deferred {
		t.state, earnedMicros = t.Penalty.Strike(t.state, t.nowMicros)
		t.changed = true
	}
	t.save()
	return earnedMicros
}

// append appends what a reply has after the limits' integers.
func (t *terms) append(values []int64, earnedMicros int64) []int64 {
	if t.Penalty != nil {
		values = append(values, earnedMicros)
	}
	if t.ignored != 0 {
		values = append(values, t.ignored)
	}
	return values
}

// readStrikes reads what algo.AppendStrikes has written.
func readStrikes(text string) (strikes []algo.Strikes, deferred bool) {
	text, deferred = strings.CutSuffix(text, "-")
	for _, pair := range strings.Fields(text) {
		age, count, _ := strings.Cut(pair, ":")
		a, _ := readInt(age)
		n, _ := readInt(count)
		strikes = append(strikes, algo.Strikes{AgeMicros: a, Count: n})
	}
	return strikes, deferred
}
