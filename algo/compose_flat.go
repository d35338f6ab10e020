package algo

import (
	"slices"
	"strings"
)

// A script that decides one limit, and has no terms, is flat: its charge stands in the scope of
// its check, so that next to nothing need be kept from one scope to another.

// checkFlat writes what check does.
func (c *composer) checkFlat() {
	s := &c.scopes[0]
	steps, charge := s.checks(), s.steps(chargeSteps)
	known := s.bind(c, "", steps)
	for i := range steps {
		known = append(known, steps[i].gives...)
		c.WriteString(steps[i].body)
	}
	var kept []string // names that the charge gives as locals of its own
	for i := range charge {
		for line := range strings.Lines(charge[i].body) {
			declared, ok := strings.CutPrefix(line, "local ")
			if !ok {
				continue
			}
			declared, _, _ = strings.Cut(strings.TrimSpace(declared), " =")
			for _, name := range split(declared) {
				if slices.Contains(charge[i].gives, name) {
					kept = append(kept, name)
				}
			}
		}
	}
	if len(kept) > 0 {
		c.WriteString("local " + s.suffixed(kept) + " = " + strings.Join(kept, ", ") + "\n")
	}
	c.WriteString("if retry == 0 and cost > 0 then\n")
	s.bindBut(c, "  ", charge, known)
	for i := range charge {
		for line := range strings.Lines(charge[i].body) {
			c.WriteString("  " + line)
		}
	}
	if len(kept) > 0 {
		c.WriteString("  " + s.suffixed(kept) + " = " + strings.Join(kept, ", ") + "\n")
	}
	c.WriteString("end\nreturn {now")
	for _, field := range c.limiters[0].reply {
		name := replyNames[field]
		if slices.Contains(kept, name) {
			name += s.suffix
		}
		c.WriteString(", " + name)
	}
	c.WriteString("}\n")
}
