package main

import (
	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// request is one HTTP request, from its headers to its end. It is used again
// for later ones, with the memory it has.
//
//	OnHttpRequestHeaders   which rules apply, and ask the store
//	Decided                one rule's answer; the last one concludes
//	Failed                 no answer: the failure mode decides
//	conclude               let it go on, hold it, or reject it
//	OnHttpResponseHeaders  the limit headers
type request struct {
	types.DefaultHttpContext
	limiter *limiter
	id      uint32

	checks    []check
	decisions []algo.Decision // of all checks, in rule order
	tags      []byte          // of all checks
	limits    []answer.Limit  // what the client is shown

	ticket      uint64 // of the checks that wait for Redis
	outstanding int    // decisions that have not come
	paused      bool   // Envoy waits for resumeRequest or sendResponse
	answered    bool   // a local response was sent
	local       bool   // decided by the embedded store, as Redis failed
	atMicros    int64  // the decisions' time on the store's clock
	held        hold   // the place in the queue, if it has to wait for its turn
}

// OnHttpRequestHeaders decides the request, at once or when Redis has answered.
func (r *request) OnHttpRequestHeaders(int, bool) types.Action {
	l := r.limiter
	applied, exempt := l.rules.Apply(&l.view, &l.matcher)
	warnMissing(l.matcher.Missing())
	l.metrics.matched(applied, exempt)
	r.keep(applied)
	if len(r.checks) == 0 {
		r.pass(len(applied) > 0, exempt)
		return types.ActionContinue
	}
	l.take(r)
	if r.outstanding > 0 || r.held.waits || r.answered {
		r.paused = true
		return types.ActionPause
	}
	return types.ActionContinue
}

// pass lets a request go on that no limit applies to: no rule does, or only rules
// whose tier is unlimited.
func (r *request) pass(unlimited bool, exempt *rule.Rule) {
	l := r.limiter
	switch {
	case unlimited:
		l.outcome(passed, answer.Allowed)
	case exempt != nil:
		l.outcome(exempted, exempt.Outcomes.Exempt)
	default:
		l.outcome(unmatched, answer.None)
	}
	if !l.metrics.pending() {
		l.wake(steadyMicros())
	}
}

// Decided brings Redis' answer to one check.
func (r *request) Decided(index int, atMicros int64, decisions []algo.Decision, allowed bool) {
	c := &r.checks[index]
	copy(c.decisions, decisions)
	c.atMicros, c.allowed, c.decided = atMicros, allowed, true
	if allowed {
		c.chargedRedis = atMicros
	}
	if c.lease != nil {
		c.lease.Heard(&c.decisions[0], steadyMicros())
	}
	if r.outstanding--; r.outstanding == 0 {
		r.conclude()
	}
}

// Failed applies the failure mode. What Redis has charged, or is about to, is
// given back unless the request goes on.
func (r *request) Failed(redis.Cause) (outstanding int, giveBack bool) {
	outstanding, r.outstanding = r.outstanding-1, 0
	if r.limiter.failureMode == config.FailLocal {
		r.local = true
		r.limiter.takeLocal(r)
	} else {
		r.fail()
	}
	return outstanding, r.answered || r.limiter.failureMode == config.FailDeny
}

// fail lets the request go on, or denies it, undecided.
func (r *request) fail() {
	l := r.limiter
	if l.postponed(r, toFail) {
		return
	}
	for i := range r.checks {
		r.checks[i].decided = false
	}
	if l.failureMode == config.FailDeny {
		l.refund(r)
		l.metrics.undecided(r, failedDeny)
		r.reply(l.answers.Deny(r.isGRPC()), failedDeny, answer.FailedDeny)
		return
	}
	l.metrics.undecided(r, failedAllow)
	enter(r.id)
	l.outcome(failedAllow, answer.FailedAllow)
	r.proceed()
}

// conclude acts on the decisions of all checks.
func (r *request) conclude() {
	l := r.limiter
	if l.postponed(r, toConclude) {
		return
	}
	by := r.rejecting()
	l.metrics.decided(r, by == nil)
	l.offenders.rejected(r)
	if by != nil {
		r.uncharge()
		l.refund(r)
		l.remember(r)
		r.show()
		o, text := limited, by.rule.Outcomes.Limited
		if r.local {
			o, text = localLimited, by.rule.Outcomes.LocalLimited
		}
		r.reply(l.answers.Reject(r.limits, r.atMicros, r.isGRPC()), o, text)
		return
	}
	enter(r.id)
	l.outcome(r.allowedOutcome())
	if delay := r.delayMicros(); delay > 0 {
		l.metrics.count(requestHeld, 1)
		l.queue.hold(r, steadyMicros()+delay, toProceed)
		return
	}
	r.proceed()
}

// proceed is the one way on for a request. Its context has been entered.
func (r *request) proceed() {
	if r.paused {
		r.paused = false
		resumeRequest()
	}
}

// isGRPC says whether the request is gRPC, and enters its context: a paused
// request's headers can be read as long as it is paused.
func (r *request) isGRPC() bool {
	enter(r.id)
	contentType, _ := requestHeader("content-type")
	return answer.IsGRPC(contentType)
}

// reply is the one way to answer a request. Its context has been entered.
func (r *request) reply(a answer.Reply, o outcome, text string) {
	r.answered = true
	l := r.limiter
	l.outcome(o, text)
	l.headers = appendHeaders(l.headers[:0], a.Headers)
	sendResponse(a.Status, text, l.headers, a.Body, a.GRPCStatus)
}

// OnHttpResponseHeaders adds the limit headers, in place of the upstream's.
func (r *request) OnHttpResponseHeaders(int, bool) types.Action {
	if r.answered || !r.decided() {
		return types.ActionContinue
	}
	r.show()
	for _, h := range r.limiter.answers.Headers(r.limits, r.atMicros) {
		setResponseHeader(h[0], h[1])
	}
	return types.ActionContinue
}

// OnHttpStreamDone ends the request, perhaps while it waits: its client is gone.
func (r *request) OnHttpStreamDone() {
	r.limiter.forget(r)
}
