// Package reach finds rules that no request reaches, because an earlier rule takes all of theirs, and
// what helps clients to get around a rule.
package reach

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/ipaddr"
	"github.com/sluiceproxy/sluice/plugin/text"
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
	if !allImplied(b.Headers, a.Headers) || !allImplied(b.Query, a.Query) || !allImplied(b.Cookies, a.Cookies) {
		return false
	}
	for i := range a.Not { // whatever a keeps out must be kept out of b, too
		if !slices.ContainsFunc(b.Not, func(of config.Match) bool { return covers(&of, &a.Not[i]) }) {
			return false
		}
	}
	return true
}

// allImplied reports whether whatever fulfils all of b fulfils all of a.
func allImplied(b, a []config.NamedMatch) bool {
	return !slices.ContainsFunc(a, func(wanted config.NamedMatch) bool {
		return !slices.ContainsFunc(b, func(of config.NamedMatch) bool {
			return of.Name == wanted.Name && implies(&of.Match, &wanted.Match)
		})
	})
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

// Notes says what of a configuration helps clients to get around it. It is not a mistake.
func Notes(cfg *config.Config) (notes []config.Mistake) {
	for i := range cfg.Rules {
		r, at := &cfg.Rules[i], fmt.Sprintf("rules[%d]", i)
		note := func(path, problem string) {
			notes = append(notes, config.Mistake{Path: at + path, Problem: "rule " + strconv.Quote(r.Name) + ": " + problem})
		}
		if r.Mode == config.Off {
			continue
		}
		noteEscapes(&r.Match, ".match", note)
		noteBearers(r, note)
		if r.Settle != nil && r.Settle.Status != nil && slices.Contains(r.Match.Methods, "POST") &&
			!slices.ContainsFunc(r.Settle.Status, func(s config.StatusRange) bool { return s.First < 400 && s.Last >= 200 }) {
			note(".settle.status", "answers of 2xx and 3xx are not charged, and many applications answer a wrong password "+
				`with 200 or 302 (if yours does, want "expr", or a limit on all attempts beside it)`)
		}
		if r.Settle != nil && r.Settle.Release && r.Settle.Cost != nil {
			note(".settle.missing", `"release" gives an answer away whose client left before its cost came (want "keep" or `+
				`a cost if answers are streams)`)
		}
	}
	return notes
}

// noteBearers notes tokens that identify, in the key and in "per".
func noteBearers(r *config.Rule, note func(path, problem string)) {
	components := func(at string, all []config.Component) {
		for i := range all {
			if all[i].Source == config.FromBearer {
				note(fmt.Sprintf("%s[%d].bearer", at, i), "a JWT has many spellings that libraries take for one, and each is an "+
					"identity of its own (a claim that jwt_authn has verified has one)")
			}
		}
	}
	limits := func(at string, all []config.Limit) {
		for i := range all {
			components(fmt.Sprintf("%s[%d].per", at, i), all[i].Per)
		}
	}
	components(".key", r.Key)
	limits(".limits", r.Limits)
	if r.Tiers != nil {
		for i := range r.Tiers.Values {
			limits(".limits_by.values."+r.Tiers.Values[i].Value, r.Tiers.Values[i].Limits)
		}
	}
	if r.Over != nil {
		limits(".over.limits", r.Over.Limits)
	}
}

// escape is one in a regular expression.
var escape = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)

// noteEscapes notes escapes in a path's regular expression that no normalised path has.
func noteEscapes(m *config.Match, at string, note func(path, problem string)) {
	if m.Path != nil && m.Path.Op == config.Regex {
		for _, written := range escape.FindAllString(m.Path.Value, -1) {
			reads := string(text.AppendCanonical(nil, written))
			if c, _ := text.Unescape(written, 0); text.IsControl(c) {
				note(at+".path.regex", written+" is cut off the end of a path before it is compared")
			} else if reads != written {
				note(at+".path.regex", fmt.Sprintf("no normalised path holds %s (want %q)", written, reads))
			}
		}
	}
	for i := range m.Not {
		noteEscapes(&m.Not[i], fmt.Sprintf("%s.not[%d]", at, i), note)
	}
}
