// Package reach finds rules that no request reaches, because an earlier rule takes all of theirs, and
// what helps clients to get around a rule.
package reach

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/ipaddr"
)

// Unreachable names the rules whose every request an earlier rule exempts or rejects. It proves
// what it says: a regular expression or an expression is compared by its text alone.
func Unreachable(cfg *config.Config) (all []config.Mistake) {
	for i := range cfg.Rules {
		r := &cfg.Rules[i]
		if r.Mode == config.Off {
			continue
		}
		for k := range cfg.Rules[:i] {
			before := &cfg.Rules[k]
			if how := ends(cfg, before); how != "" && covers(&before.Match, &r.Match) {
				all = append(all, config.Mistake{
					Path: fmt.Sprintf("rules[%d]", i),
					Problem: fmt.Sprintf("rule %q is never reached: rule %q before it %s every request that it would match (want it "+
						"before that rule, or a narrower match there)",
						r.Name, before.Name, how),
				})
				break
			}
		}
	}
	return all
}

// ends says what a rule does to every request that it matches, where nothing after it matters.
func ends(cfg *config.Config, r *config.Rule) string {
	switch {
	case r.Exempt:
		return "exempts"
	case cfg.Mode == config.Shadow || r.Mode != config.Enforce || r.Overrides || r.Tiers != nil || !r.Cost.IsConstant() ||
		r.Cost.Default == 0:
		return ""
	}
	for i := range r.Key {
		if k := &r.Key[i]; k.Source != config.FromConstant && k.Source != config.FromClientIP && !k.HasDefault {
			return "" // some requests lack it
		}
	}
	if slices.ContainsFunc(r.Limits, func(l config.Limit) bool {
		return l.Units == 0 && l.UnitsFrom == nil && l.Cost == nil
	}) {
		return "rejects"
	}
	return ""
}

// covers reports whether every request that b matches is one that a matches.
func covers(a, b *config.Match) bool {
	switch {
	case a.Path != nil && (b.Path == nil || !implies(b.Path, a.Path)),
		a.Host != nil && (b.Host == nil || !implies(b.Host, a.Host)),
		a.Expr != "" && a.Expr != b.Expr,
		a.Methods != nil && (b.Methods == nil || !subset(b.Methods, a.Methods)),
		a.ClientIP != nil && (b.ClientIP == nil || !within(b.ClientIP, a.ClientIP)):
		return false
	}
	for i := range a.Headers {
		h := &a.Headers[i]
		if !slices.ContainsFunc(b.Headers, func(of config.HeaderMatch) bool {
			return of.Name == h.Name && implies(&of.Match, &h.Match)
		}) {
			return false
		}
	}
	for i := range a.Not { // whatever a keeps out must be kept out of b, too
		if !slices.ContainsFunc(b.Not, func(of config.Match) bool { return covers(&of, &a.Not[i]) }) {
			return false
		}
	}
	return true
}

// implies reports whether every value for which b holds is one for which a does.
func implies(b, a *config.StringMatch) bool {
	switch a.Op {
	case config.Present:
		return a.Present == (b.Op != config.Present || b.Present)
	case config.Regex:
		return *a == *b
	case config.Exact:
		return b.Op == config.Exact && b.Value == a.Value
	case config.Prefix:
		return (b.Op == config.Exact || b.Op == config.Prefix) && strings.HasPrefix(b.Value, a.Value)
	case config.Suffix:
		return (b.Op == config.Exact || b.Op == config.Suffix) && strings.HasSuffix(b.Value, a.Value)
	}
	return b.Op != config.Regex && b.Op != config.Present && strings.Contains(b.Value, a.Value)
}

func subset(b, a []string) bool {
	return !slices.ContainsFunc(b, func(s string) bool { return !slices.Contains(a, s) })
}

// within reports whether each network of b is inside one of a.
func within(b, a []ipaddr.Prefix) bool {
	return !slices.ContainsFunc(b, func(inner ipaddr.Prefix) bool {
		return !slices.ContainsFunc(a, func(outer ipaddr.Prefix) bool {
			set := ipaddr.NewSet([]ipaddr.Prefix{outer})
			return set.Contains(inner.Addr) && set.Contains(inner.Last())
		})
	})
}
