package main

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// minutes is a step as it is written: since the one before, and by how much the
// offset changes.
type minutes struct{ since, change int64 }

// encode writes the zones in the form that plugin/calendar documents. Zones that
// have done the same since 1988 are written once.
func encode(release string, zones []zone) ([]byte, error) {
	zones = slices.SortedFunc(slices.Values(zones), func(a, b zone) int { return cmp.Compare(a.name, b.name) })
	counts := map[minutes]int{}
	for i := range zones {
		for _, m := range zones[i].minutes() {
			counts[m]++
		}
	}
	steps := slices.SortedFunc(maps.Keys(counts), func(a, b minutes) int {
		return cmp.Or(counts[b]-counts[a], cmp.Compare(a.since, b.since), cmp.Compare(a.change, b.change))
	})
	dst := append([]byte(release), '\n')
	dst = binary.AppendUvarint(dst, uint64(len(steps)))
	places := map[minutes]int{}
	for i, m := range steps {
		places[m] = i
		dst = binary.AppendUvarint(dst, uint64(m.since))
		dst = binary.AppendVarint(dst, m.change)
	}
	var bodies []string
	placeOf := map[string]int{}
	of := make([]int, len(zones))
	for i := range zones {
		body, err := zones[i].encode(places)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", zones[i].name, err)
		}
		place, known := placeOf[body]
		if !known {
			place = len(bodies)
			placeOf[body], bodies = place, append(bodies, body)
		}
		of[i] = place
	}
	dst = binary.AppendUvarint(dst, uint64(len(bodies)))
	for _, body := range bodies {
		dst = append(binary.AppendUvarint(dst, uint64(len(body))), body...)
	}
	return appendNames(dst, zones, of), nil
}

// appendNames appends the names, and which of the bodies each has.
func appendNames(dst []byte, zones []zone, of []int) []byte {
	before := ""
	for i := range zones {
		name, shared := zones[i].name, 0
		for shared < min(len(name), len(before)) && name[shared] == before[shared] {
			shared++
		}
		dst = binary.AppendUvarint(dst, uint64(shared))
		dst = binary.AppendUvarint(dst, uint64(len(name)-shared))
		dst = append(dst, name[shared:]...)
		dst = binary.AppendUvarint(dst, uint64(of[i]))
		before = name
	}
	return dst
}

// encode writes all but the name.
func (z *zone) encode(places map[minutes]int) (string, error) {
	dst := binary.AppendVarint(nil, z.first/60)
	if z.first%60 != 0 {
		return "", fmt.Errorf("an offset of %d s (want whole minutes)", z.first)
	}
	for _, s := range z.steps {
		if s.at%60 != 0 || s.offset%60 != 0 {
			return "", fmt.Errorf("an offset of %d s at %d (want whole minutes)", s.offset, s.at)
		}
	}
	list := z.minutes()
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for _, m := range list {
		dst = binary.AppendUvarint(dst, uint64(places[m]))
	}
	return appendRule(dst, z.rule)
}

// minutes are the steps that change something, and the last, from which on the rule
// holds.
func (z *zone) minutes() (list []minutes) {
	before := step{firstSecond, z.first}
	for i, s := range z.steps {
		if s.offset == before.offset && i < len(z.steps)-1 {
			continue
		}
		list = append(list, minutes{(s.at - before.at) / 60, (s.offset - before.offset) / 60})
		before = s
	}
	return list
}

// tz is POSIX' TZ of a zone with daylight saving time, as zic writes it: RFC 9636
// section 3.3.1. Without that, nothing follows the first offset.
var tz = regexp.MustCompile(`^(?:[A-Za-z]+|<[^>]+>)([-+0-9:]+)(?:(?:[A-Za-z]+|<[^>]+>)([-+0-9:]*),(.+),(.+))?$`)

var yearly = regexp.MustCompile(`^M(\d+)\.(\d)\.(\d)(?:/([-+0-9:]+))?$`)

// appendRule appends a zone's rule, nothing if it keeps its offset.
func appendRule(dst []byte, text string) (string, error) {
	found := tz.FindStringSubmatch(text)
	if found == nil {
		return "", fmt.Errorf("a rule of another form: %q", text)
	}
	if found[3] == "" {
		return string(dst), nil
	}
	standard, err := minutesOf(found[1])
	if err != nil {
		return "", err
	}
	daylight := standard - 60 // west of UTC, as TZ has it
	if found[2] != "" {
		if daylight, err = minutesOf(found[2]); err != nil {
			return "", err
		}
	}
	dst = binary.AppendVarint(binary.AppendVarint(dst, -standard), -daylight)
	for _, part := range found[3:] {
		if dst, err = appendYearly(dst, part); err != nil {
			return "", err
		}
	}
	return string(dst), nil
}

// appendYearly appends a moment of each year.
func appendYearly(dst []byte, text string) ([]byte, error) {
	found := yearly.FindStringSubmatch(text)
	if found == nil {
		return nil, fmt.Errorf("a moment of the year of another form: %q", text)
	}
	for _, digits := range found[1:4] {
		n, err := strconv.ParseUint(digits, 10, 8)
		if err != nil {
			return nil, err
		}
		dst = binary.AppendUvarint(dst, n)
	}
	if found[4] == "" {
		return binary.AppendVarint(dst, 120), nil // 02:00
	}
	at, err := minutesOf(found[4])
	return binary.AppendVarint(dst, at), err
}

// minutesOf reads "-3:30".
func minutesOf(text string) (int64, error) {
	unsigned := strings.TrimLeft(text, "+-")
	hours, rest, _ := strings.Cut(unsigned, ":")
	h, err := strconv.ParseInt(hours, 10, 16)
	if err != nil {
		return 0, err
	}
	m := int64(0)
	if rest != "" {
		if m, err = strconv.ParseInt(rest, 10, 8); err != nil {
			return 0, err
		}
	}
	if strings.HasPrefix(text, "-") {
		return -(h*60 + m), nil
	}
	return h*60 + m, nil
}
