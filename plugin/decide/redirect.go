package decide

import "github.com/sluiceproxy/sluice/plugin/must"

// A request that Envoy redirects internally comes again, in a pass with a context of its own,
// and goes on as the one that it was: its client has sent one request, which is decided and
// charged once. Envoy ends the first pass, without a response, and begins the next one in the
// same event.

// passes has the request that Envoy is redirecting; nil if there is none.
type passes struct{ between *Question }

// pop is the request that was kept; nil if none is.
func (p *passes) pop() *Question {
	q := p.between
	must.Hold(q == nil || q.state == Redirected, "who is between two passes was redirected")
	p.between = nil
	return q
}

// Redirect keeps a request that has passed for its next pass, as its stream has ended.
func (w *Worker) Redirect(q *Question, now Time) {
	w.EndRedirected(now)
	w.step(q, Redirects, nil, now)
	if q.Unfinished() { // a tick ends it if no pass follows
		w.wake(now)
	}
}

// Redirected is the request that was kept for its next pass; nil if none is.
func (w *Worker) Redirected() *Question { return w.passes.between }

// Return lets the request that was kept go on in its next pass, in place of the question
// that this pass began with. It returns the request.
func (w *Worker) Return(fresh *Question) *Question {
	q := w.passes.pop()
	q.ContextID = fresh.ContextID
	must.Hold(fresh.state == Arriving && fresh.waiting == 0, "a question that another one replaces was never asked")
	fresh.state = Ended
	w.questions.recycle(fresh)
	w.host.Say(q.ContextID, w.display.text(q.verdict))
	w.step(q, Returns, nil, Time{})
	return q
}

// EndRedirected ends a request that was redirected, and whose next pass never came: it is on
// a newer configuration, or a filter in front has answered it.
func (w *Worker) EndRedirected(now Time) {
	if q := w.passes.pop(); q != nil {
		w.Ends(q, nil, now)
	}
}
