//go:build tinygo && safepoints

package main

import _ "unsafe" // for go:linkname

// Garbage is collected where the outermost callback ends, and nowhere else: see
// docs/decisions/0029-collector.md. At that place no function of Go's is under way that would have to show
// the collector its pointers.

// callbacks are under way, one within the other.
var callbacks int

//go:linkname collect runtime.gcSafePoint
func collect()

func callbackBegins() { callbacks++ }

func callbackEnds() {
	if callbacks--; callbacks == 0 {
		collect()
	}
}
