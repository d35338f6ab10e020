package main

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/metric"
)

// What must hold at each step, and when all is over.

// tickMillis is how often a limiter looks at what waits at the rarest, see redis.tickMicros.
func tickOf(timeout time.Duration) time.Duration {
	return min(max((timeout/4+time.Millisecond-1)/time.Millisecond*time.Millisecond, 4*time.Millisecond),
		20*time.Millisecond)
}

// timerStep is how much later a tick may come than was asked for, see timer.tickWithin.
const timerStep = time.Millisecond

// maxExits is how many paused requests one callback lets go on, see decide.Worker.
const maxExits = 50

// maxQueue is how long a rule's queue holds a request at most.
const maxQueue = 120 * time.Millisecond

// checkWait fails if a request has waited for longer than it ever may: the timeout and one
// tick for its verdict, and then what its turn in a queue takes, and a tick.
func (v *simulation) checkWait(r *simRequest) {
	now, tick := v.clock.now, tickOf(v.config.timeout)+timerStep
	if limit := v.config.timeout + tick; r.verdict.IsZero() && now.Sub(r.at) > limit {
		v.fail("request %d waits for its verdict for %v, want %v at most; with it wait %d", r.id, now.Sub(r.at),
			limit, len(v.waits))
	}
	lost := r.verdict.IsZero() && !r.lostAt.IsZero()
	if limit := 4 * timerStep; lost && now.Sub(r.lostAt) > limit {
		v.fail("request %d waits for a connection that was lost %v ago, want %v at most", r.id, now.Sub(r.lostAt), limit)
	}
	if limit := maxQueue + tick; !r.verdict.IsZero() && now.Sub(r.verdict) > limit {
		v.fail("request %d is held for %v, want %v at most", r.id, now.Sub(r.verdict), limit)
	}
}

// checkAdmitted fails if a request was admitted beyond what its rules may admit.
func (v *simulation) checkAdmitted(r *simRequest) {
	if !r.certain {
		return
	}
	for _, rule := range v.config.rules {
		if !r.applies(rule) || !rule.charges(r) {
			continue
		}
		key := rule.name + "|" + rule.identity(r)
		v.admitted[key] += rule.costOf(r)
		held := rule.total > 0 && !v.forgot()
		if held && v.admitted[key] > rule.total+v.flowsBack(rule) {
			v.fail("%s: admitted %d, the limit is %d", key, v.admitted[key], rule.total)
		}
		if blocked := v.blocked[r.user] && r.at.After(v.blockedAt); blocked && slices.Contains(operatedRules, rule.name) {
			v.fail("request %d of %s, who is blocked, was admitted", r.id, r.user)
		}
	}
}

// checkFree fails if a rule that charges a request nothing has rejected it.
func (v *simulation) checkFree(r *simRequest) {
	for _, rule := range v.config.rules {
		if r.rejectedBy(rule) && rule.costOf(r) == 0 {
			v.fail("request %d, which costs nothing there, was rejected by %s", r.id, rule.name)
		}
	}
}

// rejectedBy reports whether a rule has rejected the request.
func (r *simRequest) rejectedBy(rule *simRule) bool {
	return r.outcome == "limited:"+rule.name || r.outcome == "local:limited:"+rule.name
}

// remembered is an identity of which a worker's configuration has heard from Redis that it is rejected.
type remembered struct {
	worker   *worker
	instance *instance
	rule     string
	user     string
}

// rejection is when that was, and how many requests had come by then.
type rejection struct {
	at   time.Time
	came int
}

