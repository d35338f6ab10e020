package config

import (
	"strings"

	"github.com/sluiceproxy/sluice/plugin/config/regexsize"
)

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
