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
	domain      string
	descriptors []*descriptor
	at          node
}

type descriptor struct {
	key, value  string
	descriptors []*descriptor

	limited bool   // it has a limit
	limit   object // nil if that has no counterpart, or limits nobody
	wrong   error  // why it has no counterpart
	name    string // of the limit

	replaces, shadow, quota, labels bool

	shares bool // its values count together
	node        // its place in the file
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
		s := &service{domain: n.get("domain").text(), descriptors: descriptors(n), at: n}
		if s.domain != "" && len(s.descriptors) > 0 {
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
			key: n.get("key").text(), value: n.get("value").text(), descriptors: descriptors(n), node: n,
			shadow: n.get("shadow_mode").flag(false), quota: n.get("quota_mode").flag(false),
			shares: n.get("share_threshold").flag(false),
		}
		detailed, byValue := n.get("detailed_metric").flag(false), n.get("value_to_metric").flag(false)
		d.labels = detailed || byValue
		if limit := n.get("rate_limit"); limit.ok() {
			d.limited, d.name = true, limit.get("name").text()
			for _, r := range limit.get("replaces").each() {
				r.get("name")
				d.replaces = true
			}
			length, err := window(limit.get("unit").text(), limit.get("unit_multiplier").number(1))
			requests := limit.get("requests_per_unit")
			fixed := fixedWindow(requests.number(0), length)
			switch {
			case limit.get("unlimited").flag(false) || unlimited(requests):
			case err != nil:
				d.wrong = err
			default:
				d.limit = fixed
			}
		}
		all = append(all, d)
	}
	return all
}

// window is the length of some units.
func window(unit string, multiplier int64) (string, error) {
	length, ok := seconds[strings.ToLower(unit)]
	if !ok {
		return "", fmt.Errorf("unit %q is unknown", unit)
	}
	length *= max(1, multiplier)
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

// choice is which descriptor a value leads to, and for which values. Those are a matcher's: a whole
// value, or {"prefix": ...} of one such as "abc*".
type choice struct {
	*descriptor
	is  any   // the values; nil: any
	not []any // values that lead elsewhere
}

// any reports whether every value leads there.
func (c *choice) any() bool { return c.is == nil && len(c.not) == 0 }

// prefix is that of the values; "" if they need none.
func (c *choice) prefix() string {
	matcher, _ := c.is.(object)
	prefix, _ := matcher.get("prefix").(string)
	return prefix
}

// wild reports whether some values are known by their prefix alone.
func (c *choice) wild() bool {
	byPrefix := func(matcher any) bool { _, whole := matcher.(string); return !whole }
	return c.prefix() != "" || slices.ContainsFunc(c.not, byPrefix)
}

// takes reports whether a known value leads there.
func (c *choice) takes(value string) bool {
	fits := func(matcher any) bool { return matches(matcher, value) }
	return (c.is == nil || fits(c.is)) && !slices.ContainsFunc(c.not, fits)
}

// matches reports whether a matcher of a choice has a value.
func matches(matcher any, value string) bool {
	if begin, ok := matcher.(object); ok {
		return strings.HasPrefix(value, begin.get("prefix").(string))
	}
	return matcher == value
}

// choices are where the values of a key may lead.
func choices(list []*descriptor, key string) (all []choice) {
	var exact, begun []any
	for _, d := range list {
		if d.key == key && !strings.HasSuffix(d.value, "*") && d.value != "" {
			exact = append(exact, d.value)
		}
	}
	for _, d := range list {
		prefix, wild := strings.CutSuffix(d.value, "*")
		switch {
		case d.key != key:
		case wild:
			is := object{{"prefix", prefix}}
			others := func(value any) bool { return !matches(is, value.(string)) }
			not := append(slices.DeleteFunc(slices.Clone(exact), others), begun...)
			all, begun = append(all, choice{d, is, not}), append(begun, is)
		case d.value != "":
			all = append(all, choice{descriptor: d, is: d.value})
		}
	}
	for _, d := range list {
		if d.key == key && d.value == "" {
			all = append(all, choice{descriptor: d, not: slices.Concat(exact, begun)})
		}
	}
	return all
}

// leaf is one limit of the service's file, and for which values of the entries it
// holds.
type leaf struct {
	*descriptor
	picks []choice // parallel to the entries; without a descriptor for static ones
}

// leaves are the limits that descriptors with these entries may reach.
func leaves(list []*descriptor, entries []entry, picks []choice) (all []leaf) {
	if len(entries) == 0 {
		return nil
	}
	e := &entries[0]
	reach := func(d *descriptor, pick choice) {
		path := append(slices.Clone(picks), pick)
		if len(entries) > 1 {
			all = append(all, leaves(d.descriptors, entries[1:], path)...)
		} else if d.limited {
			all = append(all, leaf{d, path})
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
			if e.field == "" {
				c.report(Differs, e.at, "skip_if_absent of something other than a header or a query parameter: "+
					"without it the rule does not apply")
				continue
			}
			if len(entries) == 1 {
				continue // nothing would be sent
			}
			absent := entry{at: e.at, only: conditions{fields: e.is(object{{"present", false}})}}
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
