package e2e

import (
	"net/http"
	"strings"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// upgradeSlots is how many requests each of two builds has in flight at once.
const upgradeSlots = 5

// expectSlots fills a concurrency limit from both builds, and wants neither to admit another
// request, and each slot to come back.
func (u *upgrade) expectSlots() {
	u.t.Helper()
	stops := map[string][]func(){}
	for _, url := range u.at("/slots") {
		for range upgradeSlots {
			stops[url] = append(stops[url], hold(u.t, url, "x-user: u", "x-stay: 1"))
		}
	}
	full := tally{http.StatusTooManyRequests: 20}
	expectTally(u.t, "with every slot taken", burst(u.t, 20, 4, u.at("/slots"), "x-user: u"), full)
	for i, url := range u.at("/slots") {
		for _, stop := range stops[url] {
			stop()
		}
		u.awaitHeld(u.t, "{slots|u}:concurrency", (1-i)*upgradeSlots)
		other := u.at("/slots")[1-i]
		for range upgradeSlots { // the other build may use those slots, one after the other
			testenv.Same(u.t, "with slots given back by "+url, get(u.t, other, "x-user: u").status, http.StatusOK)
		}
	}
	u.awaitHeld(u.t, "{slots|u}:concurrency", 0)
}

// leasing is the rule whose leases may end at any time, and give units back.
const leasing = "lease"

// expectRefunds wants both builds to give back what a rejected request was charged, so that
// the whole limit but for the one request that was admitted is there afterwards.
func (u *upgrade) expectRefunds() {
	u.t.Helper()
	expectTally(u.t, "the only one", burst(u.t, 1, 1, u.at("/refund"), "x-user: u", "x-full: 1"), tally{http.StatusOK: 1})
	before := u.snapshot(u.t, leasing)
	const refused = 100
	expectTally(u.t, "rejected by the other rule", burst(u.t, refused, 16, u.at("/refund"), "x-user: u", "x-full: 1"),
		tally{http.StatusTooManyRequests: refused})
	u.awaitSnapshot(u.t, before, leasing) // no request waits for refunds
	expectTally(u.t, "what was left", burst(u.t, exactLimit+refused, 16, u.at("/refund"), "x-user: u"),
		tally{http.StatusOK: exactLimit - 1, http.StatusTooManyRequests: refused + 1})
}

// expectSettlements wants requests that turn out to be free to leave the whole limit, and
// those that count to be counted by both builds together.
func (u *upgrade) expectSettlements() {
	u.t.Helper()
	const parallel = 8
	fail := func(url string, n int) {
		expectTally(u.t, "failed logins at "+url, burst(u.t, n, parallel, []string{url}, "x-user: u", "x-status: 401"),
			tally{http.StatusUnauthorized: n})
	}
	const third = exactLimit / 3
	fail(u.at("/settle")[0], third)
	before := u.snapshot(u.t, leasing)
	counted := strings.Contains(before, u.prefix+"{settle|u}:fixed_window:366d:first=")
	testenv.Same(u.t, "the counter of failed logins", counted, true)
	expectTally(u.t, "free", burst(u.t, exactLimit, parallel, u.at("/settle"), "x-user: u"),
		tally{http.StatusOK: exactLimit})
	u.awaitSnapshot(u.t, before, leasing) // no request waits for settlements
	fail(u.at("/settle")[1], 2*third)
	expectTally(u.t, "after them", burst(u.t, 20, parallel, u.at("/settle"), "x-user: u"),
		tally{http.StatusTooManyRequests: 20})
}
