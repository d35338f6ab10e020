package algo

import "slices"

// What a rule's terms add to the script that decides.

// terms are the scopes of a rule's terms. Their keys and arguments follow those of the
// limits. The override's key comes before the penalty's, and its argument, which may be
// missing, after.
func (c *composer) terms() (override, penalty scope) {
	keys, args := len(c.limiters)+1, c.argsOfLimits()+1
	penaltyKey, madeFor := "nil", args
	if c.kind.penalty {
		penaltyKey, madeFor = index("KEYS", keys+1), args+penaltyArgs
	}
	override = scope{lua: overrideLua, suffix: "_0", source: func(name string) string {
		switch name {
		case "penalty_key":
			return penaltyKey
		case "made_for":
			return index("ARGV", madeFor)
		}
		return index("KEYS", keys)
	}}
	penalty = scope{lua: penaltyLua, suffix: "_0", source: func(name string) string {
		if n := slices.Index(penaltyArgNames[:], name); n >= 0 {
			return index("ARGV", args+n)
		}
		if c.kind.overrides {
			return penaltyKey
		}
		return index("KEYS", keys)
	}}
	return override, penalty
}
