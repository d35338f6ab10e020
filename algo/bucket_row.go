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
		leasable: func(l *Limit) error {
			switch {
			case l.Queue:
				return errQueueLease
			case l.Steps:
				return errStepLease
			}
			return nil
		},
		longer: func(l *Limit, units, retryAfterMicros int64) (micros int64, known bool) {
			switch {
			case l.Queue || l.LeaseMicros > 0: // may wait for its delay to fall, or for what was lent, not for units
				return 0, false
			case l.Steps: // where the cost needs whole steps more
				return retryAfterMicros + units/l.Units*l.WindowMicros, units%l.Units == 0
			}
			b := newBucket(l)
			ticks := units * b.interval
			return retryAfterMicros + ticks>>b.shift, ticks&(1<<b.shift-1) == 0
		},
		// The time in which the remaining units come back, or one of them if none remain. Who uses so many in
		// it never empties the bucket. Of a bucket that is refilled in steps it is the time until the next step.
		lasts: func(l *Limit, d *Decision, atMicros int64) int64 {
			switch {
			case l.Steps && d.ResetAfterMicros > 0:
				return (d.ResetAfterMicros-1)%l.WindowMicros + 1
			case l.Steps:
				return l.WindowMicros - atMicros%l.WindowMicros
			}
			return l.refillMicros(max(d.Remaining, 1))
		},
		make: func(l *Limit) limiter {
			switch {
			case l.Steps:
				return limiter{kind: kindOfSteps, form: &stepForm, steps: stepBucket{
					limit: l.Units, window: l.WindowMicros, capacity: l.burst(), room: l.roomOf(l.burst()),
				}}
			case l.Pool:
				return limiter{form: &poolForm, bucket: newBucket(l)}
			case l.Guarantee:
				return limiter{form: &guaranteeForm, bucket: newBucket(l)}
			case !l.Queue && l.LeaseMicros > 0:
				return limiter{form: &lentForm, bucket: newBucket(l)}
			case !l.Queue:
				return limiter{form: &meterForm, bucket: newBucket(l)}
			case fields>>FieldMaxWait&1 == 1:
				// The burst, and what returns within the longest wait, is its tolerance.
				b := newBucket(l)
				b.maxDelay = min(b.maxDelay, maxPatience>>b.shift)
				if b.capacity == 0 {
					b.maxDelay = 0
				}
				b.tolerance += b.maxDelay << b.shift
				return limiter{kind: kindOfWaits, form: &waitForm, bucket: b}
			}
			return limiter{form: &queueForm, bucket: newBucket(l)}
		},
	}
}

// queueFields are those of a bucket whose burst goes at once, whether the rest waits or not.
const queueFields = common | 1<<FieldBurst | 1<<FieldOverflow | 1<<FieldMaxWait

// kindOfWaits is the kind of a limiter whose bucket lets a burst go at once, and the rest wait.
const kindOfWaits = kindOfSteps + 1

// The forms of a bucket. A queue owes nothing: it has let its requests go already,
// each at its turn. Nor does a bucket of batches: a rule with a lease settles nothing.
var (
	meterForm = form{
		file: "bucket", lua: bucketLua, owes: true,
		args: meterArgs[:], reply: usualReply[:], room: "tolerance",
	}
	lentForm = form{
		file: "bucket", lua: bucketLua, variant: "lent", over: true, args: lentArgs[:], reply: usualReply[:],
	}
	poolForm = form{
		file: "bucket", lua: bucketLua, variant: poolVariant, owes: true,
		args: meterArgs[:], reply: usualReply[:], room: "tolerance",
	}
	guaranteeForm = form{
		file: "bucket", lua: bucketLua, variant: guaranteeVariant, owes: true,
		args: meterArgs[:], reply: usualReply[:], room: "tolerance",
	}
	queueForm = form{
		file: "bucket", lua: bucketLua, variant: "queue",
		args: queueArgs[:], reply: queueReply[:], room: "tolerance",
	}
	waitForm = form{
		file: "bucket", lua: bucketLua, variant: "wait", args: queueArgs[:3],
		reply: []replyField{replyRemaining, replyReset, replyRetry, replyBefore, replyDelay, replyWaiting},
	}
)

var queueReply = [...]replyField{replyRemaining, replyReset, replyRetry, replyBefore, replyDelay}

var errQueueLease = errors.New("a queue delays each request by its own turn")

// The arguments are the constants of the scripts, the times in microseconds. A
// power-of-two fraction has a finite decimal expansion, which reads back as the
// same double.
var (
	meterArgs = [...]argument{
		{name: "interval", number: bucketInterval, ticks: true},
		{name: "tolerance", number: bucketTolerance, ticks: true},
		{name: roomArgument, number: bucketCeiling, ticks: true},
	}
	lentArgs = [...]argument{
		{name: "interval", number: bucketInterval, ticks: true},
		{name: "tolerance", number: bucketTolerance, ticks: true},
		{name: "period", number: func(l *limiter) int64 { return l.bucket.period }},
	}
	queueArgs = [...]argument{
		{name: "interval", number: bucketInterval, ticks: true},
		{name: "tolerance", number: bucketTolerance, ticks: true},
		{name: "patience", number: func(l *limiter) int64 { return l.bucket.maxDelay }},
		{name: roomArgument, number: bucketCeiling, ticks: true},
	}
)

func bucketInterval(l *limiter) int64  { return l.bucket.interval }
func bucketTolerance(l *limiter) int64 { return l.bucket.tolerance }
func bucketCeiling(l *limiter) int64   { return l.bucket.ceiling }

// maxPatience bounds a wait in ticks, so that it and a tolerance add up exactly in a double. It is
// two seconds of the finest ticks, which limits of more than 10^9 units a second have; of the
// others it is half an hour.
//
// Bound: ticks that a burst's queue holds a request. Beyond it, the request is refused. Protects
// exact doubles.
const maxPatience = 1 << 51
