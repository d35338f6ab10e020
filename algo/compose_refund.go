package algo

import (
	"strconv"
	"strings"
)

// This file puts together the scripts that give charges back, or charge more at their
// time.

// refund writes what changes a charge, and then any further ones.
func (c *composer) refund() {
	c.pick(overLongAgo)
	at := strconv.Itoa(c.argsBefore(len(c.limiters)) + 1)
	c.WriteString("local charged = ARGV[" + at + "] + 0\n")
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
	for i := range c.limiters {
		c.section(i, "locals", indent)
		c.block(i, indent, ifCost, "load", "parts", "refund")
		if c.limiters[i].bucket.queue || c.limiters[i].algorithm == Concurrency {
			continue // a queue has let its requests go already; slots are never owed
		}
		c.block(i, indent, ifOwed, "load", "count", "parts", "counts", "debit")
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
