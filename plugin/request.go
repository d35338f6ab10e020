package main

import (
	"bytes"

	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/decide"
	"github.com/sluiceproxy/sluice/plugin/rule"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// httpRequest is one HTTP request, from its headers to its end. Its whole path is in
// this file; decide/state.go has the states that it goes through.
//
//	OnHttpRequestHeaders   which rules apply? ask the stores about them
//	conclude               every check has its answer: what is the verdict?
//	carryOut               go on, wait for a turn, or answer
//	OnHttpResponseHeaders  show the limits
//	OnHttpStreamDone       it is over, or the client has left
//
// A request that Envoy redirects internally comes again with the same question, see
// redirect.go.
type httpRequest struct {
	types.DefaultHttpContext
	limiter   *limiter
	pool      *requestPool
	question  *decide.Question
	responded bool // response headers have passed
}

// OnHttpRequestHeaders decides the request at once, or pauses it until Redis has
// answered.
func (r *httpRequest) OnHttpRequestHeaders(int, bool) types.Action {
	l, q := r.limiter, r.question
	l.host.running(q.ContextID)
	if r.goesOn() {
		return types.ActionContinue
	}
	applied, exempt := l.rules.Apply(l.view.of(q.ContextID), &l.matcher)
	l.common.notices.warnMissing(l.matcher.Missing())
	l.metrics.matched(applied, exempt)
	if !q.Keep(applied) {
		l.pass(q, len(applied) > 0, exempt)
		return types.ActionContinue
	}
	now := l.now()
	if l.stores.Ask(q, now) {
		l.conclude(q, now)
	} else {
		q.Step(decide.Waits)
	}
	l.wake(now)
	if q.State() == decide.Passed {
		return types.ActionContinue
	}
	return types.ActionPause
}

// pass lets a request go on that no limit applies to: no rule does, or only rules
// whose tier is unlimited.
func (l *limiter) pass(q *decide.Question, unlimited bool, exempt *rule.Rule) {
	outcome, text := answer.None, l.texts[answer.None]
	switch {
	case unlimited:
		outcome, text = answer.Allowed, l.texts[answer.Allowed]
	case exempt != nil:
		outcome, text = answer.Exempt, exempt.Texts[answer.Exempt]
	}
	q.Step(decide.Admitted)
	l.metrics.outcome(outcome)
	l.host.setProperty(q.ContextID, "sluice", text)
	if !l.metrics.pending() {
		l.wake(l.now())
	}
}

// conclude finds the verdict on a request that waits for no answer any more, and
// carries it out. A request whose client has left is concluded like any other,
// but Envoy knows its context no more.
func (l *limiter) conclude(q *decide.Question, now decide.Time) {
	v := l.stores.Conclude(q, now)
	l.offenders.rejected(q)
	l.metrics.outcome(v.Outcome)
	if q.State() != decide.Gone {
		l.host.setProperty(q.ContextID, "sluice", l.text(v))
	}
	l.carryOut(q.Step(v.Event), q, v, now)
}

// carryOut does in Envoy, and in the stores, what a step in the request's life
// asks for. It is the one way on for a paused request, and the one way to answer.
func (l *limiter) carryOut(effect decide.Effect, q *decide.Question, v decide.Verdict, now decide.Time) {
	switch effect {
	case decide.Resume:
		l.host.resumeRequest(q.ContextID)
	case decide.Enqueue:
		l.stores.Hold(q, v.DelayMicros, now)
	case decide.Answer:
		l.answer(q, v)
	case decide.GiveBack:
		l.stores.Leave(q, now)
	case decide.Finish:
		l.stores.Finish(q, l.response.of(q.ContextID), now)
	}
	l.stores.Release(q)
}

// text is what access logs say of a verdict.
func (l *limiter) text(v decide.Verdict) string {
	if v.By != nil {
		return v.By.Rule.Texts[v.Outcome]
	}
	return l.texts[v.Outcome]
}

// answer sends the response in place of the upstream's.
func (l *limiter) answer(q *decide.Question, v decide.Verdict) {
	contentType, _ := l.host.requestHeader(q.ContextID, "content-type")
	grpc := answer.IsGRPC(contentType)
	var a answer.Reply
	if v.Outcome == answer.FailedDeny {
		a = l.answers.Deny(grpc)
	} else {
		l.tellRejected(q, v)
		a = l.reject(q, v.By, grpc)
	}
	l.headers = appendHeaders(l.headers[:0], a.Headers)
	l.host.sendResponse(q.ContextID, a.Status, l.text(v), l.headers, a.Body, a.GRPCStatus)
}

// reject is the answer to a request that a check rejects.
func (l *limiter) reject(q *decide.Question, by *decide.Check, grpc bool) answer.Reply {
	limits, atMicros := l.shown(q)
	if by.By.Blocks() {
		return l.answers.Block(limits, by.LeftMicros, atMicros, grpc)
	}
	return l.answers.Reject(limits, atMicros, grpc)
}

// tellRejected says in filter state whom which limit rejects, for access logs.
func (l *limiter) tellRejected(q *decide.Question, v decide.Verdict) {
	if !l.rejectedState {
		return
	}
	c := v.By
	identity := text.View(c.Tag[bytes.IndexByte(c.Tag, '|')+1:])
	if c.By.Blocks() {
		l.state = answer.AppendBlocked(l.state[:0], c.LeftMicros, identity)
	} else {
		l.shownLimits = l.appendLimits(l.shownLimits[:0], c)
		l.state = answer.AppendRejected(l.state[:0], l.shownLimits, identity)
	}
	l.host.setProperty(q.ContextID, "sluice.rejected", text.View(l.state))
}

// OnHttpResponseHeaders adds the limit headers to the upstream's response.
func (r *httpRequest) OnHttpResponseHeaders(int, bool) types.Action {
	l, q := r.limiter, r.question
	l.host.running(q.ContextID)
	r.responded = true
	if q.Step(decide.ResponseComes) != decide.ShowLimits {
		return types.ActionContinue
	}
	resp := l.response.of(q.ContextID)
	q.Respond(resp)
	if limits, atMicros := l.shown(q); len(limits) > 0 && l.answers.Shows() {
		l.host.setResponseHeaders(q.ContextID, l.answers.Headers(limits, atMicros, resp.limits(l.answers.Names())))
	}
	return types.ActionContinue
}

// shown is what the client is shown: the limits of the enforced rules whose checks
// were decided, and the time of the decisions.
func (l *limiter) shown(q *decide.Question) (limits []answer.Limit, atMicros int64) {
	l.shownLimits = l.shownLimits[:0]
	for i := range q.Checks {
		c := &q.Checks[i]
		if !c.Enforced() || !c.Decided() {
			continue
		}
		atMicros = c.AtMicros
		l.shownLimits = l.appendLimits(l.shownLimits, c)
	}
	if atMicros == 0 && len(l.shownLimits) > 0 { // no store was asked, as a limit is 0
		atMicros = l.host.unixMicros()
	}
	return l.shownLimits, atMicros
}

// appendLimits appends the limits of a check that was decided.
func (l *limiter) appendLimits(dst []answer.Limit, c *decide.Check) []answer.Limit {
	sized := l.stores.Sized(c)
	for j := range c.Decisions {
		if !c.Shown(j) {
			continue
		}
		shown := answer.Limit{Label: &c.Limits.Labels[j], Decision: c.Decisions[j], Blocked: c.By.Blocks()}
		if sized != nil {
			shown.Sized = &sized[j]
		}
		dst = append(dst, shown)
	}
	return dst
}

// OnHttpStreamDone ends the request, perhaps while it waits: its client has left.
func (r *httpRequest) OnHttpStreamDone() {
	l, q := r.limiter, r.question
	l.host.running(q.ContextID)
	if q.State() == decide.Passed && !r.responded && len(q.Checks) > 0 && l.redirects.follows(q) {
		l.endRedirected()
		l.redirects.keep(q)
		if q.Unfinished() { // a tick ends it if no pass follows
			l.wake(l.now())
		}
	} else {
		l.end(q)
	}
	r.pool.recycle(r)
}

// end ends the life of a request in Envoy.
func (l *limiter) end(q *decide.Question) {
	effect, now := q.Step(decide.StreamEnds), decide.Time{}
	acts := effect == decide.GiveBack || effect == decide.Finish && q.Unfinished()
	if acts {
		now = l.now()
	}
	l.carryOut(effect, q, decide.Verdict{}, now)
	if acts {
		l.metrics.batch.Touch() // what is in flight has changed
		l.wake(now)
	}
}

// endRedirected ends a request that was redirected, and whose next pass never came: it
// is on a newer configuration, or a filter in front has answered it.
func (l *limiter) endRedirected() {
	if q := l.redirects.drop(); q != nil {
		l.end(q)
	}
}

// goesOn lets the next pass of a request that was redirected go on as it was decided
// before. It reports whether the request is one.
func (r *httpRequest) goesOn() bool {
	l, fresh := r.limiter, r.question
	q, over := l.redirects.take(fresh.ContextID)
	if over != nil {
		l.end(over)
	}
	if q == nil {
		return false
	}
	l.stores.Drop(fresh)
	r.question = q
	l.host.setProperty(q.ContextID, "sluice", l.text(q.Concluded()))
	return true
}

// requestPool begins the requests of a limiter, with the memory of those that have ended.
type requestPool struct {
	limiter *limiter
	idle    []*httpRequest // to use again
}

// maxIdle bounds how many ended requests are kept for their memory.
const maxIdle = 256

// begin begins a request.
func (s *requestPool) begin(id uint32) *httpRequest {
	var r *httpRequest
	if n := len(s.idle); n > 0 {
		r, s.idle = s.idle[n-1], s.idle[:n-1]
	} else {
		r = new(httpRequest)
	}
	*r = httpRequest{limiter: s.limiter, pool: s, question: s.limiter.stores.Question(id)}
	return r
}

// recycle keeps a request for another one.
func (s *requestPool) recycle(r *httpRequest) {
	r.question = nil
	if len(s.idle) < maxIdle {
		s.idle = append(s.idle, r)
	}
}
