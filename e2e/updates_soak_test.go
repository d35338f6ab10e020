//go:build soak

package e2e

import (
	"testing"
	"time"
)

// updatesGrowthKB is how much more memory Envoy may hold at the end of a storm of
// updates than after its first quarter, in which its heaps find their size.
const updatesGrowthKB = 60_000

// TestUpdatesSoak is a thousand updates at several rates.
func TestUpdatesSoak(t *testing.T) {
	for _, st := range []storm{
		{rules: 200, updates: 400, every: 50 * time.Millisecond, streams: 20},
		{rules: 200, updates: 300, every: 130 * time.Millisecond, streams: 20},
		{rules: 200, updates: 200, every: 250 * time.Millisecond, streams: 20},
		{rules: 200, updates: 100, every: 600 * time.Millisecond, streams: 20},
	} {
		t.Run(st.every.String(), func(t *testing.T) {
			seen := st.run(t)
			t.Logf("%d updates: %+v", st.updates, seen)
			if grown := seen.finalKB - seen.settledKB; grown > updatesGrowthKB {
				t.Errorf("Envoy holds %d KB more than after a quarter of the updates, want %d at most", grown, updatesGrowthKB)
			}
			if most := 2 * (2 + st.streams); seen.connections > most {
				t.Errorf("%d connections to Redis, want %d at most", seen.connections, most)
			}
		})
	}
}
