package algo

import (
	_ "embed"
	"encoding/binary"
	"math"
	"strconv"
)

//go:embed penalty.lua
var penaltyLua string

// Penalty blocks an identity that a rule has rejected After times within
// WithinMicros of the first time, for ForMicros[0]. One that earns another block
// within twice the last one's length after its end is blocked for ForMicros[1], and
// so on; the last length repeats. While a block lasts nothing counts.
type Penalty struct {
	After        int64   // 1 to MaxStrikes
	WithinMicros int64   // as a window is
	ForMicros    []int64 // 1 to MaxBlocks, each as a window is
}

// Bounds of a Penalty.
const (
	// Bound: of `after`. Beyond it, the configuration is refused. Protects 32 bits of the state.
	MaxStrikes = 1_000_000
	// Bound: durations of `for`. Beyond it, the configuration is refused. Protects the arguments of
	// a call.
	MaxBlocks = 16
)

// Strikes are rejections that a worker has answered from memory.
type Strikes struct {
	AgeMicros int64 // how long ago the first of them was
	Count     int64
}

// A penalty's State. It is empty for an identity that nothing is held against.
const (
	penaltySince   = iota // when the first of the strikes came
	penaltyEnds           // when the last block ends
	penaltyLength         // how long it is
	penaltyBlocks         // how many blocks there were one after another
	penaltyStrikes        // how many strikes
	penaltyLen
)

// ReadPenaltyState reads what Redis keeps of a penalty, see penalty.lua; none if that
// makes no sense.
func ReadPenaltyState(text []byte) State {
	if len(text) != 32 {
		return nil
	}
	double := func(i int) int64 { return int64(math.Float64frombits(binary.LittleEndian.Uint64(text[8*i:]))) }
	long := func(at int) int64 { return int64(binary.LittleEndian.Uint32(text[at:])) }
	s := State{double(0), double(1), double(2), long(24), long(28)}
	for _, v := range s {
		if !within(v, 0, maxReplyMicros) {
			return nil
		}
	}
	return s
}

// Strikes is how many rejections the state holds against its identity, now.
func (p *Penalty) Strikes(s State, nowMicros int64) int64 {
	if len(s) != penaltyLen || nowMicros-s[penaltySince] >= p.WithinMicros {
		return 0
	}
	return s[penaltyStrikes]
}

// Rebase moves times that lie in the future, because the clock was set back, to now, so that
// no identity waits for the clock. It reports whether anything changed; the caller then
// keeps the state.
func (p *Penalty) Rebase(s State, nowMicros int64) (rebased State, changed bool) {
	if len(s) != penaltyLen {
		return s[:0], false
	}
	if s[penaltySince] > nowMicros {
		s[penaltySince], changed = nowMicros, true
	}
	if s[penaltyEnds]-s[penaltyLength] > nowMicros {
		s[penaltyEnds], changed = nowMicros+s[penaltyLength], true
	}
	return s, changed
}

// LeftMicros is how long the identity is still blocked; 0 if it is not.
func (p *Penalty) LeftMicros(s State, nowMicros int64) int64 {
	if len(s) != penaltyLen {
		return 0
	}
	return max(s[penaltyEnds]-nowMicros, 0)
}

// Strike counts a rejection, now, of an identity that is not blocked. It returns the
// new state, in s where it has room, and the length of the block that this has
// earned; 0 for none.
func (p *Penalty) Strike(s State, nowMicros int64) (struck State, earnedMicros int64) {
	return p.strike(s, nowMicros, 1, nowMicros)
}

// Remember counts rejections of some time ago, in order. Those that are older than
// WithinMicros, or from before a block's end, do not count.
func (p *Penalty) Remember(s State, strikes []Strikes, nowMicros int64) (struck State) {
	for _, r := range strikes {
		at := nowMicros - r.AgeMicros
		if r.AgeMicros < p.WithinMicros && (len(s) != penaltyLen || at >= s[penaltyEnds]) {
			s, _ = p.strike(s, at, r.Count, nowMicros)
		}
	}
	return s
}

func (p *Penalty) strike(s State, atMicros, count, nowMicros int64) (struck State, earnedMicros int64) {
	if len(s) != penaltyLen {
		s = append(s[:0], 0, 0, 0, 0, 0)
	}
	if s[penaltyStrikes] == 0 || atMicros-s[penaltySince] >= p.WithinMicros {
		s[penaltySince], s[penaltyStrikes] = atMicros, 0
	}
	s[penaltyStrikes] += count
	if s[penaltyStrikes] < p.After {
		return s, 0
	}
	blocks := int64(1)
	if nowMicros-s[penaltyEnds] < 2*s[penaltyLength] {
		blocks = min(s[penaltyBlocks]+1, int64(len(p.ForMicros)))
	}
	length := p.ForMicros[blocks-1]
	return append(s[:0], 0, nowMicros+length, length, blocks, 0), length
}

// ExpiresAtMicros is when the state no longer matters; 0 for no state. Rejections that
// are to be held against it may be told as late as WithinMicros afterwards.
func (p *Penalty) ExpiresAtMicros(s State) int64 {
	if len(s) != penaltyLen {
		return 0
	}
	expires := s[penaltyEnds] + max(2*s[penaltyLength], p.WithinMicros)
	if s[penaltyStrikes] > 0 {
		expires = max(expires, s[penaltySince]+2*p.WithinMicros)
	}
	return expires
}

// PenaltyID is the ID of a penalty's state in the embedded store, which no limit has.
func PenaltyID() ID { return ID{Algorithm: 255} }

const penaltyArgs = 4

// penaltyArgNames are their names in penalty.lua.
var penaltyArgNames = [penaltyArgs]string{"after", "within", "lengths", "told"}

// Args are the script's arguments that do not depend on the request.
func (p *Penalty) Args() []string {
	var lengths []byte
	for i, micros := range p.ForMicros {
		if i > 0 {
			lengths = append(lengths, ' ')
		}
		lengths = strconv.AppendInt(lengths, micros, 10)
	}
	return []string{strconv.FormatInt(p.After, 10), strconv.FormatInt(p.WithinMicros, 10), string(lengths)}
}

// AppendStrikes appends the argument that reports what a worker has rejected from
// memory, oldest first. If deferred, a rejection by this call does not count: the
// worker reports it later, if it should.
func AppendStrikes(dst []byte, strikes []Strikes, deferred bool) []byte {
	for i, s := range strikes {
		if i > 0 {
			dst = append(dst, ' ')
		}
		dst = strconv.AppendInt(dst, s.AgeMicros, 10)
		dst = append(dst, ':')
		dst = strconv.AppendInt(dst, s.Count, 10)
	}
	if deferred {
		dst = append(dst, '-')
	}
	return dst
}
