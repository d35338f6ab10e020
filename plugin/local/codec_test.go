package local

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
)

func TestStateRoundTrip(t *testing.T) {
	t.Parallel()
	cases := []algo.State{
		nil,
		{0},
		{1, -1, 63, 64, -64, -65},
		{t0, 5, t0 + 1, 7, t0 + 3_600_000_000, 1},
		{math.MaxInt64, math.MinInt64, 0, math.MinInt64, math.MaxInt64},
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		st := make(algo.State, rng.IntN(9))
		for i := range st {
			st[i] = int64(rng.Uint64()) >> rng.IntN(64)
		}
		cases = append(cases, st)
	}
	for _, st := range cases {
		for _, base := range []int64{0, t0, math.MinInt64, math.MaxInt64} {
			got := readState(nil, appendState(nil, st, base, t0), base, t0)
			if !slices.Equal(got, st) {
				t.Fatalf("base %d: wrote %v, read %v", base, st, got)
			}
		}
	}
}

func TestStateIsShort(t *testing.T) {
	t.Parallel()
	log := algo.State{t0 - 1_000_000, t0 - 1_000_000, 1, t0 - 900_000, t0 - 900_000, 1, t0 - 800_000, t0 - 800_000, 3}
	if n := len(appendState(nil, log, t0, t0)); n > 20 {
		t.Errorf("a log of 3 runs takes %d bytes, want at most 6 a run", n)
	}
	if n := len(appendState(nil, algo.State{t0, t0 + 50_000}, t0, t0)); n > 4 {
		t.Errorf("a time 50 ms from its base takes %d bytes, want at most 3", n)
	}
}

func TestMalformedStateIsEmpty(t *testing.T) {
	t.Parallel()
	long := append(slices.Repeat([]byte{0xff}, maxNumberBytes), 1)
	for _, src := range [][]byte{{0x80}, {0x02, 0x81}, {0x80, 0x80}, long} {
		if got := readState(algo.State{1, 2, 3}, src, 0, 0); len(got) != 0 {
			t.Errorf("% x: read %v, want nothing", src, got)
		}
	}
}
