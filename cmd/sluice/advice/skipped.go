package advice

import (
	"slices"
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/plugin/config"
)

// skipped says for each rule which requests skip it: people easily take an absent key
// for one that is counted as empty. It is not a mistake.
func skipped(c *config.Config) (notes []config.Mistake) {
	for i := range c.Rules {
		lacks := mayLack(c, &c.Rules[i])
		if len(lacks) == 0 {
			continue
		}
		sources := make([]string, len(lacks))
		for k, component := range lacks {
			sources[k] = sourceText(component)
		}
		notes = append(notes, config.Mistake{
			Path: "rules[" + strconv.Itoa(i) + "].key",
			Problem: "rule " + strconv.Quote(c.Rules[i].Name) + ": without " + strings.Join(sources, " or ") +
				` the rule is skipped: the request is not limited by it (a "default" in the key, or a rule for such ` +
				`requests, limits them)`,
		})
	}
	return notes
}

// sourceText names where a component that may be absent gets its value.
func sourceText(c *config.Component) string {
	switch c.Source {
	case config.FromHeader:
		return "the header " + strconv.Quote(c.Name)
	case config.FromCookie:
		return "the cookie " + strconv.Quote(c.Name)
	case config.FromQuery:
		return "the query parameter " + strconv.Quote(c.Name)
	case config.FromMetadata:
		return "the metadata " + config.PathText(c.Path)
	case config.FromProperty:
		return "the property " + config.PathText(c.Path)
	case config.FromBearer:
		return "a bearer token"
	}
	return "a value of its expression"
}

// mayLack are the components of a rule's key without which the rule is skipped, and
// which a request may lack: those without a default, unless the rule's own match
// demands them, or another rule is for the requests that lack them.
func mayLack(c *config.Config, r *config.Rule) (all []*config.Component) {
	if r.Exempt || r.Mode == config.Off {
		return nil
	}
	for i := range r.Key {
		k := &r.Key[i]
		needless := demands(&r.Match, k) || catches(c, k)
		if k.HasDefault || always(k.Source) || needless {
			continue
		}
		all = append(all, k)
	}
	return all
}

// always reports whether every request has it: one without a path is rare, and
// matches few rules.
func always(s config.Source) bool {
	switch s {
	case config.FromClientIP, config.FromPath, config.FromMethod, config.FromHost, config.FromConstant:
		return true
	}
	return false
}

// demands reports whether the match holds for requests alone that have the component's value.
func demands(m *config.Match, k *config.Component) bool {
	return slices.ContainsFunc(m.Named(k.Source), func(n config.NamedMatch) bool {
		return n.Name == k.Name && (n.Match.Op != config.Present || n.Match.Present)
	})
}

// catches reports whether a rule is for requests that lack the component's value.
func catches(c *config.Config, k *config.Component) bool {
	return slices.ContainsFunc(c.Rules, func(r config.Rule) bool {
		return r.Mode == config.Enforce && slices.ContainsFunc(r.Match.Named(k.Source), func(n config.NamedMatch) bool {
			return n.Name == k.Name && n.Match.Op == config.Present && !n.Match.Present
		})
	})
}
