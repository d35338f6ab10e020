package redis

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// client is a request: a Waiter that checks the order of what it is told.
type client struct {
	rig     *rig
	tags    []string
	charges []Charge // of its checks, with the time once they are decided
	refused Cause    // by Begin
	sentAt  int64
	kept    int64    // us for which it was kept back in the worker
	heard   []string // of each check: nothing, "expired", "allowed at 7", "failed: timeout", "expired, allowed at 7"

	sizes    []algo.Size // with which to ask again; nil: none
	notAgain bool        // it does not ask again
	refunds  bool        // a charge in each call

	decision algo.Decision // of the first limit of what was decided last
}

// ask sends a request with a check for each tag, if it may wait.
//
//	+sizes    it knows other sizes: of the plain rule a burst of 40, which is an argument of its script
//	+once     it does not ask again
//	+refunds  it gives a charge back in each call
//	+cost=    other units than 1;  +kept=  it was kept back for so long;  +strikes=  age:count
func (r *rig) ask(words ...string) *client {
	w := &client{rig: r, sentAt: r.now}
	cost, strikes := int64(1), []algo.Strikes(nil)
	for _, word := range words {
		switch name, value, _ := strings.Cut(word, "="); name {
		case "+sizes":
			w.sizes = []algo.Size{{Units: 10, Burst: 40}}
		case "+once":
			w.notAgain = true
		case "+refunds":
			w.refunds = true
		case "+cost":
			cost = r.number(value)
		case "+kept":
			w.kept = r.micros(value)
		case "+strikes":
			age, count, _ := strings.Cut(value, ":")
			strikes = []algo.Strikes{{AgeMicros: r.number(age), Count: r.number(count)}}
		default:
			w.tags = append(w.tags, word)
		}
	}
	if w.refused = r.conn.Begin(r.now); w.refused != NoCause {
		r.tell("%s refused: %v", strings.Join(w.tags, " "), w.refused)
		return w
	}
	r.clients = append(r.clients, w)
	w.heard = make([]string, len(w.tags))
	r.conn.KeptBack(w.kept)
	for i, name := range w.tags {
		tag := []byte(name)
		check := Check{Script: r.script, Demand: rule.Demand{Tag: tag}, Cost: cost, Strikes: strikes}
		w.charges = append(w.charges, Charge{Script: r.script, Demand: of(name), Cost: cost, Nonce: r.conn.Add(w, i, check)})
		clear(tag) // a Waiter may use it again once Add has returned
	}
	clear(strikes)
	r.conn.Flush(r.now)
	return w
}

// over reports whether a check that has heard this has had its last call.
func over(heard string) bool { return heard != "" && heard != "expired" }

func (w *client) Decided(index int, r *Reply, nowMicros int64) {
	what := map[bool]string{true: "allowed", false: "rejected"}[r.Allowed] + fmt.Sprint(" at ", r.AtMicros)
	if more := r.Ruling; more.By != algo.ByLimits || more.LeftMicros != 0 || more.EarnedMicros != 0 || more.Ignored {
		what += fmt.Sprintf(" %+v", more)
	}
	testenv.Same(w.rig.t, "the number of decisions", len(r.Decisions), len(w.rig.script.suffixes))
	if r.By == algo.ByLimits && len(r.Decisions) == 1 {
		testenv.Same(w.rig.t, what+": that its limit allows it", r.Decisions[0].Allowed, r.Allowed)
	}
	if number, err := strconv.ParseInt(w.tags[index], 10, 64); err == nil { // see good
		testenv.Same(w.rig.t, "the time of the decision about "+w.tags[index], r.AtMicros, number)
	}
	w.charges[index].AtMicros, w.decision = r.AtMicros, r.Decisions[0]
	w.hear(index, what, nowMicros)
}

func (w *client) Failed(index int, cause Cause, nowMicros int64) {
	testenv.Same(w.rig.t, "that a check fails without a cause", cause == NoCause, w.notAgain)
	w.hear(index, "failed: "+cause.String(), nowMicros)
}

func (w *client) Expired(index int, nowMicros int64) {
	if age := nowMicros - w.sentAt + w.kept; age < w.rig.conn.options.TimeoutMicros {
		w.rig.t.Errorf("%v: expired after %d us", w.tags, age)
	}
	w.hear(index, "expired", nowMicros)
}

// hear notes a call about a check: its last one, or that it has expired.
func (w *client) hear(index int, what string, nowMicros int64) {
	r, h := w.rig, &w.heard[index]
	if again := *h == what || over(*h); again || nowMicros != r.now {
		r.t.Errorf("%v: check %d hears %q at %d, and it is %d; it has heard %q", w.tags, index, what, nowMicros, r.now, *h)
	}
	r.tell("%s %s", w.tags[index], what)
	*h = strings.TrimPrefix(*h+", "+what, ", ")
	if w.refunds {
		charge := w.charges[index]
		charge.AtMicros = max(charge.AtMicros, 1)
		r.conn.Refund(charge, r.now)
	}
}

func (w *client) Remake(index int, r *Reply, check *Check, nowMicros int64) Remade {
	if h := w.heard[index]; over(h) || nowMicros != w.rig.now {
		w.rig.t.Errorf("%v: asked for sizes after %q, at %d", w.tags, h, nowMicros)
	}
	switch {
	case w.notAgain:
		return NotAgain
	case w.sizes == nil:
		return NoSense
	case r.OtherOverride:
		check.MadeFor = slices.Clone(r.Override)
	}
	check.Sizes = w.sizes
	return Again
}

// of is a demand by its tag: of a cost of each limit, and limits as configured.
func of(tag string) rule.Demand { return rule.Demand{Tag: []byte(tag)} }
