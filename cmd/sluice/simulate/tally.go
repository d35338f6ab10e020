package simulate

import (
	"slices"
	"strings"

	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/decide"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/redis"
)

// buckets is how many parts of the time a picture shows.
const buckets = 120

// tally counts what happens.
type tally struct {
	Report   // what is counted on the way
	world    *World
	outcomes [answer.Outcomes]int64
	groups   map[int]*GroupReport
	rules    map[string]*RuleReport
	events   [metric.Events]int64
	waits    []int64 // us that requests were paused, a sample
	lines    map[string]int64
	samples  []*explain.Request // see sample
}

// recent is how much an identity was admitted within the last window.
type recent struct {
	at    []int64
	units []int64
	sum   int64
}

func newTally(w *World) *tally {
	t := &tally{world: w, groups: map[int]*GroupReport{}, rules: map[string]*RuleReport{}, lines: map[string]int64{}}
	t.Chart = make([]Bucket, buckets)
	for i := range w.cfg.Rules {
		r := &w.cfg.Rules[i]
		t.rules[r.Name] = &RuleReport{Rule: r.Name, Mode: explain.Mode(r)}
	}
	for _, set := range w.rules.LimitSets {
		of := t.rules[set.Rule.Name]
		for i, l := range explain.Limits(set) {
			of.Limits = append(of.Limits, LimitReport{l, 0, set.Limits[i].WindowMicros, map[string]*recent{}})
		}
	}
	return t
}

func (t *tally) group(r *request) *GroupReport {
	g := t.groups[r.group]
	if g == nil {
		g = &GroupReport{Name: "log"}
		if r.client != nil {
			g.Name = r.client.Name
		}
		t.groups[r.group] = g
	}
	return g
}

// maxSample bounds how many waits are remembered.
const maxSample = 200_000

func (t *tally) concluded(r *request, q *decide.Question, v decide.Verdict, now int64) {
	t.outcomes[v.Outcome]++
	if len(t.waits) < maxSample {
		t.waits = append(t.waits, now-r.atMicros)
	} else {
		t.waits[t.Requests%maxSample] = now - r.atMicros
	}
	part := (now - epochMicros) * buckets / max(1, t.world.end-epochMicros)
	b, g := &t.Chart[min(max(part, 0), buckets-1)], t.group(r)
	in, of := &b.Rejected, &g.Rejected
	switch {
	case v.Outcome == answer.FailedAllow:
		in, of = &b.Undecided, &g.Admitted
	case admits(v.Outcome):
		in, of = &b.Admitted, &g.Admitted
	case v.Outcome == answer.FailedDeny:
		in, of = &b.Refused, &g.Refused
	}
	*in, *of = *in+1, *of+1
	if q == nil {
		return
	}
	for i := range q.Checks {
		if c := &q.Checks[i]; !c.Rule.Reports {
			t.check(c, admits(v.Outcome), now)
		}
	}
}

// check counts one rule's check, and what the identity was admitted.
func (t *tally) check(c *decide.Check, admitted bool, now int64) {
	of := t.rules[c.Rule.Name]
	of.Checked++
	switch {
	case c.Over:
		of.Over++
	case c.Status == decide.Rejected && !c.Rule.Enforced:
		of.Shadow++
	case c.Status == decide.Rejected:
		of.Rejected++
	case admitted:
		of.Admitted++
	}
	if !admitted || c.Status == decide.Rejected { // a rule that is over charges nothing
		return
	}
	own := c.Limits.Plan.Own()
	for n := range of.Limits {
		l := &of.Limits[n]
		for i := range c.Limits.Limits {
			other := &c.Limits.Limits[i]
			// If it is over, other limits have paid, or need not.
			if c.Over != (i < own) && c.Costs[i] != 0 && l.Name == other.Name && l.Capacity == other.Capacity() {
				l.admit(string(c.Tag), c.Costs[i], now)
			}
		}
	}
}

// admit counts units of an identity.
func (l *LimitReport) admit(tag string, units, now int64) {
	if l.recent[tag] == nil {
		l.recent[tag] = &recent{}
	}
	r := l.recent[tag]
	for len(r.at) > 0 && r.at[0] <= now-l.window {
		r.sum -= r.units[0]
		r.at, r.units = r.at[1:], r.units[1:]
	}
	r.at, r.units, r.sum = append(r.at, now), append(r.units, units), r.sum+units
	l.MostInWindow = max(l.MostInWindow, r.sum)
}

// logged counts a line of the log, without the pause at its end, which is another
// each time.
func (t *tally) logged(line string) {
	line, _, _ = strings.Cut(line, ", next probe in")
	t.lines[line]++
}

// Count implements decide.Recorder.
func (k *worker) Count(e metric.Event, n int64) { k.world.tally.events[e] += n }

// RequestFailed implements decide.Recorder.
func (k *worker) RequestFailed(redis.Cause) { k.world.server.Failures++ }

// OverrideIgnored implements decide.Recorder.
func (k *worker) OverrideIgnored([]byte) {}

// RoundTrip implements decide.Recorder.
func (k *worker) RoundTrip(int64) {}

// BreakerChanged implements decide.Recorder.
func (k *worker) BreakerChanged(state redis.BreakerState) {
	if k.breaker == redis.Closed && state == redis.Open {
		k.world.tally.events[metric.BreakerOpened]++
	}
	k.breaker = state
}

// Concluded implements decide.Recorder.
func (k *worker) Concluded(q *decide.Question, v decide.Verdict) {
	k.world.concluded(k.waiting[q.ContextID], q, v)
}

// percentile is the p-th percentile of the waits, in us.
func (t *tally) percentile(p float64) int64 {
	if len(t.waits) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(t.waits))
	return sorted[int(p*float64(len(sorted)-1))]
}
