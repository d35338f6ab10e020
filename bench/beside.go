package main

import "slices"

// before is the setup of another build of the plugin, in which sluice is.
const before = "sluice-before"

// beside are the setups that compare two builds of the plugin.
func beside(file string) []*setup {
	kept := choose(func(s *setup) bool { return slices.Contains([]string{unlimited, sluice, settled}, s.id) })
	return append(kept, &setup{
		id: before, title: "Sluice, Redis, before", status: 200, edit: usual.and(builtAs(file)),
	})
}

// besideGoals hold a build against the one before: neither slower nor dearer.
func (r *report) besideGoals() []goal {
	all := r.Results
	return []goal{
		newGoal("Requests/s, now / before", all.ratio(sluice, before, mainLoad, requestsPerSecond), true, 1, 3),
		newGoal("Requests/s at 64 connections, now / before", all.ratio(sluice, before, crowdLoad, requestsPerSecond),
			true, 1, 3),
		newGoal("Envoy's CPU a request, now / before", all.ratio(sluice, before, mainLoad, envoyCPU), false, 1, 3),
		newGoal("Redis' CPU a request, now / before", all.ratio(sluice, before, mainLoad, redisCPU), false, 1, 3),
		newGoal("CPU µs of settling every request", all.checks(minus, settled, sluice, mainLoad), false, 4, 1),
		newGoal("Writes to Redis for settling, a request", all.moreReads(), false, 0.1, 3),
		newGoal("p50, now / before", all.ratio(sluice, before, latencyLoad, p50), false, 1, 3),
	}
}
