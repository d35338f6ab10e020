package algo

import (
	"strconv"
	"strings"
)

// The scripts that give charges back, or charge more as of the time of the charge.

// refund writes what changes a charge, and then any further ones.
func (c *composer) refund() {
	c.pick(longAgo)
	at := strconv.Itoa(c.argsOfLimits() + 1)
	c.WriteString("local charged = ARGV[" + at + "] + 0\n" + c.declareGone())
	if c.takesFurther() {
		c.WriteString("local last = " + at + "\nrepeat\n")
		c.refundOnce("  ")
		c.goOn()
		c.WriteString("until not charged\n")
	} else {
		c.refundOnce("")
	}
	c.WriteString("return " + c.gone() + "\n")
}

// takesFurther reports whether a call may change several charges. Those of slots are
// under a nonce each.
func (c *composer) takesFurther() bool {
	for i := range c.limiters {
		if c.limiters[i].nonce {
			return false
		}
	}
	return true
}

// refundOnce writes what changes one charge.
func (c *composer) refundOnce(indent string) {
	for i := range c.scopes {
		s := &c.scopes[i]
		kept := len(s.kept)
		c.WriteString(indent + "local cost" + s.suffix + " = " + s.source("cost") + "\n")
		s.kept = append(s.kept, "cost")
		s.block(c, indent, "if cost"+s.suffix+" > 0 then", s.steps(refundSteps))
		if c.limiters[i].owes {
			s.block(c, indent, "if cost"+s.suffix+" < 0 then", s.steps(debitSteps))
		}
		s.kept = s.kept[:kept]
	}
}

// goOn writes what puts the next charge, if there is one, in place of the last.
func (c *composer) goOn() {
	n := len(c.limiters)
	var to, from strings.Builder
	for i := range c.limiters {
		to.WriteString("ARGV[" + strconv.Itoa(c.argsBefore(i)+1) + "], ")
		from.WriteString("ARGV[last + " + strconv.Itoa(i+1) + "], ")
	}
	next := "last + " + strconv.Itoa(n+1)
	c.WriteString("  charged = ARGV[" + next + "]\n  if charged then\n    " +
		to.String() + "charged, last = " + from.String() + "charged + 0, " + next + "\n  end\n")
}
