package algo

import (
	_ "embed"
	"errors"
)

//go:embed bucket.lua
var bucketLua string

// bucketAlgorithm is the row of one of the algorithms that are a bucket.
func bucketAlgorithm(name string, fields fieldSet) algorithm {
	return algorithm{
		name: name, fields: fields, windows: ownWindow,
		leasable: leasableBucket, longer: longerOfBucket,
		make: func(l *Limit) limiter {
			form := &meterForm
			switch {
			case l.Queue:
				form = &queueForm
			case l.LeaseMicros > 0:
				form = &lentForm
			}
			return limiter{form: form, bucket: newBucket(l)}
		},
	}
}

// The forms of a bucket. A queue owes nothing: it has let its requests go already,
// each at its turn. Nor does a bucket of batches: a rule with a lease settles nothing.
var (
	meterForm = form{file: "bucket", lua: bucketLua, owes: true, args: bucketArgs[:2], reply: usualReply[:]}
	lentForm  = form{file: "bucket", lua: bucketLua, variant: "lent", over: true, args: lentArgs[:], reply: usualReply[:]}
	queueForm = form{
		file: "bucket", lua: bucketLua, variant: "queue", args: bucketArgs[:3],
		reply: []replyField{replyRemaining, replyReset, replyRetry, replyBefore, replyDelay},
	}
)

var errQueueLease = errors.New("a queue delays each request by its own turn")

func leasableBucket(l *Limit) error {
	if l.Queue {
		return errQueueLease
	}
	return nil
}

func longerOfBucket(l *Limit, units, retryAfterMicros int64) (micros int64, known bool) {
	if l.Queue || l.LeaseMicros > 0 { // may wait for its delay to fall, or for what was lent, not for units
		return 0, false
	}
	b := newBucket(l)
	more, whole := b.wholeMicros(units)
	return retryAfterMicros + more, whole
}

// bucketArgs write the constants of the scripts, the times in microseconds. A
// power-of-two fraction has a finite decimal expansion, which reads back as the
// same double.
var bucketArgs = [...]argument{
	{name: "interval", append: func(dst []byte, l *limiter) []byte {
		return l.bucket.appendTicks(dst, l.bucket.interval)
	}},
	{name: "tolerance", append: func(dst []byte, l *limiter) []byte {
		return l.bucket.appendTicks(dst, l.bucket.tolerance)
	}},
	{name: "patience", append: func(dst []byte, l *limiter) []byte { return appendInt(dst, l.bucket.maxDelay) }},
	{name: "period", append: func(dst []byte, l *limiter) []byte { return appendInt(dst, l.bucket.period) }},
}

var lentArgs = [...]argument{bucketArgs[0], bucketArgs[1], bucketArgs[3]}

// appendTicks writes every digit, which are as many decimals as the shift has bits, so that the
// plugin does without strconv's floating point.
func (b *bucket) appendTicks(dst []byte, ticks int64) []byte {
	dst = appendInt(dst, ticks>>b.shift)
	below := int64(1)<<b.shift - 1
	rest := ticks & below
	if rest == 0 {
		return dst
	}
	dst = append(dst, '.')
	for ; rest != 0; rest &= below {
		rest *= 10
		dst = append(dst, '0'+byte(rest>>b.shift))
	}
	return dst
}
