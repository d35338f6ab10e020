package live

import (
	"fmt"
	"slices"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
)

// summary says in words when the identity may go again.
func summary(override *Override, penalty *Penalty, limits []Status) string {
	switch {
	case override != nil && override.Value == "block":
		return "It is blocked" + lasting(override) + "."
	case override != nil && override.Value == "free":
		return "It is free of limits" + lasting(override) + "."
	case penalty != nil && penalty.ForMicros > 0:
		return "Its penalty blocks it for another " + console.Wait(penalty.ForMicros) + "."
	case len(limits) == 0:
		return "It has no limits."
	}
	if slices.ContainsFunc(limits, func(l Status) bool { return l.Tier != limits[0].Tier }) {
		return "Which limits apply depends on its tier: --tier."
	}
	for _, l := range limits {
		if l.RetryMicros < 0 {
			return fmt.Sprintf("It may never go: %q admits nothing.", l.Name)
		}
	}
	return again(limits)
}

// again says when limits have room. A slot is free when a request ends, which no clock knows.
func again(limits []Status) string {
	longest, slots := Status{}, ""
	for _, l := range limits {
		switch {
		case l.RetryMicros > 0 && l.Window == "":
			slots = l.Name
		case l.RetryMicros > longest.RetryMicros:
			longest = l
		}
	}
	in := fmt.Sprintf("in %s, when %q has room", console.Wait(longest.RetryMicros), longest.Name)
	switch {
	case slots != "" && longest.RetryMicros > 0:
		return fmt.Sprintf("It may go again %s, if one of its requests has ended by then: %q has no slot.", in, slots)
	case slots != "":
		return fmt.Sprintf("It may go again when one of its requests has ended: %q has no slot.", slots)
	case longest.RetryMicros > 0:
		return "It may go again " + in + "."
	}
	return "It may go now."
}

func lasting(o *Override) string {
	if o.ForMicros < 0 {
		return ", without end"
	}
	return " for another " + console.Wait(o.ForMicros)
}

func statusRows(limits []Status) [][]string {
	head := []string{"LIMIT", "USED", "REMAINING", "RESET IN", "WHAT"}
	tiers := limits[0].Tier != ""
	if tiers {
		head = append([]string{"TIER"}, head...)
	}
	rows := [][]string{head}
	for _, l := range limits {
		what := console.Limit(l.Algorithm, l.Limit.Limit, l.Capacity, l.Window, l.Unit)
		name := l.Name
		if l.Per != "" {
			name += " of " + console.Identity(l.Per)
		}
		row := []string{name, console.Whole(l.Used), console.Whole(l.Remaining), console.Wait(l.ResetMicros), what}
		if tiers {
			row = append([]string{l.Tier}, row...)
		}
		rows = append(rows, row)
	}
	return rows
}
