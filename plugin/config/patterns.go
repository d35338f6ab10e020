package config

import (
	"strings"

	"github.com/sluiceproxy/sluice/plugin/config/celtext"
	"github.com/sluiceproxy/sluice/plugin/config/regexsize"
)

// checkPatterns reports the regular expressions of an expression that take too long:
// Envoy compiles each anew whenever it evaluates the expression. So one that is not in
// the text, but comes from the request perhaps, is a mistake as well.
func (v value) checkPatterns(expr string) {
	for _, p := range celtext.Patterns(expr) {
		if !p.IsLiteral {
			v.mistake(`the pattern of "matches" is not one text in quotes, so that nothing bounds the time it takes ` +
				`(want one such as matches('^/v[0-9]+/'))`)
			continue
		}
		err := regexsize.CheckRE2(p.Text)
		bound, isBound := err.(regexsize.BoundError)
		switch {
		case isBound:
			v.mistake("matches(%s): %v", quoted(p.Text), bound)
		case err != nil:
			v.mistake(`matches(%s): it is not a regular expression: %s (want RE2 syntax, such as '^/v[0-9]+/')`,
				quoted(p.Text), strings.TrimPrefix(err.Error(), "error parsing regexp: "))
		}
	}
}

// readRegex reads a regular expression in RE2's syntax, which compiles.
func readRegex(v value) string {
	text, ok := v.readNonEmpty("a regular expression")
	if !ok {
		return ""
	}
	err := regexsize.Check(text)
	bound, isBound := err.(regexsize.BoundError)
	switch {
	case isBound:
		v.mistake("%v", bound)
	case err != nil:
		v.mistake(`%s is not a regular expression: %s (want RE2 syntax, such as "^/v[0-9]+/")`,
			v.shown(), strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	return text
}
