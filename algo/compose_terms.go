package algo

import "slices"

// What a rule's terms add to the script that decides.

// before writes the steps before the limits: the script ends there for an identity that is free
// or blocked, and for a call that was made for another override.
func (c *composer) before() {
	override, penalty := c.terms()
	if c.kind.overrides {
		override.keeping(c, []string{"ignored", "value"}, override.steps([]string{"read"}))
	}
	if c.kind.penalty {
		penalty.keeping(c, []string{"penalty"}, penalty.steps([]string{"read"}))
	}
	if c.kind.overrides {
		override.block(c, "", "do", override.steps([]string{"compare"}))
	}
}

// otherwise writes what a rejection by the limits does.
func (c *composer) otherwise() {
	if c.kind.penalty {
		_, penalty := c.terms()
		penalty.kept = []string{"penalty"}
		penalty.block(c, "", "else", penalty.steps([]string{"strike"}))
	} else {
		c.WriteString("end\n")
	}
}

// after writes the steps that follow the limits, whether they allow or reject.
func (c *composer) after() {
	if c.kind.penalty {
		_, penalty := c.terms()
		penalty.kept = []string{"penalty"}
		penalty.block(c, "", "if penalty_0.changed then", penalty.steps([]string{"save"}))
	}
}

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

// replyOfTerms returns the part of the reply after the limits' integers. Without limits it is
// a short reply, see Marker.
func (c *composer) replyOfTerms() (reply string) {
	switch {
	case len(c.limiters) == 0 && c.kind.overrides:
		return ", -4, ignored_0 or 0"
	case len(c.limiters) == 0:
		return ", -4, 0"
	}
	if c.kind.penalty {
		reply += ", penalty_0.earned"
	}
	if c.kind.overrides {
		reply += ", ignored_0"
	}
	return reply
}
