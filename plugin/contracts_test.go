package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// Contracts: tiers that overrides name, which a worker may not know when the request comes.

// pursePlaces are orders of a purse, and of two rules that charge it and have tiers.
var pursePlaces = map[string][]string{
	"the purse first": {"credits", "one", "two"}, "between": {"one", "credits", "two"}, "last": {"one", "two", "credits"},
}

// TestTiersAndPurses: each rule takes the tier of its own that the override names, wherever a purse stands, and
// so does the purse.
func TestTiersAndPurses(t *testing.T) {
	t.Parallel()
	const tiered = `{"name": %q, %s "overrides": true, "key": [{"header": "x-client"}], "limits_by": {
		"source": {"header": "x-plan"}, "default": "free", "values": {
		"free": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": %d, "window": "1h"}],
		"pro": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": %d, "window": "1h"}]}}}`
	rules := map[string]string{
		"one":     fmt.Sprintf(tiered, "one", `"over": {"charge": "credits"},`, 1, 3),
		"two":     fmt.Sprintf(tiered, "two", `"over": {"charge": "credits"},`, 2, 4),
		"credits": fmt.Sprintf(tiered, "credits", `"only": "over",`, 1, 2),
	}
	for place, order := range pursePlaces {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			eachWorld(t, func(t *testing.T, w *worker) {
				r := w.startRedis()
				i := w.load(withRedis(rules[order[0]] + "," + rules[order[1]] + "," + rules[order[2]]))
				for name := range rules {
					r.override("rl:{"+name+"|x}:override", "tier:pro", 0)
				}
				var got []string
				for range 6 {
					x := i.get("/", client("x")...)
					for range 3 {
						r.settle()
					}
					got = append(got, x.end().Outcome)
				}
				testenv.Same(t, "outcomes", strings.Join(got, " "), "allowed allowed allowed over:one over:one limited:credits")
			})
		})
	}
}
