package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluiceproxy/sluice/internal/wasmhost"
	"github.com/sluiceproxy/sluice/plugin/metric"
)

// simRequest is one request of a simulation, as its client and its upstream see it.
type simRequest struct {
	*exchange

	id       int
	instance *instance
	user     string
	cost     int64
	plan     string
	brings   []string // headers that rules ask for
	at       time.Time

	paused   bool
	verdict  time.Time // when the outcome was known
	lostAt   time.Time // when the connection was lost that it waited for; zero: never
	exited   bool
	admitted bool
	outcome  string
	left     bool   // before it was let go, or answered
	status   string // of the upstream's response
	tokens   int64  // that it says; -1: none
	ended    time.Time
	over     []string // the headers that it got as it was over
	certain  bool     // what it was charged is certain: Redis has decided all of it
	lossy    bool     // a fault may have lost what gives back, or charges, some of it

	usedBefore int64 // what the rule "classes" had admitted when it came
}

// applies reports whether a rule counts the request.
func (r *simRequest) applies(rule *simRule) bool {
	if rule.Listed && r.forQuota() {
		return false
	}
	return len(rule.asks) == 0 || slices.Contains(r.brings, rule.asks[0])
}

// forQuota marks requests for the quota, among what they bring.
const forQuota = "quota"

func (r *simRequest) forQuota() bool { return slices.Contains(r.brings, forQuota) }

func (r *simRule) costOf(q *simRequest) int64 {
	if r.cost == nil {
		return 1
	}
	return r.cost(q)
}

// worthOf is the least and the most that a request, which has ended, may have left charged.
func (r *simRule) worthOf(q *simRequest) (least, most int64) {
	cost := r.costOf(q)
	worth := cost
	if r.worth != nil {
		worth = r.worth(q)
	}
	passed := q.left || q.admitted || q.outcome == "quota" // perhaps with a check that stayed undecided
	switch {
	case q.certain && r.charges(q):
		least, most = worth, worth
	case passed && !q.certain: // what a check that stayed undecided charged is given back, or stands
		most = worth
	}
	if q.lossy {
		least, most = min(least, cost), max(most, cost)
	}
	return least, most
}

// charges reports whether a rule charges an admitted request: one that is over, and that nothing pays
// for, does not.
func (r *simRule) charges(q *simRequest) bool {
	return r.over == "" || !slices.Contains(q.over, r.over)
}

// identity is whom a rule counts.
func (r *simRule) identity(q *simRequest) string {
	if r.shared {
		return ""
	}
	return q.user
}

// maxLive is how many requests live at once.
const maxLive = 600

// anyArrives brings a request to one of the workers.
func (v *simulation) anyArrives() {
	if len(v.live) < maxLive {
		v.do("arrive", v.random.IntN(len(v.current)), fmt.Sprint("u", v.random.IntN(v.users)), v.random.IntN(4),
			pick(v.random, plans...), v.anyBrings()+","+pick(v.random, sizes...))
	}
}

// anyBrings is what a request, or a crowd of them, brings of what rules ask for.
func (v *simulation) anyBrings() string {
	brings := []string{"-"}
	for _, rule := range v.config.Rules {
		for _, word := range rule.asks {
			if v.random.IntN(3) < v.often {
				brings = append(brings, word)
			}
		}
	}
	if v.random.IntN(8) == 0 {
		brings = append(brings, forQuota)
	}
	return strings.Join(brings, ",")
}

var (
	plans = []string{"-", "free", "pro", "ours"}
	sizes = []string{"x-limit=4", "x-limit=10", fmt.Sprint("x-limit=", maxSize)} // limits that come with requests
)

// arrive brings a request: to a worker, of a user, with a cost, a plan, and what simRule.asks says. Headers
// have the value 1 unless they say another one.
func (v *simulation) arrive(w words) {
	v.contract(w[1])
	i := v.current[w.number(0)]
	r := &simRequest{
		id: len(v.all), instance: i, at: v.clock.now, tokens: -1, user: w[1], cost: w.number(2), plan: w[3],
		brings: strings.Split(w[4], ","), usedBefore: v.admitted["classes|"],
		exchange: &exchange{Stream: i.NewStream(), t: v.t},
	}
	v.all, v.live, v.waits = append(v.all, r), append(v.live, r), append(v.waits, r)
	v.logf("request %d of %s, cost %d, %v", r.id, r.user, r.cost, r.brings)
	path, query := "/", []string(nil)
	if r.forQuota() {
		path = quotaPath
	}
	headers := []string{"x-user", r.user, "x-cost", w[2]}
	if r.plan != "-" {
		headers = append(headers, "x-plan", r.plan)
	}
	for _, word := range r.brings[1:] {
		name, value, _ := strings.Cut(word, "=")
		switch word[0] {
		case '?':
			query = append(query, word[1:])
		case ';':
			headers = append(headers, "cookie", word[1:])
		default:
			headers = append(headers, name, cmp.Or(value, "1"))
		}
	}
	if query != nil {
		path += "?" + strings.Join(query, "&")
	}
	r.RequestHeaders(wasmhost.Request("GET", path, headers...), true)
	r.paused = r.waits()
	v.look()
}

