package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// maxWarned bounds what a VM remembers to have warned of.
const maxWarned = 1000

// warnMissing says once in a VM that an attribute which a rule needs has never been
// there: most likely the filters are in an order that cannot work. A new
// configuration is no reason to repeat it.
func (v *vm) warnMissing(a *rule.Attribute) {
	if a != nil {
		v.sayOnce(logWarn, missingText(a))
	}
}

// tellSkipped says for each rule what requests it is skipped for, as a key that is
// absent is easily taken for one that is counted as empty.
func (v *vm) tellSkipped(cfg *config.Config) {
	for i := range cfg.Rules {
		r := &cfg.Rules[i]
		if lacks := cfg.MayLack(r); len(lacks) > 0 {
			v.sayOnce(logInfo, skippedText(r.Name, lacks))
		}
	}
}

func skippedText(name string, lacks []*config.Component) string {
	sources := make([]string, len(lacks))
	for i, c := range lacks {
		sources[i] = sourceText(c)
	}
	return "sluice: rule " + strconv.Quote(name) + ": without " + strings.Join(sources, " or ") +
		` the rule is skipped: the request is not limited by it (a "default" in the key, or a rule for such requests, limits them)`
}

func sourceText(c *config.Component) string {
	switch c.Source {
	case config.FromHeader:
		return "the header " + strconv.Quote(c.Name)
	case config.FromCookie:
		return "the cookie " + strconv.Quote(c.Name)
	case config.FromQuery:
		return "the query parameter " + strconv.Quote(c.Name)
	case config.FromMetadata:
		return "the metadata " + pathText(c.Path)
	case config.FromProperty:
		return "the property " + pathText(c.Path)
	}
	return "a value of its expression"
}

// sayOnce logs a line that this VM has not logged before.
func (v *vm) sayOnce(level logLevel, text string) {
	if v.warned[text] || len(v.warned) == maxWarned {
		return
	}
	v.warned[text] = true
	v.host.logLine(level, text)
}

func missingText(a *rule.Attribute) string {
	kind, path := "property", a.Path
	if metadata := []string{"metadata", "filter_metadata"}; len(path) > 2 && slices.Equal(path[:2], metadata) {
		kind, path = "metadata", path[2:]
	}
	return "sluice: rule " + strconv.Quote(a.Rule.Name) + " does not apply without the " + kind + " " + pathText(path) +
		", which no request has had so far (does the filter that sets it stand before Sluice?)"
}

func pathText(path []string) string {
	quoted := make([]string, len(path))
	for i := range path {
		quoted[i] = strconv.Quote(path[i])
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
