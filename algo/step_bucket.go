package algo

import (
	_ "embed"
	"errors"
)

//go:embed step_bucket.lua
var stepBucketLua string

// stepBucket is a token_bucket with "refill": "step". Its limit of tokens comes at once, at each
// multiple of its window since the Unix epoch, and none comes between: a replenishing process. It
// counts the tokens that are missing in whole units, so nothing is rounded.
//
// A limit with another size goes on with the units that are missing: its own steps bring them back,
// from the step in which they were counted.
type stepBucket struct {
	limit    int64 // Limit.Units: tokens that a step brings
	window   int64 // us from step to step
	capacity int64 // units: burst
	room     int64 // of the request's class: the capacity, where there are none
}

// A stepBucket's State.
const (
	stepAt   = iota // when the step began in which it was counted, us since the Unix epoch
	stepUsed        // units that are missing
	stepOwed        // of these, how many are beyond the capacity that it was counted with
	stepEnds        // when steps will have brought all of them, us since the Unix epoch
	stepLen
)

// kindOfSteps is the kind of a limiter whose token_bucket is refilled in steps.
const kindOfSteps = endOfAlgorithms

// stepForm is its form. A settlement may leave it in debt.
var stepForm = form{
	file: "step_bucket", lua: stepBucketLua, owes: true,
	args: stepArgs[:], reply: usualReply[:], room: "capacity",
}

var stepArgs = [...]argument{
	{name: "limit", number: func(l *limiter) int64 { return l.steps.limit }},
	{name: "window", number: func(l *limiter) int64 { return l.steps.window }},
	{name: "capacity", number: func(l *limiter) int64 { return l.steps.capacity }},
	{name: roomArgument, number: func(l *limiter) int64 { return l.steps.room }},
}

var errStepLease = errors.New("a step refills the bucket at once, whoever still holds tokens of the step before")

// in is how long it takes until steps have brought so many units, from the beginning of a step on.
func (b *stepBucket) in(units int64) int64 { return b.stepsFor(units) * b.window }

// lasts is in, for units that another limit may have charged: not for more than 142 years.
func (b *stepBucket) lasts(units int64) int64 {
	if steps := b.stepsFor(units); steps <= 1<<52/b.window {
		return steps * b.window
	}
	return 1 << 52
}

// stepsFor is how many steps bring so many units. A limit of 0 counts as one of 1: none are missing.
func (b *stepBucket) stepsFor(units int64) int64 { return ceilDiv(units, max(b.limit, 1)) }

// isState reports whether the state is one that a stepBucket has written.
func (b *stepBucket) isState(s State) bool {
	return len(s) == stepLen && within(s[stepAt], 0, 1<<60) &&
		within(s[stepUsed], 1, 1<<53-1) && within(s[stepOwed], 0, s[stepUsed])
}

// used is how many units are missing at a time, at this limit's rate and at most its capacity, and
// as much of debt.
func (b *stepBucket) used(s State, nowMicros int64) int64 {
	if !b.isState(s) {
		return 0
	}
	used, owed := s[stepUsed], s[stepOwed] // when the state was counted
	if used > b.capacity {
		used = min(used-owed, b.capacity) + min(owed, b.capacity)
	}
	steps := max(floorTo(nowMicros, b.window)-s[stepAt], 0) / b.window
	if steps >= b.stepsFor(used) {
		return 0
	}
	return used - steps*b.limit
}

func (b *stepBucket) check(s State, nowMicros, cost int64) Decision {
	start, used := floorTo(nowMicros, b.window), b.used(s, nowMicros)
	reset := int64(0)
	if used > 0 {
		reset = start + b.in(used) - nowMicros
	}
	d := uncharged(b.room-used, reset)
	switch {
	case cost <= d.Remaining:
	case cost > b.room:
		d.reject(Never)
	default:
		d.reject(start + b.in(used+cost-b.room) - nowMicros)
	}
	return d
}

func (b *stepBucket) charge(s State, nowMicros, cost int64, d *Decision) State {
	start, used := floorTo(nowMicros, b.window), b.used(s, nowMicros)+cost
	s = append(s[:0], start, used, max(used-b.capacity, 0), start+b.in(used))
	d.Remaining -= cost
	d.ResetAfterMicros = s[stepEnds] - nowMicros
	return s
}

// refund gives cost back: it takes the units off those that were counted, as if they had never been
// charged. So nothing is clamped to this limit's capacity, which may not be the one that charged the
// others. Units that were charged a whole refill ago have come back with time.
func (b *stepBucket) refund(s State, chargedAtMicros, nowMicros, cost int64) State {
	if !b.isState(s) || b.capacity == 0 || chargedAtMicros < floorTo(nowMicros, b.window)+b.window-b.in(b.capacity) {
		return s
	}
	brought := b.brought(s, nowMicros)
	switch {
	case s[stepUsed] <= brought:
		return s
	case s[stepUsed]-cost <= brought:
		return s[:0]
	}
	s[stepUsed], s[stepOwed] = s[stepUsed]-cost, max(s[stepOwed]-cost, 0)
	return s
}

// brought is how many units steps have brought since the state was counted; of those that were missing,
// if it is more.
func (b *stepBucket) brought(s State, nowMicros int64) int64 {
	steps := max(floorTo(nowMicros, b.window)-s[stepAt], 0) / b.window
	if steps >= b.stepsFor(s[stepUsed]) {
		return s[stepUsed]
	}
	return steps * b.limit
}

// debit charges cost at the time of an earlier charge, beyond the capacity if need be. Steps since then
// have filled a bucket that is full now. How long another one was full is not known: it is taken to have
// lacked tokens all the time.
func (b *stepBucket) debit(s State, chargedAtMicros, nowMicros, cost int64) State {
	used, debt, owes := int64(0), int64(0), min(cost, 2*b.capacity)
	if b.isState(s) {
		brought := b.brought(s, nowMicros)
		used, debt = s[stepUsed]-brought, max(s[stepOwed]-brought, 0)
	}
	start := floorTo(nowMicros, b.window)
	if used == 0 && chargedAtMicros < start {
		steps := ceilDiv(start-chargedAtMicros, b.window)
		if steps >= b.stepsFor(owes) {
			return s
		}
		owes -= steps * b.limit
	}
	free := max(b.capacity+debt-used, 0)
	if owes = min(owes, b.capacity-debt+free); owes <= 0 {
		return s
	}
	used, debt = used+owes, debt+max(owes-free, 0)
	return append(s[:0], start, used, debt, start+b.lasts(used))
}

// rebase makes a state that was counted in a later step one that was counted in this one, and so
// keeps no client waiting for the clock.
func (b *stepBucket) rebase(s State, nowMicros int64) (State, bool) {
	start := floorTo(nowMicros, b.window)
	if !b.isState(s) || s[stepAt] <= start {
		return s, false
	}
	s[stepAt], s[stepEnds] = start, start+b.lasts(s[stepUsed])
	return s, true
}
