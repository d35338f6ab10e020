// Package advice says what of a valid configuration is probably not meant, and bounds the patterns in
// its expressions: what "sluice validate" and the webhook know beyond what the plugin refuses.
package advice

import (
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

// Notes are what is easily overlooked. They are no mistakes.
func Notes(c *config.Config) []config.Mistake {
	return slices.Concat(skipped(c), oddQuotas(c), afresh(c), readsPath(c))
}

// Patterns are the regular expressions in a configuration's expressions that take too long: Envoy
// compiles each anew whenever it evaluates the expression. So one that is not in the text, but comes
// from the request perhaps, is a mistake as well.
func Patterns(c *config.Config) (mistakes config.Mistakes) {
	for _, e := range c.Expressions {
		for _, p := range envoycel.Patterns(e.Text) {
			err := regexsize.Check(p.Text)
			if err == nil && re2Instructions(p.Text) > maxRE2Instructions {
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

// re2Instructions is about what RE2 compiles to: of characters beyond ASCII each byte is
// an instruction, and each range of them is several. The expression is within regexsize's bounds.
func re2Instructions(expression string) int {
	tree, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return 0
	}
	return instructionsOf(tree)
}

func instructionsOf(re *syntax.Regexp) int {
	n := 1
	switch re.Op {
	case syntax.OpLiteral:
		n = 0
		for _, r := range re.Rune {
			n += utf8.RuneLen(r)
		}
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		n = wideRange
	case syntax.OpCharClass:
		n = 0
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
		n = 0
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

// pathAttributes are how an expression reads the path, which no one has
// normalised for it, with single quotes and without spaces.
var pathAttributes = []string{"request.path", "request.url_path", "request['path']", "request['url_path']", "':path'"}

// readsPath says which expressions read the path: Envoy has it as the client wrote it, which is not what
// rules compare.
func readsPath(c *config.Config) (notes []config.Mistake) {
	for _, e := range c.Expressions {
		if reads(e.Text, pathAttributes) {
			notes = append(notes, config.Mistake{
				Path: e.Path,
				Problem: e.Path + `: reads the path as the client wrote it, in any spelling (the matcher "path" reads it as ` +
					`upstreams do)`,
			})
		}
	}
	return notes
}

// reads reports whether an expression has one of some texts, in quotes or not. It may be wrong about
// texts in quotes.
func reads(expr string, attributes []string) bool {
	text := strings.NewReplacer(`"`, "'", " ", "", "\t", "", "\r", "", "\n", "").Replace(expr)
	return slices.ContainsFunc(attributes, func(a string) bool { return strings.Contains(text, a) })
}

// oddQuotas says which listed rules identify by an expression that reads the request line: what
// callers read is then another identity's. It is not a mistake.
func oddQuotas(c *config.Config) (notes []config.Mistake) {
	if c.Quota == nil {
		return nil
	}
	for i, place := range c.Quota.Rules {
		for _, component := range c.Rules[place].Identify() {
			if reads(component.Expr, pathAttributes) || reads(component.Expr, lineAttributes) {
				notes = append(notes, config.Mistake{
					Path: "quota.rules[" + strconv.Itoa(i) + "]",
					Problem: "rule " + strconv.Quote(c.Rules[place].Name) + " identifies by an expression that reads the path, the " +
						"method or the query: those of a request for the quota are its own, so that callers may read another identity's",
				})
				break
			}
		}
	}
	return notes
}

// lineAttributes are how an expression reads the rest of the request line, written as pathAttributes
// are.
var lineAttributes = []string{
	"request.method", "request.query", "request['method']", "request['query']", "':method'",
}

// afresh says where limits with "per" stand without one that has none: who makes values up
// begins afresh with each. It is not a mistake.
func afresh(c *config.Config) (notes []config.Mistake) {
	for i := range c.Rules {
		r, path := &c.Rules[i], "rules["+strconv.Itoa(i)+"]"
		for at, limits := range r.Lists {
			if r.Mode == config.Off || slices.ContainsFunc(limits, func(l config.Limit) bool { return l.Per == nil }) {
				continue
			}
			notes = append(notes, config.Mistake{
				Path: path + at,
				Problem: "rule " + strconv.Quote(r.Name) + `: every limit has "per": who makes values up begins afresh ` +
					`with each (a limit without "per" bounds them all)`,
			})
		}
	}
	return notes
}

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
			sources[k] = explain.Lacking(component)
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
		lacks := func(n config.NamedMatch) bool {
			return n.Name == k.Name && n.Match.Op == config.Present && !n.Match.Present
		}
		catches := func(r config.Rule) bool {
			return r.Mode == config.Enforce && slices.ContainsFunc(r.Match.Named(k.Source), lacks)
		}
		if k.HasDefault || explain.Lacking(k) == "" || slices.ContainsFunc(r.Match.Named(k.Source), demands) ||
			slices.ContainsFunc(c.Rules, catches) {
			continue
		}
		all = append(all, k)
	}
	return all
}
