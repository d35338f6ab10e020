package redis

import (
	"fmt"

	"github.com/sluiceproxy/sluice/algo"
)

// client is a request: a Waiter that checks what it is told.
type client struct {
	rig      *rig
	tags     []string
	tagBytes []byte // as Add was given them
	ticket   uint64
	nonces   []int64
	refused  Cause // by Begin
	decided  []int64
	allowed  []bool
	failures []Cause
	gone     bool // abandoned
	giveBack bool // what Failed returns
	onFailed func()
	onDecide func()
}

// request prepares a request with a check for each tag.
func (r *rig) request(tags ...string) *client {
	return &client{rig: r, tags: tags, tagBytes: make([]byte, 0, 64), decided: make([]int64, len(tags)), allowed: make([]bool, len(tags))}
}

// flush sends the request, if it may wait.
func (w *client) flush() *client {
	c := w.rig.conn
	w.ticket, w.refused = c.Begin(w.rig.now)
	if w.refused != NoCause {
		return w
	}
	for i, tag := range w.tags {
		from := len(w.tagBytes)
		w.tagBytes = append(w.tagBytes, tag...)
		w.nonces = append(w.nonces, c.Add(w, i, w.rig.script, w.tagBytes[from:], 1))
	}
	c.Flush(w.ticket, w.rig.now)
	return w
}

// left is how many decisions have not come.
func (w *client) left() (n int) {
	for _, at := range w.decided {
		if at == 0 {
			n++
		}
	}
	return n
}

// abandon is the client going away.
func (w *client) abandon(giveBack bool) {
	w.gone = true
	w.rig.conn.Abandon(w, w.ticket, w.left(), giveBack)
}

func (w *client) Decided(index int, at int64, decisions []algo.Decision, allowed bool) {
	if w.gone || len(w.failures) > 0 || w.decided[index] != 0 {
		w.rig.t.Errorf("%v: decision %d, and it did not wait for that", w.tags, index)
	}
	if len(decisions) != 1 || decisions[0].Allowed != allowed {
		w.rig.t.Errorf("%v: decisions %+v, allowed %v", w.tags, decisions, allowed)
	}
	w.decided[index], w.allowed[index] = at, allowed
	if w.onDecide != nil {
		w.onDecide()
	}
}

func (w *client) Failed(cause Cause) (outstanding int, giveBack bool) {
	if w.gone || len(w.failures) > 0 || w.left() == 0 {
		w.rig.t.Errorf("%v: failed with %v, and it did not wait", w.tags, cause)
	}
	w.failures = append(w.failures, cause)
	if w.onFailed != nil {
		w.onFailed()
	}
	return w.left() - 1, w.giveBack
}

// wantFailed checks that the request failed, for this cause.
func (w *client) wantFailed(cause Cause) {
	w.rig.t.Helper()
	if len(w.failures) != 1 || w.failures[0] != cause {
		w.rig.t.Errorf("%v: failures %v, want one: %v", w.tags, w.failures, cause)
	}
}

// wantDecided checks that all decisions came, with these Redis times.
func (w *client) wantDecided(at ...int64) {
	w.rig.t.Helper()
	if len(w.failures) > 0 || fmt.Sprint(w.decided) != fmt.Sprint(at) {
		w.rig.t.Errorf("%v: failures %v, decided at %v, want %v", w.tags, w.failures, w.decided, at)
	}
}

// wantWaiting checks that nothing has come of the request yet.
func (w *client) wantWaiting() {
	w.rig.t.Helper()
	if w.refused != NoCause || len(w.failures) > 0 || w.left() != len(w.tags) {
		w.rig.t.Errorf("%v: refused %v, failures %v, decided at %v; want it to wait", w.tags, w.refused, w.failures, w.decided)
	}
}
