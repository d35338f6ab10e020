package redis

import (
	"strconv"

	"github.com/sluiceproxy/sluice/plugin/must"
	"github.com/sluiceproxy/sluice/redisresp"
)

// pipeline is the first-in first-out queue of the commands whose replies have not come.
// It is a ring that grows to the most that ever waited; its commands keep their memory.
type pipeline struct {
	commands  ring[command]
	out       []byte // commands that are encoded and not yet sent
	byKey     bool   // scripts may not call TIME, see outcomeOf
	listening listening
}

// addAgain appends a command once more. Its timeout still counts from when it was first
// sent.
func (p *pipeline) addAgain(from *command) {
	c := p.commands.push()
	c.copyFrom(from)
	p.out = c.appendTo(p.out)
}

// sendAgain sends a background command by its source. The client's next check may stand behind the
// first attempt in the pipe. It has then been decided as if there were no such command, so if it is
// rejected, it is sent again behind the second attempt.
func (p *pipeline) sendAgain(k *command) {
	for i := p.commands.first; i < p.commands.next; i++ {
		if behind := p.commands.at(i); behind.same(k) {
			behind.overtook = true
		}
	}
	k.bySource = true
	p.addAgain(k)
}

// setUp queues AUTH and SELECT; they leave with the first command
// (https://redis.io/docs/latest/commands/auth/).
func (p *pipeline) setUp(o *Options, nowMicros int64) {
	switch {
	case o.Password == "":
	case o.Username == "":
		p.add(loggingIn, nowMicros, "AUTH", o.Password)
	default:
		p.add(loggingIn, nowMicros, "AUTH", o.Username, o.Password)
	}
	if o.Database != 0 {
		p.add(selecting, nowMicros, "SELECT", strconv.FormatInt(o.Database, 10))
	}
}

// probeSource writes a key that vanishes at once: what a check needs, a probe
// must be able to do, or it would find a read-only or full Redis healthy.
const probeSource = "return redis.call('SET', KEYS[1], '', 'PX', 1)"

// addProbe appends a probe of a tag's hash slot, or of any without a tag.
func (p *pipeline) addProbe(k kind, keyPrefix string, tag []byte, nowMicros int64) {
	if len(tag) == 0 {
		tag = []byte("sluice")
	}
	p.add(k, nowMicros, "EVAL", probeSource, "1", string(AppendKey(nil, keyPrefix, tag, ":probe")))
}

// add appends a command that calls no script of a rule.
func (p *pipeline) add(k kind, nowMicros int64, words ...string) {
	p.out = redisresp.AppendArray(p.out, len(words))
	for _, word := range words {
		p.out = redisresp.AppendBulkString(p.out, word)
	}
	c := p.commands.push()
	c.makeBackground(k, nil, nil, nowMicros)
	p.stamp(c, nowMicros)
}

// stamp notes when the newest command is sent. With the first of them ticks are asked for.
func (p *pipeline) stamp(c *command, nowMicros int64) {
	if p.commands.len() == 1 {
		p.listening.tick(nowMicros)
	}
	c.sentMicros, c.listenedMicros = nowMicros, p.listening.at(nowMicros)
}

// waited is for how long a command could have been answered.
func (p *pipeline) waited(c *command, nowMicros int64) int64 {
	return p.listening.at(nowMicros) - c.listenedMicros
}

// owes reports whether the oldest command has had no reply for so long.
func (p *pipeline) owes(micros, nowMicros int64) bool {
	return p.commands.len() > 0 && p.waited(p.commands.at(p.commands.first), nowMicros) >= micros
}

// ring is a first-in first-out queue whose elements have a position, which counts up
// from 0, and are used again, with the memory they hold.
type ring[T any] struct {
	cells []T    // its length is a power of two
	first uint64 // position of the oldest element
	next  uint64 // position of the element after the newest
}

// Bound: places of the smallest ring. Below it, a ring does not begin. Protects rings from growing
// again at once.
const minRing = 16

func (r *ring[T]) len() int { return int(r.next - r.first) }

// at is the element at a position from first to next-1, good until the next push.
func (r *ring[T]) at(position uint64) *T {
	must.Hold(position >= r.first && position < r.next, "a position is of an element in the ring")
	return &r.cells[position&uint64(len(r.cells)-1)]
}

// push appends an element and returns it, with the content of its last use.
func (r *ring[T]) push() *T {
	if r.len() == len(r.cells) {
		bigger := make([]T, max(2*len(r.cells), minRing))
		for i := r.first; i < r.next; i++ {
			bigger[i&uint64(len(bigger)-1)] = *r.at(i)
		}
		r.cells = bigger
	}
	r.next++
	return r.at(r.next - 1)
}

// pop removes the oldest element. The result is good until the next push.
func (r *ring[T]) pop() *T {
	must.Hold(r.first < r.next, "what leaves a ring was put into it")
	e := r.at(r.first)
	r.first++
	return e
}

// question is one request, from Flush until the last reply to its checks.
type question struct {
	commands int  // how many of its checks are in the pipe
	failed   bool // one of them has failed or expired, which has been counted
}

// requests are the requests with checks in the pipe, and the request that is being asked about.
type requests struct {
	asked   ring[question]
	waiting int64 // how many have checks in the pipe
	nonce   int64 // of the last check

	replies replies // what Redis says of their checks
	remade  Check   // scratch

	used        bool  // one has ever begun
	begunMicros int64 // when the last one did
	keptMicros  int64 // for how long it had waited in the worker before
	added       int   // its checks
}

// finish takes one check of a request out of account.
func (r *requests) finish(position uint64) {
	q := r.asked.at(position)
	must.Hold(q.commands > 0, "a check has one last call")
	if q.commands--; q.commands > 0 {
		return
	}
	r.waiting--
	must.Hold(r.waiting >= 0, "no more requests end than have begun")
	for r.asked.len() > 0 && r.asked.at(r.asked.first).commands == 0 {
		r.asked.pop()
	}
}
