package algo

import (
	"encoding/binary"
	"math"
	"strconv"
)

// Script decides a request:
//
//	EVALSHA sha n key1..keyn, then for each limit its cost, if TakesNonce the
//	request's nonce, and its Args
//
// Of a plan that Packs the keys are followed by what AppendCosts appends, if a limit TakesNonce the
// request's nonce, and what AppendNumbers appends.
//
// ParseReply reads what it answers. A plan with terms has keys and arguments more,
// see TermSuffixes and NumTermArgs, and ParseRuling reads its answers.
func (p *Plan) Script() Script { return p.script }

// RefundScript changes a charge, as Refund does. The arguments are those of Script of a plan that
// does not pack, with the units to give back or, below 0, to charge in place of the costs, then the
// Redis time of the charge. If no limit TakesNonce, further charges of the same sizes may
// follow: of each one cost for each limit, and its time. It answers of how
// many limits there were no slots to give back any more.
func (p *Plan) RefundScript() Script { return p.refund }

// ScriptWithoutTime is Script for a Redis whose scripts may not call TIME. It
// wants one key more, the last, which ends in ClockSuffix and has the same hash
// tag as the others: it writes a key there that lives for a minute, whose
// remaining time is its clock. The clock goes by the millisecond. The two scripts
// go on with each other's state.
func (p *Plan) ScriptWithoutTime() Script {
	k := p.kind()
	k.withoutTime = true
	return scriptOf(p.limiters, k)
}

// RefundScriptWithoutTime is RefundScript with that key and that clock.
func (p *Plan) RefundScriptWithoutTime() Script {
	return scriptOf(p.limiters, kind{refund: true, withoutTime: true})
}

// TakesNonce reports whether limit i's cost is followed by the request's nonce.
func (p *Plan) TakesNonce(i int) bool { return p.limiters[i].nonce }

// TakesOver reports whether limit i's cost is followed by the two numbers of an Over. They are 0
// of all calls but those of DecideBatch, and of RefundBatch, whose first is 1.
func (p *Plan) TakesOver(i int) bool { return p.limiters[i].over }

// ReleaseScript gives back slots of many requests of one identity, and no more than
// these: twice does no harm.
//
//	EVALSHA sha 1 key, then of each request nonce and slots
//
// It answers how many of them had ended.
func ReleaseScript() Script {
	return known("release", func() string {
		c := &composer{}
		c.WriteString(header)
		return c.whole("release")
	})
}

// RenewScript renews the slots of many requests of one identity:
//
//	EVALSHA sha 1 key, then the ttl in us, then of each request nonce and slots
//
// It answers how many of them had ended. They are held again, whatever the limit.
func RenewScript() Script { return renewal(kind{}) }

// RenewScriptWithoutTime is RenewScript with the key and the clock of
// ScriptWithoutTime.
func RenewScriptWithoutTime() Script { return renewal(kind{withoutTime: true}) }

// NumArgs is how many arguments of limit i follow its cost, and its nonce.
func (p *Plan) NumArgs(i int) int { return len(p.limiters[i].args()) }

// AppendArg appends argument n of those that NumArgs counts. They depend
// on the limit alone, so that all but those of a Sized plan can be encoded once.
//
// It is text with every digit, which are as many decimals as the shift has bits, so that the plugin
// does without strconv's floating point.
func (p *Plan) AppendArg(dst []byte, i, n int) []byte {
	l := &p.limiters[i]
	ticks, shift := l.args()[n].of(l)
	dst = appendInt(dst, ticks>>shift)
	below := int64(1)<<shift - 1
	rest := ticks & below
	if rest == 0 {
		return dst
	}
	dst = append(dst, '.')
	for ; rest != 0; rest &= below {
		rest *= 10
		dst = append(dst, '0'+byte(rest>>shift))
	}
	return dst
}

// Packs reports whether Script takes the limits' costs as one argument, and their Args as another,
// packed.
func (p *Plan) Packs() bool { return packs(len(p.limiters)) }

// NumCheckArgs is how many arguments Script takes, but for those of the terms.
func (p *Plan) NumCheckArgs() int {
	if p.Packs() {
		return packedArgs(p.limiters)
	}
	return p.NumRefundArgs()
}

// NumRefundArgs is how many arguments RefundScript takes before the time of the charge.
func (p *Plan) NumRefundArgs() (n int) {
	for i := range p.limiters {
		n += p.limiters[i].arguments()
	}
	return n
}

// AppendCosts appends the costs of a plan's limits as the one argument of a plan that Packs: one
// number where all are the same, else one for each limit, with spaces between.
func AppendCosts(dst []byte, costs []int64) []byte {
	same := true
	for _, cost := range costs {
		same = same && cost == costs[0]
	}
	if same {
		costs = costs[:1]
	}
	for i, cost := range costs {
		if i > 0 {
			dst = append(dst, ' ')
		}
		dst = appendInt(dst, cost)
	}
	return dst
}

// AppendNumbers appends the arguments of all limits, those that NumArgs counts, as the one argument
// of a plan that Packs: a little-endian double each, which is the same number, as it has at most 53 bits.
func (p *Plan) AppendNumbers(dst []byte) []byte {
	for i := range p.limiters {
		l := &p.limiters[i]
		args := l.args()
		for n := range args {
			number, shift := args[n].of(l)
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(float64(number)/float64(int64(1)<<shift)))
		}
	}
	return dst
}

// CheckArgs are all arguments of Script, but those of the terms.
func (p *Plan) CheckArgs(nonce int64, over Over, costs []int64) (args []string) {
	if !p.Packs() {
		return p.RefundArgs(nonce, over, costs)
	}
	args = []string{string(AppendCosts(nil, costs))}
	if p.slots >= 0 {
		args = append(args, strconv.FormatInt(nonce, 10))
	}
	return append(args, string(p.AppendNumbers(nil)))
}

// RefundArgs are all arguments of RefundScript before the time of the charge.
func (p *Plan) RefundArgs(nonce int64, over Over, costs []int64) (args []string) {
	for i := range p.limiters {
		args = append(args, strconv.FormatInt(costs[i], 10))
		if p.limiters[i].nonce {
			args = append(args, strconv.FormatInt(nonce, 10))
		}
		if p.limiters[i].over {
			args = append(args, strconv.FormatInt(over.Units, 10), strconv.FormatInt(over.ChargedMicros, 10))
		}
		args = append(args, p.Args(i)...)
	}
	return args
}

// Args are the arguments that follow limit i's cost, and its nonce.
func (p *Plan) Args(i int) []string {
	args := make([]string, p.NumArgs(i))
	for n := range args {
		args[n] = string(p.AppendArg(nil, i, n))
	}
	return args
}
