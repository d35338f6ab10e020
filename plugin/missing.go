package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/plugin/rule"
)

// warned is what this VM has been warned of: a reload is no reason to repeat it.
var warned = map[string]bool{}

const maxWarned = 1000

// warnMissing says once that an attribute which a rule needs has never been there:
// most likely the filters are in an order that cannot work.
func warnMissing(a *rule.Attribute) {
	if a == nil {
		return
	}
	text := missingText(a)
	if warned[text] || len(warned) == maxWarned {
		return
	}
	warned[text] = true
	logLine(logWarn, text)
}

func missingText(a *rule.Attribute) string {
	kind, path := "property", a.Path
	if metadata := []string{"metadata", "filter_metadata"}; len(path) > 2 && slices.Equal(path[:2], metadata) {
		kind, path = "metadata", path[2:]
	}
	quoted := make([]string, len(path))
	for i := range path {
		quoted[i] = strconv.Quote(path[i])
	}
	return "sluice: rule " + strconv.Quote(a.Rule.Name) + " does not apply without the " + kind + " [" + strings.Join(quoted, ", ") +
		"], which no request has had so far (does the filter that sets it stand before Sluice?)"
}
