package algo

import (
	"errors"
	"strconv"
)

// algorithms has one row for each algorithm, with everything that depends on it. No code but
// limiter_cases.go asks which algorithm a limit has.
var algorithms = [endOfAlgorithms]algorithm{
	0: { // of a number without an algorithm, which no limit of a plan has
		name: "unknown", windows: ownWindow,
		leasable: func(*Limit) error { return errNoAlgorithm },
		longer:   unknownWait,
		lasts:    untilReset,
	},
	FixedWindow:          fixedWindowAlgorithm,
	SlidingWindowLog:     slidingWindowLogAlgorithm,
	SlidingWindowCounter: slidingWindowCounterAlgorithm,
	TokenBucket:          bucketAlgorithm("token_bucket", queueFields|1<<FieldRefill),
	LeakyBucket:          bucketAlgorithm("leaky_bucket", common|1<<FieldBurst|1<<FieldOverflow|1<<FieldMaxDelay),
	GCRA:                 bucketAlgorithm("gcra", queueFields),
	Concurrency:          concurrencyAlgorithm,
}

// algorithm is one row. All members are required. The arithmetic is not among them:
// limiter_cases.go says why.
type algorithm struct {
	name    string // in configurations and in Redis keys
	fields  fieldSet
	windows windowKind

	// leasable is Limit.Leasable.
	leasable func(l *Limit) error
	// longer is the wait of a cost that is so many units more than one that waits for
	// retryAfterMicros, and fits into the capacity. known is false where that does not
	// follow to the microsecond.
	longer func(l *Limit, units, retryAfterMicros int64) (micros int64, known bool)
	// lasts is Limit.EffectiveWindowMicros.
	lasts func(l *Limit, d *Decision, atMicros int64) int64
	// make prepares a limit within its bounds.
	make func(l *Limit) limiter
}

var errNoAlgorithm = errors.New("nothing is known of leases of no algorithm")

// windowKind says what windows an algorithm's limits have.
type windowKind uint8

const (
	noWindow   windowKind = iota + 1 // the limit counts the slots that are occupied at a moment
	ownWindow                        // WindowMicros
	orCalendar                       // WindowMicros, or the windows of a calendar
)

// form is one variant of an algorithm in Redis: its Lua, its arguments, its reply.
type form struct {
	file    string // the name of the .lua file
	lua     string // its text
	variant string // which of its functions to use, see steps
	nonce   bool   // whether the request's nonce follows the cost
	over    bool   // whether what is over of an earlier batch follows the cost: units, when charged
	owes    bool   // whether a settlement may charge more than was charged
	room    string // what the room of a class stands for in a check; "" if it has no classes
	args    []argument
	reply   []replyField
}

// roomArgument is the name of the room of a request's class: the last argument of a form that may
// have classes. Only a limit with classes passes it.
const roomArgument = "room_of_class"

// argument is one number of a limit, of those that a script takes after the cost and the nonce:
// what the Lua calls it, and what it is.
type argument struct {
	name   string
	number func(l *limiter) int64
	ticks  bool // the number counts the bucket's ticks, so that it may have a fraction
	text   bool // bound as text, of which the Lua makes numbers where it needs them
}

// of is the argument of a limit: so many times 2^-shift.
func (a *argument) of(l *limiter) (number int64, shift uint) {
	if a.ticks {
		shift = l.bucket.shift
	}
	return a.number(l), shift
}

// limiter is one limit made ready: the form of its script and its arithmetic. It is a
// union, so that a plan's limits lie in one piece of memory, which a request of other
// sizes copies. Its kind is the algorithm, or that of a variant whose arithmetic is another.
type limiter struct {
	kind Algorithm
	*form
	classed bool // whether the limit has classes of requests

	fixed   fixedWindow
	log     slidingWindowLog
	counter slidingWindowCounter
	bucket  bucket // token_bucket, leaky_bucket and gcra
	steps   stepBucket
	slots   concurrency
}

// newLimiter makes a limit within its bounds ready.
func newLimiter(l *Limit) limiter {
	made := l.Algorithm.row().make(l)
	if made.kind == 0 {
		made.kind = l.Algorithm
	}
	hold(made.kind != 0 && made.form != nil, "a limiter is of an algorithm, and has its form")
	made.classed = l.Ceiling > 0
	return made
}

// args are those of the form, without the room of a class if the limit has none.
func (l *limiter) args() []argument {
	if l.room != "" && !l.classed {
		return l.form.args[:len(l.form.args)-1]
	}
	return l.form.args
}

// instead names the number that the room of a class replaces; "" without classes.
func (l *limiter) instead() string {
	if l.classed {
		return l.room
	}
	return ""
}

// arguments is how many arguments the limit has in a script.
func (l *limiter) arguments() int {
	n := 1 + len(l.args())
	if l.nonce {
		n++
	}
	if l.over {
		n += 2
	}
	return n
}

// unknownWait is longer of an algorithm where the wait depends on when the earlier
// units came.
func unknownWait(_ *Limit, _, _ int64) (micros int64, known bool) { return 0, false }

// untilReset is lasts of an algorithm whose units all are back when the newest have left, and that
// says nothing of the time while nothing is used.
func untilReset(l *Limit, d *Decision, _ int64) int64 {
	if d.ResetAfterMicros == 0 {
		return l.WindowMicros
	}
	return d.ResetAfterMicros
}

// uncharged is a Decision that allows: what a limit says of a cost of 0.
func uncharged(remaining, resetAfterMicros int64) Decision {
	return Decision{
		Allowed:           true,
		Remaining:         max(remaining, 0),
		ResetAfterMicros:  resetAfterMicros,
		ResetBeforeMicros: resetAfterMicros,
	}
}

// reject makes d reject, unless the wait is 0.
func (d *Decision) reject(retryAfterMicros int64) {
	d.Allowed, d.RetryAfterMicros = retryAfterMicros == 0, retryAfterMicros
}

func appendInt(dst []byte, v int64) []byte { return strconv.AppendInt(dst, v, 10) }
