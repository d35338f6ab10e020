package algo

// This file puts together the scripts that renew slots and give them back.

// renewal is the script that renews slots.
func renewal(k kind) Script {
	name := "renewal"
	if k.withoutTime {
		name = "renewal without TIME"
	}
	return known(name, func() string {
		c := &composer{}
		c.begin(k)
		c.WriteString(section(concurrencyLua, "renew", ""))
		return c.String()
	})
}

// giveBack is the script that gives slots back.
func giveBack() Script {
	return known("release", func() string { return header + section(concurrencyLua, "release", "") })
}

// gone is what a refund answers: whether slots were gone already.
func (c *composer) gone() string {
	for i := range c.limiters {
		if c.limiters[i].algorithm == Concurrency {
			return c.renumber("gone_1", i)
		}
	}
	return "0"
}
