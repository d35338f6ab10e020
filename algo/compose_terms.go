package algo

import "strings"

// This file writes what a rule's terms add to the script that decides.

// before writes what is looked at before the limits: whoever is free or blocked is not
// asked about them, nor anybody whose limits have another factor.
func (c *composer) before() {
	if c.kind.overrides {
		c.terms(overrideLua, "read", "")
	}
	if c.kind.penalty {
		c.terms(penaltyLua, "load", "")
	}
	if c.kind.overrides && len(c.limiters) > 0 {
		c.terms(overrideLua, "compare", "")
	}
}

// otherwise writes what a rejection by the limits does.
func (c *composer) otherwise() {
	if c.kind.penalty {
		c.WriteString("else\n")
		c.terms(penaltyLua, "strike", "  ")
	}
}

// after writes what is kept, whatever the limits have said.
func (c *composer) after() {
	if c.kind.penalty {
		c.WriteString("if penalty.changed then\n")
		c.terms(penaltyLua, "save", "  ")
		c.WriteString("end\n")
	}
}

// replyOfTerms is what the reply has after the limits' integers. Without any it is
// three integers all the same, see ParseRuling.
func (c *composer) replyOfTerms() (reply string) {
	switch {
	case len(c.limiters) == 0 && c.kind.overrides:
		return ", 3, ignored or 0"
	case len(c.limiters) == 0:
		return ", 3, 0"
	}
	if c.kind.penalty {
		reply += ", penalty.earned"
	}
	if c.kind.overrides {
		reply += ", ignored"
	}
	return reply
}

// arrow stands in a section where another one is to be written.
const arrow = "--> "

// terms writes a section of a term's file. Its keys and arguments follow those of the
// limits. The override's key comes before the penalty's, and its argument, which may be
// missing, after.
func (c *composer) terms(lua, name, indent string) {
	keys, args := len(c.limiters), c.argsBefore(len(c.limiters))
	variant := ""
	if c.kind.penalty {
		variant = "penalty"
	}
	switch {
	case lua == penaltyLua && c.kind.overrides:
		keys++
	case lua == overrideLua && c.kind.penalty:
		args += penaltyArgs
	}
	for line := range strings.Lines(section(lua, name, variant)) {
		code := strings.TrimLeft(line, " ")
		if target, ok := strings.CutPrefix(strings.TrimSpace(code), arrow); ok {
			c.terms(lua, target, indent+line[:len(line)-len(code)])
			continue
		}
		c.WriteString(indent + shift(shift(line, "KEYS[", keys), "ARGV[", args))
	}
}
