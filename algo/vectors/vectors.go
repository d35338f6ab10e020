// Package vectors has worked examples of every algorithm, which any implementation can replay: the
// tests of package algo do, on a Redis of their own, and "sluice doctor" on one that is in use.
package vectors

import _ "embed"

// JSON is the list of examples. Times are in microseconds after 2040-01-01T00:00:00Z, so that no
// key of them expires by the real clock.
//
//go:embed vectors.json
var JSON []byte
