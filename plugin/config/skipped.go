package config

import (
	"slices"
	"strconv"
	"strings"
)

// Skipped says for each rule which requests skip it: people easily take an absent key
// for one that is counted as empty. It is not a mistake.
func (c *Config) Skipped() (notes []Mistake) {
	for i := range c.Rules {
		lacks := c.MayLack(&c.Rules[i])
		if len(lacks) == 0 {
			continue
		}
		sources := make([]string, len(lacks))
		for k, component := range lacks {
			sources[k] = component.sourceText()
		}
		notes = append(notes, Mistake{
			Path: "rules[" + strconv.Itoa(i) + "].key",
			Problem: "rule " + strconv.Quote(c.Rules[i].Name) + ": without " + strings.Join(sources, " or ") +
				` the rule is skipped: the request is not limited by it (a "default" in the key, or a rule for such ` +
				`requests, limits them)`,
		})
	}
	return notes
}

// sourceText names where a component that may be absent gets its value.
func (c *Component) sourceText() string {
	switch c.Source {
	case FromHeader:
		return "the header " + strconv.Quote(c.Name)
	case FromCookie:
		return "the cookie " + strconv.Quote(c.Name)
	case FromQuery:
		return "the query parameter " + strconv.Quote(c.Name)
	case FromMetadata:
		return "the metadata " + PathText(c.Path)
	case FromProperty:
		return "the property " + PathText(c.Path)
	case FromBearer:
		return "a bearer token"
	}
	return "a value of its expression"
}

// PathText writes a path as a configuration does.
func PathText(path []string) string {
	quoted := make([]string, len(path))
	for i := range path {
		quoted[i] = strconv.Quote(path[i])
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

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
