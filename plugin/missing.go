package main

import (
	"slices"
	"strconv"

	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// maxSaid bounds what a VM remembers to have said.
const maxSaid = 1000

// notices is what a VM says once, whichever of its configurations says it.
type notices struct {
	host host
	said map[string]bool
}

func newNotices(h host) notices { return notices{host: h, said: map[string]bool{}} }

// warnMissing warns once in a VM that no request had an attribute which a rule needs:
// most likely the filters are in an order that cannot work. A new configuration does
// not repeat the warning.
func (n *notices) warnMissing(a *rule.Attribute) {
	if a != nil {
		n.sayOnce(logWarn, missingText(a))
	}
}

// tellSkipped says for each rule what requests it is skipped for, as a key that is
// absent is easily taken for one that is counted as empty.
func (n *notices) tellSkipped(cfg *config.Config) {
	for _, m := range cfg.Skipped() {
		n.sayOnce(logInfo, "sluice: "+m.Problem)
	}
}

// sayOnce logs a line that this VM has not logged before.
func (n *notices) sayOnce(level logLevel, text string) {
	if n.said[text] || len(n.said) == maxSaid {
		return
	}
	n.said[text] = true
	n.host.logLine(level, text)
}

func missingText(a *rule.Attribute) string {
	kind, path := "property", a.Path
	if metadata := []string{"metadata", "filter_metadata"}; len(path) > 2 && slices.Equal(path[:2], metadata) {
		kind, path = "metadata", path[2:]
	}
	return "sluice: rule " + strconv.Quote(a.Rule.Name) + " does not apply without the " + kind + " " + config.PathText(path) +
		", which no request has had so far (does the filter that sets it stand before Sluice?)"
}
