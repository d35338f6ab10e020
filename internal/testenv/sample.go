package testenv

import "testing"

// Stride is how many cases of a long list a test advances at a time: 1, or 10 with -short, which
// "make quick" sets. Few of many like cases show most mistakes; the gate has them all.
func Stride() int {
	if testing.Short() {
		return 10
	}
	return 1
}