// isAtUpstream reports whether the upstream has the request, and has not answered.
func (r *simRequest) isAtUpstream() bool {
	return r.admitted && r.status == "" && r.Upstream.Headers != nil
}

// respond lets the upstream answer, with tokens unless they are below 0.
func (v *simulation) respond(r *simRequest, status string, tokens int64) {
	if !r.isAtUpstream() {
		return
	}
	r.status, r.tokens = status, tokens
	var headers []string
	if tokens >= 0 {
		headers = []string{"x-tokens", fmt.Sprint(tokens)}
	}
	v.logf("response %d: %s %v", r.id, r.status, headers)
	r.ResponseHeaders(wasmhost.Response(r.status, headers...), false)
	v.checkShown(r, r.Downstream.Headers, "")
}

// end ends a request's stream, whatever has become of it.
func (v *simulation) end(r *simRequest) {
	v.look()
	r.left = !r.exited
	r.ended = v.clock.now
	v.live = slices.DeleteFunc(v.live, func(o *simRequest) bool { return o == r })
	v.waits = slices.DeleteFunc(v.waits, func(o *simRequest) bool { return o == r })
	v.recent = append(v.recent, r)
	v.logf("end %d, left %v", r.id, r.left)
	if r.left && !slices.Contains(v.current, r.instance) {
		v.untold++
	}
	w := r.instance.worker
	before := v.settlementsLost(w)
	r.Unlogged = !r.left && r.id%3 == 0 // over HTTP/3
	r.End()
	dropped := v.settlementsLost(w) > before
	if dropped {
		recent := 0 // requests whose settlements may be under way
		for _, o := range v.recent {
			if o.instance.worker == w && v.clock.now.Sub(o.ended) < lossTime {
				recent++
			}
		}
		if int64(recent*len(v.config.Rules)) < v.config.Pending {
			v.fail("the settlement of request %d is dropped, though max_pending leaves room for it", r.id)
		}
	}
	if loses := r.left || dropped; loses && v.config.Pending < maxLive {
		r.lossy = true // max_pending bounds the settlements that are under way, too; of one that left it comes later
	}
}

// settlementsLost is how many settlements a worker says were lost since it last told Envoy.
func (v *simulation) settlementsLost(w *worker) (lost int64) {
	for _, l := range v.guests[w].limiters() {
		if l.conn != nil {
			lost += l.metrics.batch.Counted(l.metrics.events[metric.SettlementLost])
		}
	}
	return lost
}

// redirect has Envoy follow a redirection that the upstream has answered with.
func (v *simulation) redirect(r *simRequest) {
	if r.outcome == "none" || !r.isAtUpstream() { // what no rule has decided is decided again
		return
	}
	v.logf("redirect %d", r.id)
	headers := wasmhost.Request("GET", "/again", "x-user", r.user)
	if r.plan != "-" {
		headers = append(headers, [2]string{"x-plan", r.plan})
	}
	r.exchange = &exchange{Stream: r.Redirect(302, headers, true), t: v.t}
	if r.waits() || r.Local != nil {
		v.fail("request %d, which was redirected, was decided again", r.id)
	}
}

// look notes what has become of the requests, and that none waits for too long.
func (v *simulation) look() {
	for _, r := range v.waits {
		v.checkWait(r)
		waits := r.waits()
		if decided := !waits || r.exchange.outcome() != ""; decided && r.verdict.IsZero() {
			r.verdict = v.clock.now
		}
		if !waits {
			v.exit(r)
		}
	}
	v.waits = slices.DeleteFunc(v.waits, func(r *simRequest) bool { return r.exited })
}

// exit notes that a request was let go, or answered.
func (v *simulation) exit(r *simRequest) {
	r.exited, r.outcome, r.admitted = true, r.exchange.outcome(), r.Local == nil
	for _, h := range r.Upstream.Headers {
		if strings.HasPrefix(h[0], "x-over-") {
			r.over = append(r.over, h[0])
		}
	}
	isOver := strings.HasPrefix(r.outcome, "over:") && !v.embeds
	r.certain = r.admitted && (r.byRedis() || isOver)
	v.outcomes[strings.SplitN(r.outcome, ":", 2)[0]]++
	if r.admitted {
		v.passed[r.user]++
	}
	if r.paused || !r.admitted { // else nothing was called for that
		v.exits[r.instance.worker]++
	}
	v.logf("exit %d: %s admitted %v", r.id, r.outcome, r.admitted)
	v.checkExit(r)
	if r.Local != nil {
		v.checkShown(r, r.Local.Headers, string(r.Local.Body))
	}
}
