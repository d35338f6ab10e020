package config

import "github.com/sluiceproxy/sluice/algo"

// Words, most at the place of the constant for which they stand. Messages name them in
// this order.
var (
	modes        = []string{Enforce: "enforce", Shadow: "shadow", Off: "off"}
	failureModes = []string{FailAllow: "allow", FailDeny: "deny", FailLocal: "local"}
	periods      = []string{Day: "day", Week: "week", Month: "month", Year: "year"}
	weekdays     = []string{"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}
	families     = []string{"x-ratelimit", "draft"}
	algorithms   = algorithmNames(func(algo.Algorithm) bool { return true })
)

// algorithmNames are those of which something holds.
func algorithmNames(holds func(algo.Algorithm) bool) (names []string) {
	for _, a := range algo.Algorithms() {
		if holds(a) {
			names = append(names, a.String())
		}
	}
	return names
}
