package main

import (
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestShareBounds holds that no number of the page is used beyond its bounds.
func TestShareBounds(t *testing.T) {
	valid := [poolFields]float64{10, 10, 1, 1}
	for _, c := range []struct {
		name    string
		pool    [poolFields]float64
		ceiling float64
		sender  float64
		n       int32
	}{
		{"a pool below 0", [poolFields]float64{-1, 1, 0, 0}, 0, 0, 1},
		{"a guarantee below 0", [poolFields]float64{10, 10, -1, 1}, 0, 0, 1},
		{"a ceiling above 100", valid, 101, 0, 1},
		{"one more sender", valid, 0, senders, 1},
		{"a sender below 0", valid, 0, -1, 1},
		{"too many requests", valid, 0, 0, maxArrivals + 1},
		{"fewer than none", valid, 0, 0, -1},
	} {
		pool, ceilings = c.pool, [senders]float64{}
		for i := range ceilings {
			ceilings[i] = c.ceiling
		}
		arrivals[0], arrivals[1] = 1e15, c.sender
		testenv.Same(t, c.name+": taken", share(c.n), false)
	}
}
