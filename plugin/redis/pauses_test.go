package redis

import (
	"math/rand/v2"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// Pauses stay within their bounds wherever these are, and differ by worker.
func TestPauses(t *testing.T) {
	t.Parallel()
	for _, bounds := range [][2]int64{
		{1 * ms, 1 * ms},
		{1, 1},
		{1 * ms, 1*ms + 1},
		{100 * ms, 150 * ms},
		{1 * ms, 86_400_000 * ms},
	} {
		for seed := range uint64(50) {
			p := pauses{shortestMicros: bounds[0], longestMicros: bounds[1], random: rand.NewPCG(seed, 0)}
			for range 40 {
				if pause := p.next(); pause < bounds[0] || pause > bounds[1] {
					t.Fatalf("pause %d outside %v", pause, bounds)
				}
			}
			p.reset()
			if pause := p.next(); pause > bounds[0]*5/4 {
				t.Fatalf("the first pause is %d, of %v", pause, bounds)
			}
		}
	}
	first := map[int64]bool{}
	for seed := range uint64(100) {
		p := pauses{shortestMicros: 100 * ms, longestMicros: 10_000 * ms, random: rand.NewPCG(seed, 0)}
		first[p.next()] = true
	}
	if len(first) < 90 {
		t.Errorf("100 workers have %d first pauses", len(first))
	}
}

// When Redis returns after any outage, with the default pauses, a thousand Envoys of four workers do
// not come at once, and all have come within 2.2 s.
func TestProbesOfAMesh(t *testing.T) {
	t.Parallel()
	const workers, bucket = 4000, 100 * ms
	for _, outage := range []int64{2_000 * ms, 25_000 * ms, 600_000 * ms} {
		probes := map[int64]int{} // by tenths of a second after the return
		for seed := range uint64(workers) {
			p := pauses{shortestMicros: 100 * ms, longestMicros: 2_000 * ms, random: rand.NewPCG(seed, 0)}
			at := int64(0)
			for at < outage {
				at += p.next()
			}
			probes[(at-outage)/bucket]++
		}
		most, last := 0, int64(0)
		for at, n := range probes {
			most, last = max(most, n), max(last, at)
		}
		testenv.Within(t, "the last tenth of a second in which a probe comes", float64(last), 0, 20)
		testenv.Within(t, "probes in the busiest tenth of a second", float64(most), 0, workers/3)
	}
}
