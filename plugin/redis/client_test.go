package redis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// client is a request: a Waiter that checks the order of what it is told.
type client struct {
	rig      *rig
	tags     []string
	tagBytes []byte // as Add was given them
	nonces   []int64
	refused  Cause       // by Begin
	sizes    []algo.Size // with which to ask again; nil: none
	madeFor  []byte      // the override with which to ask again
	resizes  []int64     // Redis' times at which it was asked for them
	notAgain bool        // it does not ask again
	strikes  []algo.Strikes
	kept     int64 // us for which it was kept back in the worker
	gives    bool  // it gives back what it was charged late, or together with a rejection
	checks   []heard
	onCall   func(index int) // in each call of the Waiter
}

// heard records what a client knows of one check.
type heard struct {
	expired bool
	at      int64 // Redis' time of the decision; 0: none
	allowed bool
	given   bool // back
	failed  Cause
}

// String is "waits", "expired", "at 7", "timeout" (or another cause), or what
// came after it expired: "expired, at 7".
func (h heard) String() string {
	s := ""
	switch {
	case h.at != 0:
		s = fmt.Sprintf("at %d", h.at)
	case h.failed != NoCause:
		s = h.failed.String()
	}
	switch {
	case h.expired && s != "":
		return "expired, " + s
	case h.expired:
		return "expired"
	case s == "":
		return "waits"
	}
	return s
}

// over reports whether the check has had its last call.
func (h heard) over() bool { return h.at != 0 || h.failed != NoCause }

// request prepares a request with a check for each tag.
func (r *rig) request(tags ...string) *client {
	return &client{rig: r, tags: tags, tagBytes: make([]byte, 0, 64), checks: make([]heard, len(tags))}
}

// resizable prepares a request that knows other sizes: of testScript's limit a burst
// of 40, which is an argument of the script.
func (r *rig) resizable(tags ...string) *client {
	w := r.request(tags...)
	w.sizes = []algo.Size{{Units: 10, Burst: 40}}
	return w
}

// flush sends the request, if it may wait.
func (w *client) flush() *client {
	c := w.rig.conn
	if w.refused = c.Begin(w.rig.now); w.refused != NoCause {
		w.rig.tell("%s refused: %v", strings.Join(w.tags, " "), w.refused)
		return w
	}
	c.KeptBack(w.kept)
	for i, tag := range w.tags {
		from := len(w.tagBytes)
		w.tagBytes = append(w.tagBytes, tag...)
		w.nonces = append(w.nonces, c.Add(w, i, Check{
			Script: w.rig.script, Demand: rule.Demand{Tag: w.tagBytes[from:]}, Cost: 1, Strikes: w.strikes,
		}))
	}
	c.Flush(w.rig.now)
	return w
}

// charged is the charge of a check that was allowed.
func (w *client) charged(index int) Charge {
	return Charge{
		Script: w.rig.script, Demand: of(w.tags[index]), Cost: 1, Nonce: w.nonces[index],
		AtMicros: w.checks[index].at,
	}
}

// left is how many checks have not had their last call.
func (w *client) left() (n int) {
	for _, h := range w.checks {
		if !h.over() {
			n++
		}
	}
	return n
}

func (w *client) Decided(index int, r *Reply, nowMicros int64) {
	h := w.lastCall(index, nowMicros)
	how := "rejected"
	if r.Allowed {
		how = "allowed"
	}
	w.rig.tell("%s %s at %d%s", w.tags[index], how, r.AtMicros, more(r.Ruling))
	if n := len(w.rig.script.suffixes); len(r.Decisions) != n {
		w.rig.t.Fatalf("%v: decisions %+v, want %d", w.tags, r.Decisions, n)
	}
	if r.By == algo.ByLimits && len(r.Decisions) == 1 {
		testenv.Same(w.rig.t, fmt.Sprintf("%v: that it is allowed", w.tags), r.Allowed, r.Decisions[0].Allowed)
	}
	h.at, h.allowed = r.AtMicros, r.Allowed
	w.called(index)
}

func (w *client) Remake(index int, r *Reply, check *Check, nowMicros int64) Remade {
	if h := w.checks[index]; h.over() || nowMicros != w.rig.now {
		w.rig.t.Errorf("%v: asked for sizes after %v, at %d", w.tags, h, nowMicros)
	}
	w.resizes = append(w.resizes, r.AtMicros)
	switch {
	case w.notAgain:
		return NotAgain
	case w.sizes == nil:
		return NoSense
	case r.OtherOverride:
		check.MadeFor = append(w.madeFor[:0], r.Override...)
		w.madeFor = check.MadeFor
	}
	check.Sizes = w.sizes
	return Again
}

func (w *client) Failed(index int, cause Cause, nowMicros int64) {
	if cause == NoCause && !w.notAgain {
		w.rig.t.Errorf("%v: check %d failed without a cause", w.tags, index)
	}
	w.rig.tell("%s failed: %v", w.tags[index], cause)
	w.lastCall(index, nowMicros).failed = cause
	w.called(index)
}

func (w *client) Expired(index int, nowMicros int64) {
	w.rig.tell("%s expired", w.tags[index])
	h := w.lastCall(index, nowMicros)
	if h.expired {
		w.rig.t.Errorf("%v: check %d expired twice", w.tags, index)
	}
	h.expired = true
	w.called(index)
}

// lastCall is the check that is called, which must not have had its last call.
func (w *client) lastCall(index int, nowMicros int64) *heard {
	h := &w.checks[index]
	if h.over() {
		w.rig.t.Errorf("%v: check %d was called again after its last call: %v", w.tags, index, h)
	}
	if nowMicros != w.rig.now {
		w.rig.t.Errorf("%v: called at %d, and it is %d", w.tags, nowMicros, w.rig.now)
	}
	return h
}

func (w *client) called(index int) {
	if w.onCall != nil {
		w.onCall(index)
	}
	rejected := slices.ContainsFunc(w.checks, func(h heard) bool { return h.at != 0 && !h.allowed && !h.expired })
	for i := range w.checks {
		h := &w.checks[i]
		if due := h.expired || rejected; w.gives && due && h.allowed && !h.given {
			h.given = true
			w.rig.conn.Refund(w.charged(i), w.rig.now)
		}
	}
}

// more is what a ruling says beyond that it allows or rejects.
func more(r algo.Ruling) (s string) {
	if r.By != algo.ByLimits {
		s += " by " + map[algo.By]string{algo.ByFree: "free", algo.ByBlock: "block", algo.ByPenalty: "penalty"}[r.By]
	}
	if r.LeftMicros != 0 {
		s += fmt.Sprintf(", %d us left", r.LeftMicros)
	}
	if r.EarnedMicros != 0 {
		s += fmt.Sprintf(", earns %d us", r.EarnedMicros)
	}
	if r.Ignored {
		s += ", ignores"
	}
	return s
}

// want checks what has become of each check.
func (w *client) want(states ...string) {
	w.rig.t.Helper()
	got := make([]string, len(w.checks))
	for i, h := range w.checks {
		got[i] = h.String()
	}
	if w.refused != NoCause || !slices.Equal(got, states) {
		w.rig.t.Errorf("%v: refused: %v, checks %q, want %q", w.tags, w.refused, got, states)
	}
}

// wantAll checks that the same has become of all checks.
func (w *client) wantAll(state string) {
	w.rig.t.Helper()
	w.want(slices.Repeat([]string{state}, len(w.checks))...)
}
