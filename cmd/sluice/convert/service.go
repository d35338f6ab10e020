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
func parseServices(file File) (all []*service, err error) {
	documents, err := parseNodes(file)
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
		is := func(name string) bool { return n.get(name).flag(false) }
		d := &descriptor{
			key: n.get("key").text(), value: n.get("value").text(), descriptors: descriptors(n), node: n,
			shadow: is("shadow_mode"), quota: is("quota_mode"), shares: is("share_threshold"),
		}
		detailed, byValue := is("detailed_metric"), is("value_to_metric")
		d.labels = detailed || byValue
		limit := n.get("rate_limit")
		d.limited, d.name = limit.ok(), limit.get("name").text()
		for _, r := range limit.get("replaces").each() {
			r.get("name")
			d.replaces = true
		}
		requests := limit.get("requests_per_unit")
		length, err := window(limit.get("unit").text(), limit.get("unit_multiplier").number(1))
		if d.limited && !limit.get("unlimited").flag(false) && !unlimited(requests) {
			if d.wrong = err; err == nil {
				d.limit = limitOf("fixed_window", requests.number(0), length)
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
	for _, name := range []string{"day", "hour", "minute"} {
		if length%seconds[name] == 0 {
			return fmt.Sprintf("%d%c", length/seconds[name], name[0]), nil
		}
	}
	return fmt.Sprintf("%ds", length), nil
}

// choice is which descriptor a value leads to, and for which values. These are patterns as the service has
// them: a whole value, or the beginning of one, such as "abc*".
type choice struct {
	*descriptor
	is  string   // the values; "": any
	not []string // values that lead elsewhere
}

// any reports whether every value leads there.
func (c *choice) any() bool { return c.is == "" && len(c.not) == 0 }

// exact is the only value; "" if there are more.
func (c *choice) exact() string {
	if isWild(c.is) {
		return ""
	}
	return c.is
}

// wild reports whether some values are known by their prefix alone.
func (c *choice) wild() bool {
	return isWild(c.is) && c.is != "*" || slices.ContainsFunc(c.not, isWild)
}

func isWild(pattern string) bool { return strings.HasSuffix(pattern, "*") }

func matches(pattern, value string) bool {
	prefix, wild := strings.CutSuffix(pattern, "*")
	return pattern == value || wild && strings.HasPrefix(value, prefix)
}

// matcher is a pattern as a match has it.
func matcher(pattern string) any {
	if prefix, wild := strings.CutSuffix(pattern, "*"); wild {
		return object{{"prefix", prefix}}
	}
	return pattern
}

// choices are where the values of a key may lead.
func choices(list []*descriptor, key string) (all []choice) {
	var exact, begun []string
	list = slices.DeleteFunc(slices.Clone(list), func(d *descriptor) bool { return d.key != key })
	for _, d := range list {
		if d.value != "" && !isWild(d.value) {
			exact = append(exact, d.value)
		}
	}
	for _, d := range list {
		if isWild(d.value) {
			others := func(value string) bool { return !matches(d.value, value) }
			not := append(slices.DeleteFunc(slices.Clone(exact), others), begun...)
			all, begun = append(all, choice{d, d.value, not}), append(begun, d.value)
		} else if d.value != "" {
			all = append(all, choice{d, d.value, nil})
		}
	}
	for _, d := range list {
		if d.value == "" {
			all = append(all, choice{d, "", slices.Concat(exact, begun)})
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
	for _, pick := range choices(list, e.key) {
		d := pick.descriptor
		if e.static {
			fits := func(pattern string) bool { return matches(pattern, e.value) }
			if pick.is != "" && !fits(pick.is) || slices.ContainsFunc(pick.not, fits) {
				continue
			}
			pick = choice{}
		}
		path := append(slices.Clone(picks), pick)
		if len(entries) > 1 {
			all = append(all, leaves(d.descriptors, entries[1:], path)...)
		} else if d.limited {
			all = append(all, leaf{d, path})
		}
	}
	return all
}

// variant is what a rate limit sends of some requests, and their match.
type variant struct {
	entries []entry
	only    object
}

// variants are the entries with and without those that may be left out of a
// descriptor.
func (c *converter) variants(entries []entry) []variant {
	all := []variant{{}}
	for _, e := range entries {
		var next []variant
		c.reportIf(e.optional && e.field == "", Differs, e.at,
			"skip_if_absent of something other than a header or a query parameter: without it the rule does not apply")
		for _, v := range all {
			with := v.entries
			if e.key != "" {
				with = append(slices.Clone(with), e)
			}
			next = append(next, variant{with, v.only.both(e.only)})
			if e.optional && e.field != "" && len(entries) > 1 { // else nothing would be sent
				next = append(next, variant{v.entries, v.only.both(e.is(object{{"present", false}}))})
			}
		}
		all = next
	}
	return all
}
