package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/plugin/rule"
)

// maxWarned bounds what a VM remembers to have warned of.
const maxWarned = 1000

// warnMissing says once in a VM that an attribute which a rule needs has never been
// there: most likely the filters are in an order that cannot work. A new
// configuration is no reason to repeat it.
func (v *vm) warnMissing(a *rule.Attribute) {
	if a == nil {
		return
	}
	text := missingText(a)
	if v.warned[text] || len(v.warned) == maxWarned {
		return
	}
	v.warned[text] = true
	v.host.logLine(logWarn, text)
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
