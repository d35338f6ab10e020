package local

import "math/rand/v2"

// chance is the process' own: tests of workers in parallel draw from it.
type chance struct{}

func (chance) Uint64() uint64 { return rand.Uint64() }
