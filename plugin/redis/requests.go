package redis

import "github.com/sluiceproxy/sluice/plugin/must"

// question is one request, from Flush until the last reply to its checks.
type question struct {
	commands int  // how many of its checks are in the pipe
	failed   bool // one of them has failed or expired, which has been counted
}

// requests are those that have checks in the pipe, and the one that is being asked about.
type requests struct {
	asked   ring[question]
	waiting int64 // how many have checks in the pipe
	nonce   int64 // of the last check

	link    *link
	replies replies // what Redis says of their checks
	remade  Check   // scratch

	used        bool  // one has ever begun
	begunMicros int64 // when the last one did
	keptMicros  int64 // for how long it had waited in the worker before
	added       int   // its checks
}

// begin begins a request.
func (r *requests) begin(nowMicros int64) {
	r.used, r.begunMicros, r.keptMicros, r.added = true, nowMicros, 0, 0
}

// add counts another check of it, and returns a nonce for that.
func (r *requests) add() int64 {
	r.added++
	r.nonce = (r.nonce + 1) & (1<<63 - 1)
	return r.nonce
}

// flush ends the checks of the request.
func (r *requests) flush() {
	if r.added > 0 {
		*r.asked.push() = question{commands: r.added}
		r.added = 0
		r.waiting++
	}
}

// isNews notes that Redis has not decided a check of a request, and reports whether that is
// news of the request.
func (r *requests) isNews(position uint64) bool {
	q := r.asked.at(position)
	if q.failed {
		return false
	}
	q.failed = true
	return true
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
