package main

import (
	"math/bits"
	"slices"
	"strconv"

	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/decide"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// httpRequest is one HTTP request, from its headers to its end: Envoy's callbacks. What they
// mean is in decide: decide/worker.go owns the request, decide/state.go has the states that it
// goes through.
//
//	OnHttpRequestHeaders   which rules apply? Worker.Arrive decides, or pauses the request;
//	                       Worker.goOn takes it up when Redis has answered
//	OnHttpResponseHeaders  show the limits
//	OnHttpStreamDone       it is over, or the client has left, or Envoy redirects it
//
// What a decision does in Envoy is in limiter.go.
type httpRequest struct {
	types.DefaultHttpContext
	limiter  *limiter
	question *decide.Question
}

// OnHttpRequestHeaders decides the request at once, or pauses it until Redis has answered.
func (r *httpRequest) OnHttpRequestHeaders(int, bool) types.Action {
	l, q := r.limiter, r.question
	l.host.running(q.ContextID)

	// It may be the next pass of a request that Envoy redirected: see decide/redirect.go. Filter state proves it, as
	// no client can set it; x-envoy-original-url proves nothing. Nothing comes between the two passes, so otherwise
	// the one that was redirected is over.
	if was := l.worker.Redirected(); was != nil {
		mark, _ := l.host.property(q.ContextID, l.mark)
		if string(mark) == strconv.FormatUint(uint64(was.ContextID), 10) {
			r.question = l.worker.Return(q)
			return types.ActionContinue
		}
		l.metrics.batch.Touch() // what is in flight changes
		l.worker.EndRedirected(l.now())
	}

	if len(l.rules.OverHeaders) > 0 {
		l.strip(q.ContextID)
	}
	applied, exempt, asking := l.rules.Apply(l.view.of(q.ContextID), &l.matcher)
	if missing := l.matcher.Missing(); missing != nil {
		l.vm.notices.sayOnce(logWarn, missingText(missing))
	}
	if exempt != nil {
		l.metrics.batch.Inc(l.metrics.rules[exempt.ID][answer.Exempt])
	}
	for i := range applied {
		if a := &applied[i]; a.Limits == nil && !a.Rule.Reports { // an unlimited tier
			l.metrics.batch.Inc(l.metrics.rules[a.Rule.ID][answer.Allowed])
		}
	}
	decides := q.Keep(applied)
	if asking != rule.NotForQuota {
		q.Reports(asking)
		decides = true
	}
	if decides {
		if l.worker.Arrive(q, l.now()) == decide.Continue {
			return types.ActionContinue
		}
		return types.ActionPause
	}

	// No limit applies: no rule does, or only rules whose tier is unlimited.
	outcome, text := answer.None, l.texts[answer.None]
	switch {
	case len(applied) > 0:
		outcome, text = answer.Allowed, l.texts[answer.Allowed]
	case exempt != nil:
		outcome, text = answer.Exempt, exempt.Texts[answer.Exempt]
	}
	l.worker.Pass(q, text)
	l.metrics.outcome(outcome)
	if !l.metrics.batch.Pending() {
		l.wake(l.now())
	}
	return types.ActionContinue
}

// OnHttpResponseHeaders adds the limit headers to the upstream's response.
func (r *httpRequest) OnHttpResponseHeaders(int, bool) types.Action {
	l, q := r.limiter, r.question
	l.host.running(q.ContextID)
	resp := l.response.of(q.ContextID)
	limits, atMicros := l.worker.Responds(q, resp)
	xRateLimit, draft := l.answers.Shows()
	if len(limits) == 0 || !xRateLimit && !draft {
		return types.ActionContinue
	}

	// The upstream's own limit headers stay if it rejected the request: its 429 is about those. Of each family
	// one header is looked for, which an upstream cannot go without. Envoy says that it is absent for a sixth of
	// what a value takes, such as the status.
	var up answer.Upstream
	if resp.status == unread || resp.status == 429 {
		hasDraft := false
		if xRateLimit {
			_, up.XRateLimit = resp.Header("x-ratelimit-limit")
		}
		if draft {
			up.Limit, hasDraft = resp.Header("ratelimit")
		}
		if (up.XRateLimit || hasDraft) && resp.Status() != 429 {
			up = answer.Upstream{}
		} else if hasDraft {
			up.Policy, _ = resp.Header("ratelimit-policy")
		}
	}
	l.host.setHeaders(q.ContextID, responseHeader, l.answers.Headers(limits, l.told(atMicros), up))
	return types.ActionContinue
}

// OnHttpStreamDone ends the request, perhaps while it waits: its client has left. It is called when Envoy logs the
// stream, while all that a settlement reads is there, and when its filters end. Of HTTP/3 Envoy logs a stream when
// its client has acknowledged the last byte, and then no filter hears of it: the end of its filters is the first call.
func (r *httpRequest) OnHttpStreamDone() {
	l, q := r.limiter, r.question
	if q == nil {
		return
	}
	l.host.running(q.ContextID)
	redirected := false
	if q.State() == decide.Passed && len(q.Checks) > 0 {
		details, _ := l.host.property(q.ContextID, "response\x00code_details")
		redirected = string(details) == "internal_redirect"
	}
	switch {
	case redirected: // another pass follows, see decide/redirect.go
		l.host.setProperty(q.ContextID, l.mark, strconv.FormatUint(uint64(q.ContextID), 10))
		l.worker.Redirect(q, l.now())
	case q.Unfinished():
		l.metrics.batch.Touch() // what is in flight changes
		l.worker.Ends(q, l.response.of(q.ContextID), l.now())
	default:
		l.worker.Ends(q, nil, decide.Time{})
	}
	r.question = nil
	if len(l.idle) < maxIdleRequests {
		l.idle = append(l.idle, r)
	}
}

// Bound: ended requests kept for the next ones. Beyond it, the memory of an ended request is freed.
// Protects memory after a burst.
const maxIdleRequests = 256

// begin begins a request, with the memory of one that has ended.
func (l *limiter) begin(id uint32) *httpRequest {
	if l.untried != nil {
		l.tryRedis()
	}
	var r *httpRequest
	if n := len(l.idle); n > 0 {
		r, l.idle = l.idle[n-1], l.idle[:n-1]
	} else {
		r = new(httpRequest)
	}
	*r = httpRequest{limiter: l, question: l.worker.Question(id)}
	return r
}

// tryRedis tries Redis (plugin/redis, startup_check.go) with the first request: this VM serves requests, while
// that of Envoy's main thread, which cannot reach an internal listener, never does. Updates of the rules
// alone, which may come several a second, need no connection for that, but for one that brings the first
// overrides.
//
//go:noinline
func (l *limiter) tryRedis() {
	v, this := l.vm, attempt{*l.untried.Redis, l.untried.UsesOverrides()}
	l.untried = nil
	if slices.Contains(v.tried, this) {
		return
	}
	if len(v.tried) == maxTrials {
		v.tried = v.tried[1:]
	}
	v.tried = append(v.tried, this)
	l.conn.Try()
	l.wake(l.now())
}

// streams are the requests of a VM by the ids of their contexts. It is an open table with linear
// probing, at most half full. A request looks itself up in each callback, and Go's maps take several
// times the instructions.
type streams struct {
	places []place
	used   int
}

// place is a place of the table, free if it has no request.
type place struct {
	id      uint32
	request *httpRequest
}

func (p *place) free() bool { return p.request == nil }

// leastPlaces is the size of a table that has streams, a power of two as all sizes are.
//
// Bound: places of the smallest table of streams. Below it, the table does not shrink. Protects the
// table from growing again at once.
const leastPlaces = 16

// home is where the search for an id begins. Ids follow each other, so they are spread by the
// fraction of the golden ratio.
//
//go:inline
func (s *streams) home(id uint32) int {
	return int(id * 0x9e3779b1 >> (33 - bits.Len(uint(len(s.places)))))
}

//
//go:inline
func (s *streams) next(i int) int { return (i + 1) & (len(s.places) - 1) }

// find is the place of an id, or the free one where it would be.
//
//go:inline
func (s *streams) find(id uint32) int {
	i := s.home(id)
	for s.places[i].id != id && !s.places[i].free() {
		i = s.next(i)
	}
	return i
}

// get returns the request of an id, or nil.
func (s *streams) get(id uint32) *httpRequest {
	if len(s.places) == 0 {
		return nil
	}
	return s.places[s.find(id)].request
}

// put adds a request.
func (s *streams) put(id uint32, request *httpRequest) {
	if old := s.places; 2*(s.used+1) > len(old) {
		s.places = make([]place, max(leastPlaces, 2*len(old)))
		for i := range old {
			if !old[i].free() {
				s.places[s.find(old[i].id)] = old[i]
			}
		}
	}
	i := s.find(id)
	if s.places[i].free() {
		s.used++
	}
	s.places[i] = place{id, request}
}

// remove takes a stream out, if it is there, and moves those behind it up that were searched for
// across its place.
func (s *streams) remove(id uint32) {
	if s.used == 0 {
		return
	}
	hole := s.find(id)
	if s.places[hole].free() {
		return
	}
	for i := s.next(hole); !s.places[i].free(); i = s.next(i) {
		mask := len(s.places) - 1
		if home := s.home(s.places[i].id); (i-home)&mask >= (i-hole)&mask {
			s.places[hole] = s.places[i]
			hole = i
		}
	}
	s.places[hole] = place{}
	s.used--
}
