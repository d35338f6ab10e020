package algo

import _ "embed"

//go:embed gcra.lua
var gcraLua string

// newGCRA makes the generic cell rate algorithm: a bucket whose State is the
// theoretical arrival time.
func newGCRA(l *Limit) limiter {
	b := newBucket(l)
	return limiter{algorithm: GCRA, bucket: b, lua: gcraLua, args: b.args()}
}
