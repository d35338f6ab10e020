// Package advice says what of a valid configuration is probably not meant, and bounds the patterns in
// its expressions: what "sluice validate" and the webhook know beyond what the plugin refuses.
package advice

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
	"github.com/sluiceproxy/sluice/internal/envoycel"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/config/regexsize"
)

// list collects what there is to say about a configuration.
type list []config.Mistake

func (l *list) say(at, problem string, args ...any) {
	*l = append(*l, config.Mistake{Path: at, Problem: fmt.Sprintf(problem, args...)})
}

// Warnings are rules that no request reaches, and what is odd about others.
func Warnings(cfg *config.Config) []config.Mistake {
	var unreached, odd list
	for i := range cfg.Rules {
		if r, at := &cfg.Rules[i], fmt.Sprintf("rules[%d]", i); r.Mode != config.Off {
			unreached.reach(at, cfg, r, cfg.Rules[:i])
			odd.oddities(at, r)
		}
	}
	return append(unreached, odd...)
}

// Notes are what is easily overlooked: which requests skip a rule, as people take an absent key for one that is
// counted as empty; quotas by which callers read what is another identity's; limits that begin afresh with each
// value that a client makes up; expressions on the path, which Envoy has as the client wrote it; and what helps
// clients to get around a rule. They are no mistakes.
func Notes(cfg *config.Config) []config.Mistake {
	var skips, quotas, afresh, paths, evasions list
	for i := range cfg.Rules {
		r, at := &cfg.Rules[i], fmt.Sprintf("rules[%d]", i)
		if r.Mode == config.Off {
			continue
		}
		var lacks []string
		for _, component := range mayLack(cfg, r) {
			lacks = append(lacks, explain.Lacking(component))
		}
		if lacks != nil {
			skips.say(at+".key", `rule %q: without %s the rule is skipped: the request is not limited by it (a "default" in `+
				`the key, or a rule for such requests, limits them)`, r.Name, strings.Join(lacks, " or "))
		}
		for where, limits := range r.Lists {
			if !slices.ContainsFunc(limits, func(l config.Limit) bool { return l.Per == nil }) {
				afresh.say(at+where, `rule %q: every limit has "per": who makes values up begins afresh with each (a limit `+
					`without "per" bounds them all)`, r.Name)
			}
		}
		evasions.evasions(at, r)
	}
	if cfg.Quota != nil {
		for i, place := range cfg.Quota.Rules {
			if slices.ContainsFunc(cfg.Rules[place].Identify(), func(c config.Component) bool {
				return reads(c.Expr, pathAttributes) || reads(c.Expr, lineAttributes)
			}) {
				quotas.say(fmt.Sprintf("quota.rules[%d]", i), "rule %q identifies by an expression that reads the path, the "+
					"method or the query: those of a request for the quota are its own, so that callers may read another identity's",
					cfg.Rules[place].Name)
			}
		}
	}
	for _, e := range cfg.Expressions {
		if reads(e.Text, pathAttributes) {
			paths.say(e.Path, `%s: reads the path as the client wrote it, in any spelling (the matcher "path" reads it as `+
				`upstreams do)`, e.Path)
		}
	}
	return slices.Concat(skips, quotas, afresh, paths, evasions)
}

// pathAttributes are how an expression reads the path, which no one has normalised for it, and lineAttributes
// how it reads the rest of the request line, with single quotes and without spaces.
var (
	pathAttributes = []string{"request.path", "request.url_path", "request['path']", "request['url_path']", "':path'"}
	lineAttributes = []string{
		"request.method", "request.query", "request['method']", "request['query']", "':method'",
	}
)

// reads reports whether an expression has one of some texts, in quotes or not. It may be wrong about
// texts in quotes.
func reads(expr string, attributes []string) bool {
	text := strings.NewReplacer(`"`, "'", " ", "", "\t", "", "\r", "", "\n", "").Replace(expr)
	return slices.ContainsFunc(attributes, func(a string) bool { return strings.Contains(text, a) })
}

// Patterns are the regular expressions in a configuration's expressions that take too long: Envoy
// compiles each anew whenever it evaluates the expression. So one that is not in the text, but comes
// from the request perhaps, is a mistake as well.
func Patterns(c *config.Config) (mistakes config.Mistakes) {
	for _, e := range c.Expressions {
		for _, p := range envoycel.Patterns(e.Text) {
			err := regexsize.Check(p.Text)
			if tree, wrong := syntax.Parse(p.Text, syntax.Perl); err == nil && wrong == nil &&
				instructionsOf(tree) > maxRE2Instructions {
				err = regexsize.BoundError("compiled with each evaluation, the regular expression takes too long " +
					"(want one with fewer or smaller repetitions, or classes of fewer characters beyond ASCII)")
			}
			problem := "matches(" + strconv.Quote(p.Text) + "): "
			switch bound, tooLarge := err.(regexsize.BoundError); {
			case !p.IsLiteral:
				problem = `the pattern of "matches" is not one text in quotes, so that nothing bounds the time it takes ` +
					`(want one such as matches('^/v[0-9]+/'))`
			case err == nil:
				continue
			case tooLarge:
				problem += bound.Error()
			default:
				problem += "it is not a regular expression: " + strings.TrimPrefix(err.Error(), "error parsing regexp: ") +
					" (want RE2 syntax, such as '^/v[0-9]+/')"
			}
			mistakes = append(mistakes, config.Mistake{Path: e.Path, Problem: problem})
		}
	}
	return mistakes
}

// maxRE2Instructions bounds a regular expression that Envoy compiles with each evaluation,
// by RE2, which works on the bytes of UTF-8. An instruction takes some 0.2 to 0.5 us.
const maxRE2Instructions = 2000

// instructionsOf is about what RE2 compiles to: of characters beyond ASCII each byte is an instruction, and
// each range of them is several. The expression is within regexsize's bounds.
func instructionsOf(re *syntax.Regexp) int {
	n := 0
	switch re.Op {
	case syntax.OpLiteral:
		for _, r := range re.Rune {
			n += utf8.RuneLen(r)
		}
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		n = wideRange
	case syntax.OpCharClass:
		for i := 0; i < len(re.Rune); i += 2 {
			switch first, last := re.Rune[i], re.Rune[i+1]; {
			case last < utf8.RuneSelf:
				n++
			case last-first >= 0x800:
				n += wideRange
			default:
				n += 2
			}
		}
	case syntax.OpConcat:
	default:
		n = 1
	}
	for _, sub := range re.Sub {
		n += instructionsOf(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= re.Min + max(1, re.Max-re.Min)
	}
	return n
}

// wideRange is about what a range of characters takes that spans several leading bytes.
const wideRange = 8

// wantsAbsent reports whether a match takes only requests without a component.
func wantsAbsent(m *config.Match, k *config.Component) bool {
	return slices.ContainsFunc(m.Named(k.Source), func(n config.NamedMatch) bool {
		return n.Name == k.Name && n.Match.Op == config.Present && !n.Match.Present
	})
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
		demands := func(n config.NamedMatch) bool {
			return n.Name == k.Name && (n.Match.Op != config.Present || n.Match.Present)
		}
		catches := func(r config.Rule) bool { return r.Mode == config.Enforce && wantsAbsent(&r.Match, k) }
		if k.HasDefault || explain.Lacking(k) == "" || slices.ContainsFunc(r.Match.Named(k.Source), demands) ||
			slices.ContainsFunc(c.Rules, catches) {
			continue
		}
		all = append(all, k)
	}
	return all
}