// checkMemory fails if a request was admitted that its worker must remember as rejected: it has
// heard nothing of Redis since.
func (v *simulation) checkMemory(r *simRequest) {
	holds := 100 * time.Millisecond // another rule may give back what has rejected
	if len(v.config.rules) == 1 {
		holds = 10 * time.Second
	}
	for _, rule := range v.config.rules {
		m := remembered{r.instance.worker, r.instance, rule.name, rule.identity(r)}
		was, known := v.rejected[m]
		isRejected := known && r.applies(rule) && r.id >= was.came && r.at.Before(was.at.Add(holds))
		if r.admitted && isRejected {
			v.fail("request %d of %s was admitted, which %s has rejected %v before", r.id, r.user, rule.name,
				r.at.Sub(was.at))
		}
		fills := strings.Contains(rule.text, `"fixed_window"`) || strings.Contains(rule.text, `"sliding_window_log"`)
		isKnown := rule.name == "quota" && r.paused && r.outcome == "limited:"+rule.name && v.config.denied > maxLive &&
			v.config.pending > maxLive
		if isKnown && fills {
			v.rejected[m] = rejection{v.clock.now, len(v.all)}
		}
	}
}

// byRedis reports whether all checks of an admitted request were decided.
func (r *simRequest) byRedis() bool {
	return r.outcome == "allowed" || strings.HasPrefix(r.outcome, "shadow:")
}

// forgot reports whether Redis has lost what it had, or has set it to another time.
func (v *simulation) forgot() bool { return v.emptied || v.jumped }

// flowsBack is how much a bucket has got back since the beginning.
func (v *simulation) flowsBack(r *simRule) int64 {
	if r.rate > 0 {
		elapsed := v.clock.now.Sub(v.began)
		if !v.config.redis {
			elapsed += time.Second // by which the clocks of workers may differ
		}
		return int64(elapsed)*r.rate/int64(time.Second) + 1
	}
	if !strings.Contains(r.text, "gcra") && !strings.Contains(r.text, "bucket") {
		return 0
	}
	return int64(v.clock.now.Sub(v.began))*r.total/int64(24*time.Hour) + 1
}

// checkStep checks what must hold after each step.
func (v *simulation) checkStep() {
	v.checkFlight()
	for _, w := range v.workers {
		v.checkLog(w)
		calls := w.host.Calls["proxy_continue_stream"] + w.host.Calls["proxy_send_local_response"]
		if calls != v.exits[w] {
			v.fail("%d requests were let go or answered by %d calls", v.exits[w], calls)
		}
		if w.host.Err() != nil {
			v.fail("the plugin has died: %v", w.host.Err())
		}
	}
}

// checkFlight fails if more requests of a user are in flight than there are slots. Redis
// cannot know better if it has lost what it had.
func (v *simulation) checkFlight() {
	limited := slices.ContainsFunc(v.config.rules, func(r *simRule) bool {
		return r.name == "flight" || r.name == "berths"
	})
	if !limited || v.forgot() {
		return
	}
	clear(v.inFlight)
	for _, r := range v.live {
		if passed := r.exited && r.admitted; passed && r.byRedis() {
			v.inFlight[r.user]++
		}
	}
	for user, n := range v.inFlight {
		if n > 12 {
			v.fail("%d requests of %s are in flight, 12 may be", n, user)
		}
	}
}

// checkLog fails if a line tells the password.
func (v *simulation) checkLog(w *worker) {
	for _, line := range w.host.Logs[v.told[w]:] {
		v.logf("log: %s", line.Text)
		if v.config.password != "" && strings.Contains(line.Text, v.config.password) {
			v.fail("logged: %s", line.Text)
		}
	}
	v.told[w] = len(w.host.Logs)
}

// checkEnd checks what must hold when all is over.
func (v *simulation) checkEnd() {
	v.checkStep()
	for _, r := range v.all {
		if !r.exited && !r.left {
			v.fail("request %d has had no verdict", r.id)
		}
	}
	v.checkNothingLeft()
	v.checkCounted()
	if v.config.redis {
		v.checkCharged()
		v.checkSlots()
	}
}

