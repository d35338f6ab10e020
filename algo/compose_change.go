package algo

import (
	"strconv"
	"strings"
)

// The scripts that give charges back, or charge more as of the time of the charge, and those that
// renew slots and give them back.

// refund writes what changes a charge, and then any further ones.
func (c *composer) refund() {
	c.pick(longAgo)
	at := strconv.Itoa(c.argsOfLimits() + 1)
	c.WriteString("local charged = ARGV[" + at + "] + 0\n")
	gone := "" // of how many limits the slots were gone already, which is the reply
	for i := range c.limiters {
		if c.limiters[i].nonce {
			name := "gone" + c.scopes[i].suffix
			c.scopes[i].kept = append(c.scopes[i].kept, "gone")
			c.WriteString("local " + name + " = 0\n")
			gone += " + " + name
		}
	}
	if gone != "" { // slots are under a nonce each, so that a call changes one charge
		c.refundOnce("")
		c.WriteString("return " + gone[len(" + "):] + "\n")
		return
	}
	c.WriteString("local last = " + at + "\nrepeat\n")
	c.refundOnce("  ")
	// The next charge, if there is one, takes the place of the last.
	var to, from strings.Builder
	for i := range c.limiters {
		to.WriteString("ARGV[" + strconv.Itoa(c.argsBefore(i)+1) + "], ")
		from.WriteString("ARGV[last + " + strconv.Itoa(i+1) + "], ")
	}
	next := "last + " + strconv.Itoa(len(c.limiters)+1)
	c.WriteString("  charged = ARGV[" + next + "]\n  if charged then\n    " +
		to.String() + "charged, last = " + from.String() + "charged + 0, " + next + "\n  end\nuntil not charged\nreturn 0\n")
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

// renewal is the script that renews slots.
func renewal(k kind) Script {
	name := "renewal"
	if k.withoutTime {
		name = "renewal without TIME"
	}
	return known(name, func() string {
		c := &composer{}
		c.WriteString(header)
		c.begin(k)
		return c.whole("renew")
	})
}

// whole writes a step of slots that is a script of its own.
func (c *composer) whole(name string) string {
	s := scope{lua: concurrencyLua, source: func(name string) string {
		if name == "ttl" {
			return index("ARGV", 1) + " + 0"
		}
		return index("KEYS", 1)
	}}
	steps := s.steps([]string{name})
	s.bind(c, "", steps)
	c.WriteString(steps[0].body + "return " + strings.Join(steps[0].gives, ", ") + "\n")
	return c.String()
}
