package convert

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// service is a file of envoyproxy/ratelimit.
// https://github.com/envoyproxy/ratelimit#configuration
type service struct {
	Domain      string
	Descriptors []*descriptor
	at          node
}

type descriptor struct {
	Key, Value     string
	RateLimit      *rateLimit
	Descriptors    []*descriptor
	ShadowMode     bool
	QuotaMode      bool
	ShareThreshold bool
	DetailedMetric bool
	ValueToMetric  bool

	node // its place in the file
}

type rateLimit struct {
	Unit            string
	UnitMultiplier  int64
	RequestsPerUnit int64
	Unlimited       bool
	Name            string
	Replaces        []node
	bucket          object // in place of all this: Envoy's own
}

// seconds are the lengths of the service's units (utils.UnitToDivider). None of them
// follows the calendar.
var seconds = map[string]int64{
	"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 7 * 86400, "month": 30 * 86400, "year": 365 * 86400,
}

// parseServices reads the files of the service: one, or those that a ConfigMap holds.
func parseServices(name string, text []byte) (all []*service, err error) {
	documents, err := parseNodes(name, text)
	if err != nil {
		return nil, fmt.Errorf("not a file of envoyproxy/ratelimit: %w", err)
	}
	for _, n := range documents {
		s := &service{Domain: n.get("domain").text(), Descriptors: descriptors(n), at: n}
		if s.Domain != "" && len(s.Descriptors) > 0 {
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		return nil, errors.New(`not a file of envoyproxy/ratelimit (want "domain" and "descriptors", or a ConfigMap with ` +
			`them)`)
	}
	return all, nil
}

func descriptors(parent node) (all []*descriptor) {
	for _, n := range parent.get("descriptors").each() {
		d := &descriptor{
			Key: n.get("key").text(), Value: n.get("value").text(),
			ShadowMode: n.get("shadow_mode").flag(false), QuotaMode: n.get("quota_mode").flag(false),
			ShareThreshold: n.get("share_threshold").flag(false),
			DetailedMetric: n.get("detailed_metric").flag(false), ValueToMetric: n.get("value_to_metric").flag(false),
			Descriptors: descriptors(n), node: n,
		}
		if limit := n.get("rate_limit"); limit.ok() {
			d.RateLimit = &rateLimit{
				Unit: limit.get("unit").text(), UnitMultiplier: limit.get("unit_multiplier").number(1),
				RequestsPerUnit: limit.get("requests_per_unit").number(0), Unlimited: limit.get("unlimited").flag(false),
				Name: limit.get("name").text(), Replaces: limit.get("replaces").each(),
			}
			for _, r := range d.RateLimit.Replaces {
				r.get("name")
			}
		}
		all = append(all, d)
	}
	return all
}

// wildcard is the prefix of a value such as "abc*".
func (d *descriptor) wildcard() (prefix string, ok bool) {
	return strings.CutSuffix(d.Value, "*")
}

// window is a limit's window.
func (l *rateLimit) window() (string, error) {
	length, ok := seconds[strings.ToLower(l.Unit)]
	if !ok {
		return "", fmt.Errorf("unit %q is unknown", l.Unit)
	}
	length *= max(1, l.UnitMultiplier)
	for _, unit := range []struct {
		name   string
		length int64
	}{{"d", 86400}, {"h", 3600}, {"m", 60}} {
		if length%unit.length == 0 {
			return fmt.Sprintf("%d%s", length/unit.length, unit.name), nil
		}
	}
	return fmt.Sprintf("%ds", length), nil
}

// choice is which descriptor a value leads to, and for which values.
type choice struct {
	*descriptor
	exact    string   // the value, if isExact
	prefix   string   // of the values, if isPrefix
	not      []string // values that lead elsewhere
	notBegin []string // prefixes of values that lead elsewhere
	isExact  bool
	isPrefix bool
}

// any reports whether every value leads there.
func (c *choice) any() bool {
	return !c.isExact && !c.isPrefix && len(c.not) == 0 && len(c.notBegin) == 0
}

// takes reports whether a known value leads there.
func (c *choice) takes(value string) bool {
	begins := func(prefix string) bool { return strings.HasPrefix(value, prefix) }
	if c.isExact {
		return value == c.exact
	}
	return begins(c.prefix) && !slices.Contains(c.not, value) && !slices.ContainsFunc(c.notBegin, begins)
}

// choices are where the values of a key may lead.
func choices(list []*descriptor, key string) (all []choice) {
	var exact, begun []string
	for _, d := range list {
		if _, wild := d.wildcard(); d.Key == key && !wild && d.Value != "" {
			exact = append(exact, d.Value)
		}
	}
	for _, d := range list {
		prefix, wild := d.wildcard()
		switch {
		case d.Key != key:
		case wild:
			c := choice{descriptor: d, prefix: prefix, isPrefix: true, notBegin: slices.Clone(begun)}
			for _, value := range exact {
				if strings.HasPrefix(value, prefix) {
					c.not = append(c.not, value)
				}
			}
			begun = append(begun, prefix)
			all = append(all, c)
		case d.Value != "":
			all = append(all, choice{descriptor: d, exact: d.Value, isExact: true})
		}
	}
	for _, d := range list {
		if d.Key == key && d.Value == "" {
			all = append(all, choice{descriptor: d, not: exact, notBegin: begun})
		}
	}
	return all
}

// leaf is one limit of the service's file, and for which values of the entries it
// holds.
type leaf struct {
	*descriptor
	picks  []choice // parallel to the entries; without a descriptor for static ones
	shares []bool   // the values of an entry count together
}

// leaves are the limits that descriptors with these entries may reach.
func leaves(list []*descriptor, entries []entry, picks []choice, shares []bool) (all []leaf) {
	if len(entries) == 0 {
		return nil
	}
	e := &entries[0]
	reach := func(d *descriptor, pick choice) {
		path := append(slices.Clone(picks), pick)
		shared := append(slices.Clone(shares), d.ShareThreshold)
		if len(entries) > 1 {
			all = append(all, leaves(d.Descriptors, entries[1:], path, shared)...)
		} else if d.RateLimit != nil {
			all = append(all, leaf{d, path, shared})
		}
	}
	for _, pick := range choices(list, e.key) {
		if !e.static {
			reach(pick.descriptor, pick)
		} else if pick.takes(e.value) {
			reach(pick.descriptor, choice{})
		}
	}
	return all
}

// variants are the entries with and without those that may be left out of a
// descriptor.
func (c limiting) variants(entries []entry) (all [][]entry) {
	all = [][]entry{nil}
	for _, e := range entries {
		var next [][]entry
		for _, before := range all {
			next = append(next, append(slices.Clone(before), e))
			if !e.optional {
				continue
			}
			if e.header == "" {
				c.report(Differs, e.at, "skip_if_absent of something other than a header: without it the rule does not apply")
				continue
			}
			if len(before)+1 == len(entries) && len(before) == 0 {
				continue // nothing would be sent
			}
			absent := entry{at: e.at, only: conditions{fields: headerIs(e.header, object{{"present", false}})}}
			next = append(next, append(slices.Clone(before), absent))
		}
		all = next
	}
	return all
}

// sent are the entries that a variant sends, and what must hold for it.
func sent(variant []entry) (entries []entry, only conditions) {
	for _, e := range variant {
		only = only.both(e.only)
		if e.key != "" {
			entries = append(entries, e)
		}
	}
	return entries, only
}
