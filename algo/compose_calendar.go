package algo

// This file writes what calendar windows add to a script.

// pick writes which calendar windows now is in: before all else, as nothing may have
// been written if that is unknown.
func (c *composer) pick(unknown string) {
	for i := range c.limiters {
		if c.limiters[i].fixed.calendar {
			c.section(i, "pick", "")
			c.WriteString(c.renumber(unknown, i))
		}
	}
}

// What to do if now is in none of three calendar windows: to answer the time, so that
// one is asked again, or in a refund to give nothing back.
const (
	otherTime   = "if now < start_1 or now >= end_1 then return {now} end\n"
	overLongAgo = "if now < start_1 or now >= end_1 then start_1, end_1 = 0, 0 end\n"
)
