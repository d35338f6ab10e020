package main

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/wasmhost"
	"github.com/sluiceproxy/sluice/plugin/metric"
)

// What must hold at each step, and when all is over.

// tickOf is how often a limiter looks at what waits at the rarest, see redis.tickMicros.
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
	now, tick := v.clock.now, tickOf(v.config.Timeout)+timerStep
	if limit := v.config.Timeout + tick; r.verdict.IsZero() && now.Sub(r.at) > limit {
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

// checkExit checks that a request was let go, or rejected, as its rules say.
func (v *simulation) checkExit(r *simRequest) {
	for _, rule := range v.config.Rules {
		key, cost := rule.Name+"|"+rule.identity(r), rule.costOf(r)
		if r.rejectedBy(rule) && cost == 0 {
			v.fail("request %d, which costs nothing there, was rejected by %s", r.id, rule.Name)
		}
		v.checkMemory(r, rule)
		if !r.certain || !r.applies(rule) || !rule.charges(r) {
			continue
		}
		v.admitted[key] += cost
		held := rule.Total > 0 && !v.forgot()
		if held && v.admitted[key] > rule.Total+v.flowsBack(rule) {
			v.fail("%s: admitted %d, the limit is %d", key, v.admitted[key], rule.Total)
		}
		if blocked := v.blocked[r.user] && r.at.After(v.blockedAt); blocked && slices.Contains(operatedRules, rule.Name) {
			v.fail("request %d of %s, who is blocked, was admitted", r.id, r.user)
		}
	}
}

// rejectedBy reports whether a rule has rejected the request.
func (r *simRequest) rejectedBy(rule *simRule) bool {
	return r.outcome == "limited:"+rule.Name || r.outcome == "local:limited:"+rule.Name
}

// remembered is an identity of which a worker's configuration has heard from Redis that it is rejected.
type remembered struct {
	instance *instance
	rule     string
	user     string
}

// rejection is when that was, and how many requests had come by then.
type rejection struct {
	at   time.Time
	came int
}

// checkMemory fails if a request was admitted that its worker must remember as rejected by a rule: it
// has heard nothing of Redis since.
func (v *simulation) checkMemory(r *simRequest, rule *simRule) {
	holds := 100 * time.Millisecond // another rule may give back what has rejected
	if len(v.config.Rules) == 1 {
		holds = 10 * time.Second
	}
	m := remembered{r.instance, rule.Name, rule.identity(r)}
	was, known := v.rejected[m]
	isRejected := known && r.applies(rule) && r.id >= was.came && r.at.Before(was.at.Add(holds))
	if r.admitted && isRejected {
		v.fail("request %d of %s was admitted, which %s has rejected %v before", r.id, r.user, rule.Name,
			r.at.Sub(was.at))
	}
	fills := strings.Contains(rule.Text, `"fixed_window"`) || strings.Contains(rule.Text, `"sliding_window_log"`)
	isKnown := rule.Name == "quota" && r.paused && r.outcome == "limited:"+rule.Name
	if hasRoom := min(int64(v.config.Denied), v.config.Pending) > maxLive; isKnown && fills && hasRoom {
		v.rejected[m] = rejection{v.clock.now, len(v.all)}
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
	elapsed := v.clock.now.Sub(v.began)
	if !v.config.Redis {
		elapsed += time.Second // by which the clocks of workers may differ
	}
	switch {
	case r.Rate > 0:
		return int64(elapsed)*r.Rate/int64(time.Second) + 1
	case strings.Contains(r.Text, "gcra") || strings.Contains(r.Text, "bucket"):
		return int64(elapsed)*r.Total/int64(24*time.Hour) + 1
	}
	return 0
}

// roomOf is how much of the rule "classes" a request's class may use.
func (r *simRule) roomOf(q *simRequest) int64 {
	return max(1, r.Total*cmp.Or(map[string]int64{"pro": 100, "free": 80}[q.plan], 50)/100)
}

// leftOfClasses is what headers, and the answer to a request for the quota, tell of the rule "classes".
var leftOfClasses = regexp.MustCompile(`"classes"(?:;r=|,[^}]*"remaining":)([0-9]+)`)

// checkShown fails if an answer tells a request that it has more of the rule "classes" left than its class has.
func (v *simulation) checkShown(r *simRequest, headers wasmhost.Pairs, body string) {
	i := slices.IndexFunc(v.config.Rules, func(r *simRule) bool { return r.Name == "classes" })
	if i < 0 {
		return
	}
	rule := v.config.Rules[i]
	room, cost := rule.roomOf(r), rule.costOf(r)
	most := room
	exact, decided := !v.embeds && !v.forgot(), r.certain || r.outcome == "quota"
	if exact && decided {
		most = max(0, room-r.usedBefore+v.flowsBack(rule))
	}
	if r.certain && r.applies(rule) {
		most = min(most, room-cost)
	}
	if r.rejectedBy(rule) && cost <= room {
		most = min(most, cost-1)
	}
	for _, found := range leftOfClasses.FindAllStringSubmatch(fmt.Sprint(headers, body), -1) {
		if left, _ := strconv.ParseInt(found[1], 10, 64); left > most {
			v.fail("request %d of plan %s, cost %d, %s: classes tells %d left, which has %d at most", r.id, r.plan, cost,
				r.outcome, left, most)
		}
	}
}

// checkStep checks what must hold after each step.
func (v *simulation) checkStep() {
	v.checkFlight()
	for _, w := range v.workers {
		for _, line := range w.host.Logs {
			v.logf("log: %s", line.Text)
			if v.config.Password != "" && strings.Contains(line.Text, v.config.Password) {
				v.fail("logged: %s", line.Text)
			}
		}
		w.host.Logs = nil
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
	limited := func(r *simRule) bool { return r.Name == "flight" || r.Name == "berths" }
	if !slices.ContainsFunc(v.config.Rules, limited) || v.forgot() {
		return
	}
	inFlight := map[string]int{}
	for _, r := range v.live {
		if !r.exited || !r.admitted || !r.byRedis() {
			continue
		}
		if inFlight[r.user]++; inFlight[r.user] > 12 {
			v.fail("more than 12 requests of %s are in flight", r.user)
		}
	}
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
	if v.config.Redis {
		v.checkCharged()
		v.checkSlots()
	}
}

// checkCharged compares what Redis has charged with what the requests were worth.
func (v *simulation) checkCharged() {
	for _, rule := range v.config.Rules {
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
			charged := v.charged[rule.Name+"|"+identity]
			if rule.Name == leased {
				most[identity] += v.lostUnits
			}
			if charged < least[identity] || charged > most[identity] {
				v.fail("%s|%s: charged %d, what was admitted is worth %d to %d", rule.Name, identity, charged,
					least[identity], most[identity])
			}
		}
	}
}

// checkCounted compares what the plugin has counted with what has happened: each request has one
// verdict, also one whose client has left, and each unit of a lease was spent or returned.
func (v *simulation) checkCounted() {
	envoy, counted := v.workers[0].envoy, uint64(0)
	count := func(name string) uint64 {
		n, _ := envoy.Metric(name)
		return n
	}
	for _, name := range envoy.Metrics() {
		if strings.HasPrefix(name, "sluice.outcome.") {
			counted += count(name)
		}
	}
	if all := uint64(len(v.all)); counted > all || counted+uint64(v.untold) < all {
		v.fail("%d verdicts on %d requests were counted", counted, len(v.all))
	}
	taken, spent := count(metric.EventMetrics[metric.UnitsTaken]), count(metric.EventMetrics[metric.UnitsSpent])
	returned := count(metric.EventMetrics[metric.UnitsReturned])
	drains := slices.ContainsFunc(v.config.Rules, func(r *simRule) bool { return r.Name == "warm" })
	if taken > spent+returned && !drains { // a bucket gets nothing back that has drained
		v.fail("of %d units that leases took %d were spent and %d returned", taken, spent, returned)
	}
	if n := count(metric.Of(metric.RedisErrors, "malformed_reply")); n > 0 {
		v.fail("%d replies were taken for malformed", n)
	}
	charged := int64(0)
	for _, net := range v.batches {
		charged += net
	}
	if charged > int64(spent)+v.lostUnits {
		v.fail("batches of leases have charged %d units, of which %d were spent; faults have lost %d at most",
			charged, spent, v.lostUnits)
	}
}

// checkSlots fails if a slot is still held, but for what a fault may have lost.
func (v *simulation) checkSlots() {
	lost := map[string]int{} // by user, and of all users
	for _, r := range v.all {
		if r.lossy {
			lost[r.user]++
			lost[""]++
		}
	}
	v.redis.States(v.redisMicros(), func(key string, s algo.State) {
		user, _, _ := strings.Cut(key[strings.LastIndexByte(key, '|')+1:], "}") // the last value of the key
		if strings.Contains(key, ":concurrency") && len(s)/3 > lost[user] {
			v.fail("%s: %d slots are held, %d requests may have lost theirs", key, len(s)/3, lost[user])
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
			if l.conn != nil && (!l.conn.Idle() || l.conn.InFlight() != 0) {
				v.fail("worker %d: commands are left, %d requests in flight", n, l.conn.InFlight())
			}
		}
		if period := v.current[n].TickPeriod(); period != 0 {
			v.fail("worker %d still ticks every %v", n, period)
		}
	}
	if len(v.conns) > 0 {
		v.fail("%d connections are open, a minute after the last request", len(v.conns))
	}
}
