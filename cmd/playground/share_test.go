package main

import (
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestShare holds what each way to share a pool of two gives a flooder and, after it, a tenant.
func TestShare(t *testing.T) {
	const flooder, tenant = senders - 1, 0
	all := func(flooders float64) (percents [senders]float64) {
		for i := range percents {
			percents[i] = 100
		}
		percents[flooder] = flooders
		return percents
	}
	for _, c := range []struct {
		name     string
		pool     [poolFields]float64
		ceilings [senders]float64
		want     [4]float64 // three of the flooder's, one of the tenant's
	}{
		{"one limit", [poolFields]float64{2, 2, 0, 0}, [senders]float64{}, [4]float64{1, 1, 0, 0}},
		{"a ceiling", [poolFields]float64{2, 2, 0, 0}, all(50), [4]float64{1, 0, 0, 1}},
		{"a guarantee", [poolFields]float64{2, 2, 1, 1}, [senders]float64{}, [4]float64{1, 1, 0, 1}},
		{"both", [poolFields]float64{2, 2, 1, 1}, all(50), [4]float64{1, 0, 0, 1}},
	} {
		pool, ceilings = c.pool, c.ceilings
		for i, sender := range []float64{flooder, flooder, flooder, tenant} {
			arrivals[2*i], arrivals[2*i+1] = 1e15+float64(i), sender
		}
		testenv.Same(t, c.name+": that the numbers are taken", share(4), true)
		for i, want := range c.want {
			testenv.Same(t, c.name+": admitted", decided[results*i+resultAllowed], want)
		}
	}
}

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
