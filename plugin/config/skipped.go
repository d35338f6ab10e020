package config

import "slices"

// MayLack are the components of a rule's key without which the rule is skipped, and
// which a request may lack: those without a default, unless the rule's own match
// demands them, or another rule is for the requests that lack them.
func (c *Config) MayLack(r *Rule) (all []*Component) {
	if r.Exempt || r.Mode == Off {
		return nil
	}
	for i := range r.Key {
		k := &r.Key[i]
		if k.HasDefault || k.Source.always() || k.Source == FromHeader && (r.Match.demands(k.Name) || c.catches(k.Name)) {
			continue
		}
		all = append(all, k)
	}
	return all
}

// always reports whether every request has it: one without a path is rare, and
// matches few rules.
func (s Source) always() bool {
	switch s {
	case FromClientIP, FromPath, FromMethod, FromHost, FromConstant:
		return true
	}
	return false
}

// demands reports whether the match holds for requests with this header alone.
func (m *Match) demands(header string) bool {
	return slices.ContainsFunc(m.Headers, func(h HeaderMatch) bool {
		return h.Name == header && (h.Match.Op != Present || h.Match.Present)
	})
}

// catches reports whether a rule is for requests without this header.
func (c *Config) catches(header string) bool {
	return slices.ContainsFunc(c.Rules, func(r Rule) bool {
		return r.Mode == Enforce && slices.ContainsFunc(r.Match.Headers, func(h HeaderMatch) bool {
			return h.Name == header && h.Match.Op == Present && !h.Match.Present
		})
	})
}
