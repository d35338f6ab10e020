package slots

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sluiceproxy/sluice/plugin/rule"
)

// TestPortions: however many slots there are, no step renews more than a portion, and
// each slot is renewed at least every third of its ttl all the same; in a hurry each
// soon, and once.
func TestPortions(t *testing.T) {
	t.Parallel()
	const shortest = 5000 * ms
	for _, c := range []struct {
		name       string
		ttl        []int64 // of the sets of limits
		identities int64   // of each list
		slots      int64   // altogether
	}{
		{name: "one identity", ttl: []int64{shortest}, identities: 1, slots: 10_000},
		{name: "many identities", ttl: []int64{ttl}, identities: 5000, slots: 10_000},
		{name: "several sets", ttl: []int64{shortest, ttl, 0, shortest}, identities: 20, slots: 20_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(5, 6))
			late := func() int64 { return random.Int64N(8 * ms) }
			b, r := New(c.ttl, 1), &renewals{at: map[int64][]int64{}, calls: map[string]int{}}
			sets := map[int64]rule.LimitSetID{}
			for nonce := range c.slots {
				set := rule.LimitSetID(int(nonce) % len(c.ttl))
				if c.ttl[set] == 0 {
					continue
				}
				sets[nonce] = set
				s := &Slot{Nonce: nonce, Slots: 1}
				b.Occupy(s, set, fmt.Appendf(nil, "r|%d", nonce/7%c.identities), false, 0)
			}
			end := int64(2 * ttl)
			r.run(b, end, late)
			for nonce, set := range sets {
				last := int64(0)
				for _, at := range append(r.at[nonce], end) {
					if at-last > c.ttl[set]/3 {
						t.Fatalf("slot %d was renewed %d ms after the last time", nonce, (at-last)/ms)
					}
					last = at
				}
			}
			r.at = map[int64][]int64{}
			b.Hurry()
			r.run(b, end+600*ms, late)
			if len(r.at) != len(sets) {
				t.Errorf("%d of %d slots were renewed in a hurry", len(r.at), len(sets))
			}
			if r.most != Portion {
				t.Errorf("%d slots were renewed at once, want at most %d, and that", r.most, Portion)
			}
		})
	}
}