// checkCharged compares what Redis has charged with what the requests were worth.
func (v *simulation) checkCharged() {
	for _, rule := range v.config.rules {
		if !rule.counted {
			continue
		}
		least, most := map[string]int64{}, map[string]int64{}
		for _, r := range v.all {
			if r.applies(rule) {
				low, high := rule.worthOf(r)
				least[rule.identity(r)] += low
				most[rule.identity(r)] += high
			}
		}
		for _, identity := range slices.Sorted(maps.Keys(most)) {
			charged := v.charged[rule.name+"|"+identity]
			if rule.name == "hot" {
				charged, most[identity] = v.charged["hot|h"], most[identity]+v.lostUnits+v.lostReturns
			}
			if charged < least[identity] || charged > most[identity] {
				v.fail("%s|%s: charged %d, what was admitted is worth %d to %d", rule.name, identity, charged,
					least[identity], most[identity])
			}
		}
	}
}

// checkCounted compares what the plugin has counted with what has happened: each request has one
// verdict, also one whose client has left, and each unit of a lease was spent or returned.
func (v *simulation) checkCounted() {
	envoy, counted := v.workers[0].envoy, uint64(0)
	for _, name := range envoy.Metrics() {
		if strings.HasPrefix(name, "sluice.outcome.") {
			n, _ := envoy.Metric(name)
			counted += n
		}
	}
	if all := uint64(len(v.all)); counted > all || counted+uint64(v.untold) < all {
		v.fail("%d verdicts on %d requests were counted", counted, len(v.all))
	}
	units := func(event metric.Event) uint64 {
		n, _ := envoy.Metric(metric.EventMetrics[event])
		return n
	}
	taken, spent, returned := units(metric.UnitsTaken), units(metric.UnitsSpent), units(metric.UnitsReturned)
	drains := slices.ContainsFunc(v.config.rules, func(r *simRule) bool { return r.name == "warm" })
	if taken > spent+returned && !drains { // a bucket gets nothing back that has drained
		v.fail("of %d units that leases took %d were spent and %d returned", taken, spent, returned)
	}
	if n, _ := envoy.Metric(metric.Of(metric.RedisErrors, "malformed_reply")); n > 0 {
		v.fail("%d replies were taken for malformed", n)
	}
	charged := int64(0)
	for _, net := range v.batches {
		charged += net
	}
	if charged > int64(spent)+v.lostReturns {
		v.fail("batches of leases have charged %d units, of which %d were spent; faults have lost %d at most",
			charged, spent, v.lostReturns)
	}
}

// checkSlots fails if a slot is still held, but for what a fault may have lost.
func (v *simulation) checkSlots() {
	lost := map[string]int{}
	for _, r := range v.all {
		if r.lossy {
			lost["rl:{flight|"+r.user+"}:concurrency"]++
			lost["rl:{contracts|"+r.user+"}:concurrency"]++
			lost["rl:{berths|}:concurrency"]++
			lost["rl:{berths|}:concurrency:per:berths%20of%20user|"+r.user]++
		}
	}
	v.redis.States(v.redisMicros(), func(key string, s algo.State) {
		if strings.Contains(key, ":concurrency") && len(s)/3 > lost[key] {
			v.fail("%s: %d slots are held, %d requests may have lost theirs", key, len(s)/3, lost[key])
		}
	})
}

// checkNothingLeft fails if a worker still has anything to do, or to remember of requests.
func (v *simulation) checkNothingLeft() {
	for n, w := range v.workers {
		limiters := v.guests[w].limiters()
		if len(limiters) != 1 {
			v.fail("worker %d has %d configurations", n, len(limiters))
		}
		for _, l := range limiters {
			if l.conn == nil {
				continue
			}
			if !l.conn.Idle() || l.conn.InFlight() != 0 {
				v.fail("worker %d: commands are left, %d requests in flight", n, l.conn.InFlight())
			}
		}
	}
	for n, i := range v.current {
		if i.TickPeriod() != 0 {
			v.fail("worker %d still ticks every %v", n, i.TickPeriod())
		}
	}
	for _, c := range v.conns {
		if !c.gone {
			v.fail("a connection is open, a minute after the last request")
		}
	}
}
