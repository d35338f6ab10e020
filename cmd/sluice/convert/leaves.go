package convert

import "slices"

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
