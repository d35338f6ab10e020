package algo

import "strings"

// The scripts that renew slots and give them back.

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

// giveBack is the script that gives slots back.
func giveBack() Script {
	return known("release", func() string {
		c := &composer{}
		c.WriteString(header)
		return c.whole("release")
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
