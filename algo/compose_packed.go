package algo

import (
	"slices"
	"strings"
)

// The script that decides several limits takes their costs as one argument, and all their other
// numbers as another, packed. Redis takes 2,300 instructions to receive an argument of text, and to
// make a number of it; see docs/decisions/0021-what-was-tried.md.

// maxPacked is the most limits of such a script: of more, the locals have no room.
//
// Bound: limits of a rule whose numbers are one argument. Beyond it, each number is an argument of
// its own. Protects a script from Lua's 200 local variables.
const maxPacked = MaxLimits / 2

func packs(limits int) bool { return limits > 1 && limits <= maxPacked }

// packed reports whether the script is such a one. One that changes charges is not: it is not on a
// request's way, and may have costs of many charges.
func (c *composer) packed() bool { return !c.kind.refund && packs(len(c.limiters)) }

// packedArgs is how many arguments the limits have together: the costs, the nonce if one takes it,
// and the numbers. A limit with an Over is alone.
func packedArgs(limiters []limiter) int {
	for i := range limiters {
		if limiters[i].nonce {
			return 3
		}
	}
	return 2
}

// unpack makes locals of the costs, one number where all are the same, else one for each limit, and of
// the numbers. Some limits want their cost as text, too.
func (c *composer) unpack() {
	var costs, units []string
	for i := range c.scopes {
		s := &c.scopes[i]
		costs = append(costs, "cost"+s.suffix)
		for _, charge := range s.steps(chargeSteps) {
			if slices.Contains(charge.takes, "units") {
				units = append(units, "units"+s.suffix)
			}
		}
	}
	costsOfAll := strings.Join(costs, ", ")
	c.WriteString("local units, " + strings.Join(append(costs, units...), ", ") + " = ARGV[1]\n" +
		"if #units > 1 and string.find(units, ' ', 1, true) then\n  " +
		costsOfAll + " = string.match(units, '" + strings.Repeat(" (%S+)", len(costs))[1:] + "')\n")
	for _, name := range units {
		c.WriteString("  " + name + " = cost" + name[len("units"):] + "\n")
	}
	c.WriteString("  " + costsOfAll + " = " + strings.Join(costs, " + 0, ") + " + 0\nelse\n" +
		"  " + costs[0] + " = units + 0\n" +
		"  " + strings.Join(costs[1:], ", ") + " = " + costs[0] + strings.Repeat(", "+costs[0], len(costs)-2) + "\n")
	for _, name := range units {
		c.WriteString("  " + name + " = units\n")
	}
	c.WriteString("end\n")

	var all, whole []string
	for i := range c.limiters {
		for _, a := range c.limiters[i].args() {
			name := a.name + c.scopes[i].suffix
			all = append(all, name)
			if !a.ticks {
				whole = append(whole, name)
			}
		}
	}
	packed := index("ARGV", packedArgs(c.limiters))
	c.WriteString("local " + strings.Join(all, ", ") +
		" = struct.unpack('<" + strings.Repeat("d", len(all)) + "', " + packed + ")\n")
	if len(whole) > 0 { // Lua 5.4 would answer floats
		names := strings.Join(whole, ", ")
		c.WriteString(names + " = math.floor(" + strings.Join(whole, "), math.floor(") + ")\n")
	}
}
