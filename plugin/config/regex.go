package config

import (
	"errors"
	"regexp"
	"strings"

	"github.com/sluiceproxy/sluice/plugin/config/regexsize"
)

// readRegex compiles a regular expression in RE2's syntax.
func readRegex(v value) (*regexp.Regexp, string) {
	text, ok := v.readNonEmpty("a regular expression")
	if !ok {
		return nil, ""
	}
	compiled, err := regexsize.Compile(text)
	var bound regexsize.BoundError
	switch {
	case errors.As(err, &bound):
		v.mistake("%v", bound)
	case err != nil:
		v.mistake(`%s is not a regular expression: %s (want RE2 syntax, such as "^/v[0-9]+/")`,
			v.shown(), strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	default:
		return compiled, text
	}
	return nil, ""
}
