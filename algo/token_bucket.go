package algo

import _ "embed"

//go:embed token_bucket.lua
var tokenBucketLua string

// newTokenBucket makes a bucket whose State is the time at which it is full.
func newTokenBucket(l *Limit) limiter {
	b := newBucket(l)
	return limiter{algorithm: TokenBucket, bucket: b, lua: tokenBucketLua, args: b.args()}
}
