package algo

import _ "embed"

//go:embed leaky_bucket.lua
var leakyBucketLua string

// newLeakyBucket makes a bucket whose State is the time at which it is dry.
func newLeakyBucket(l *Limit) limiter {
	b := newBucket(l)
	if !l.Queue {
		return limiter{algorithm: LeakyBucket, bucket: b, lua: leakyBucketLua, variant: "reject", args: b.args()}
	}
	args := append(b.args(), formatInt(l.MaxDelayMicros))
	return limiter{algorithm: LeakyBucket, bucket: b, lua: leakyBucketLua, variant: "queue", args: args}
}
