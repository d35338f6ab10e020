package algo

// A guarantee and its pool are two buckets of one plan. What the guarantee admits goes through
// although the pool is full, and is charged to both, as long as the pool's debt then stays within
// one capacity. What it does not admit borrows: it needs room in the pool, and charges the pool
// alone. So who stays within a guarantee is never refused because of others, what is not used is
// lent, and in any time t at most what the pool restores in t, its capacity and one capacity more
// is admitted, whatever the guarantees are. docs/decisions/0028-levels.md has the
// proof.

// The variants of the two buckets in Lua.
const (
	poolVariant      = "pool"
	guaranteeVariant = "guarantee"
)

// noLimit is the place of a limit that a plan does not have.
const noLimit = -1

// findPair notes where the guarantee and its pool are.
func (p *Plan) findPair() error {
	p.guarantee, p.pool = noLimit, noLimit
	for i := range p.limits {
		l := &p.limits[i]
		if !l.Guarantee && !l.Pool {
			continue
		}
		at := &p.pool
		if l.Guarantee {
			at = &p.guarantee
		}
		if *at != noLimit || l.Guarantee == l.Pool || l.Queue || l.Algorithm != GCRA && l.Algorithm != TokenBucket {
			return invalid("limit ", i, " is no guarantee or pool (want one of each, a gcra or a token_bucket)")
		}
		*at = i
	}
	if p.guarantee != noLimit && p.pool == noLimit {
		return invalid("there is a guarantee, and no pool")
	}
	if p.guarantee == noLimit && p.pool != noLimit {
		return invalid("there is a pool, and no guarantee")
	}
	return nil
}

// Guarantee is the limit that is a guarantee, and its pool; ok is false if the plan has none.
func (p *Plan) Guarantee() (guarantee, pool int, ok bool) {
	return p.guarantee, p.pool, p.guarantee != noLimit
}

// Resolve makes one decision of those of guarantee and pool, which stand as the limits have made
// them after Decide: shown is the one that admitted, else the pool, with the shorter wait of the two.
// The other one is hidden. borrows says that the guarantee charged nothing.
func (p *Plan) Resolve(out []Decision) (borrows bool) {
	if p.guarantee == noLimit {
		return false
	}
	g, pool := &out[p.guarantee], &out[p.pool]
	if g.Allowed {
		*pool = Decision{
			Allowed: true, Hidden: true, Remaining: pool.Remaining, ResetAfterMicros: pool.ResetAfterMicros,
		}
		return false
	}
	if !pool.Allowed {
		pool.RetryAfterMicros = ShorterWait(pool.RetryAfterMicros, g.RetryAfterMicros)
	}
	*g = Decision{Allowed: true, Hidden: true, Remaining: g.Remaining}
	return true
}

// pair is the guarantee and the pool among the limiters of a script; -1 each without one.
func pair(limiters []limiter) (guarantee, pool int) {
	guarantee, pool = noLimit, noLimit
	for i := range limiters {
		switch limiters[i].variant {
		case guaranteeVariant:
			guarantee = i
		case poolVariant:
			pool = i
		}
	}
	return guarantee, pool
}

// weighGuarantee writes what Check does of the guarantee.
func (c *composer) weighGuarantee() {
	guarantee, pool := pair(c.limiters)
	if guarantee == noLimit {
		return
	}
	g, p := c.scopes[guarantee].suffix, c.scopes[pool].suffix
	needs, most := "cost"+p+" * interval"+p, "2 * tolerance"+p
	over := "lead" + p + " + " + needs + " - " + most
	c.WriteString("if cost" + g + " == 0 or " + needs + " > " + most + " then\n" +
		"  retry" + g + " = -1\n" +
		"elseif retry" + g + " >= 0 and " + over + " > retry" + g + " then\n" +
		"  retry" + g + " = math.ceil(" + over + ")\n" +
		"end\n")
}

// charges is the condition under which limit i is charged where all admit.
func (c *composer) charges(i int) string {
	if c.limiters[i].variant == guaranteeVariant {
		return "if retry" + c.scopes[i].suffix + " == 0 then"
	}
	return "if cost" + c.scopes[i].suffix + " > 0 then"
}
