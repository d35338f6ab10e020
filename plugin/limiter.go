package main

import (
	"errors"
	"math/rand/v2"
	"strings"

	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/deny"
	"github.com/sluiceproxy/sluice/plugin/lease"
	"github.com/sluiceproxy/sluice/plugin/local"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// limiter is one configuration of the limiter role in one worker.
type limiter struct {
	id          uint32 // of the plugin context
	rules       *rule.Set
	answers     *answer.Writer
	failureMode config.FailureMode

	conn    *redis.Conn     // nil: the embedded store decides
	scripts []*redis.Script // parallel to rules.Limits
	stream  *stream
	denied  *deny.Cache // nil: off, or not needed
	leases  *lease.Book // nil: no limit is leased
	local   *local.Store

	queue        queue
	room         int    // requests that the running callback may still conclude
	tickMillis   uint32 // the timer's period; 0 while it is off
	tickAtMicros int64  // its next tick

	metrics   *metrics
	offenders *topOffenders // nil: not followed

	view    requestView
	matcher rule.Matcher
	headers []byte     // scratch
	idle    []*request // requests to use again
}

// limiters are the configurations of this VM by plugin context: during a reload
// there are two, and each has its own stream.
var limiters = map[uint32]*limiter{}

func newLimiter(id uint32, cfg *config.Config) (*limiter, error) {
	rules, err := rule.Compile(cfg)
	if err != nil {
		return nil, errors.New("sluice: " + err.Error())
	}
	l := &limiter{id: id, rules: rules, answers: answer.New(cfg), failureMode: cfg.Failure.Mode}
	if cfg.Redis == nil || l.failureMode == config.FailLocal {
		l.local = local.New(sharedData{}, local.Options{})
	}
	if cfg.Redis != nil {
		l.connect(cfg)
	}
	l.metrics = newMetrics(l, cfg)
	l.offenders = newTopOffenders(cfg.TopOffenders)
	limiters[id] = l
	return l, nil
}

// connect prepares the connection to Redis; nothing is sent before it is needed.
func (l *limiter) connect(cfg *config.Config) {
	for _, limits := range l.rules.LimitSets {
		l.scripts = append(l.scripts, redis.NewScript(limits.Plan, cfg.Redis.KeyPrefix, limits.KeySuffixes))
		if limits.Limits[0].Lease != nil && l.leases == nil {
			l.leases = lease.NewBook(l)
		}
	}
	if cfg.DenyCacheSize > 0 {
		l.denied = deny.New(int(cfg.DenyCacheSize), denyHold(l.rules))
	}
	l.stream = newStream(l, cfg.Redis.Cluster)
	l.conn = redis.New(l.stream, redis.Options{
		KeyPrefix:     cfg.Redis.KeyPrefix,
		Username:      cfg.Redis.Username,
		Password:      password(cfg.Redis),
		Database:      cfg.Redis.Database,
		TimeoutMicros: cfg.Redis.TimeoutMicros,
		MaxPending:    cfg.Failure.MaxPending,
		Breaker:       cfg.Failure.Breaker,
		Seed:          rand.Uint64(),
	})
}

// denyHold is how long a rejection may be remembered. What one rule rejects may be
// room that a request has, until another rule rejects it.
func denyHold(rules *rule.Set) int64 {
	rejecting := 0
	for _, r := range rules.Rules {
		if !r.Exempt && r.Mode == config.Enforce {
			rejecting++
		}
	}
	if rejecting > 1 {
		return deny.SharedHoldMicros
	}
	return deny.MaxHoldMicros
}

// password is the configured one, or that of an environment variable of the VM.
func password(cfg *config.Redis) string {
	if cfg.PasswordEnv == "" {
		return cfg.Password
	}
	value, ok := environment(cfg.PasswordEnv)
	if !ok {
		logLine(logWarn, "sluice: redis.password_env: the VM has no environment variable "+cfg.PasswordEnv+
			" (set it in vm_config.environment_variables); going on without AUTH")
	}
	return strings.TrimRight(value, "\r\n")
}

// newRequest begins a request with the memory of one that has ended.
func (l *limiter) newRequest(id uint32) *request {
	n := len(l.idle)
	if n == 0 {
		return &request{limiter: l, id: id}
	}
	r := l.idle[n-1]
	l.idle = l.idle[:n-1]
	r.id = id
	return r
}

// maxIdle bounds how many ended requests are kept for their memory.
const maxIdle = 256

// forget ends a request wherever it is.
func (l *limiter) forget(r *request) {
	if r.outstanding > 0 {
		l.conn.Abandon(r, r.ticket, r.outstanding, false)
	}
	if r.held.waits {
		if r.held.then == toProceed {
			l.metrics.count(turnExpired, 1)
		}
		l.queue.drop(r)
		l.wake(steadyMicros())
	}
	clear(r.checks)
	*r = request{limiter: l, checks: r.checks[:0], decisions: r.decisions[:0], tags: r.tags[:0], limits: r.limits[:0]}
	if len(l.idle) < maxIdle {
		l.idle = append(l.idle, r)
	}
}

// outcome says in the metrics and in the filter state what becomes of the request.
func (l *limiter) outcome(o outcome, text string) {
	l.metrics.request(o)
	setProperty("sluice", text)
}

// tick passes time to what waits for it.
func (l *limiter) tick() {
	now := steadyMicros()
	l.room = maxConclusions
	l.release(now)
	if l.conn != nil {
		l.stream.hangUp(now)
		l.conn.Tick(now)
		l.stream.reap()
	}
	if l.leases != nil {
		l.leases.Expire(now)
	}
	l.offenders.report(l.metrics, now)
	l.metrics.tick(l, now)
	l.tickAtMicros = now + int64(l.tickMillis)*1000
	l.setTimer(l.nextMicros(now), now)
}

// maxConclusions bounds how many paused requests one callback lets go on or
// answers. Envoy does that when the callback has returned, each inside the one
// before if it answers at once, and a few hundred exhaust the stack: the VM dies.
const maxConclusions = 50

// postponed holds a paused request until the next tick if there is no room for it
// in this callback.
func (l *limiter) postponed(r *request, then purpose) bool {
	if !r.paused {
		return false // its own callback runs, and concludes no other
	}
	if l.room > 0 {
		l.room--
		return false
	}
	l.queue.hold(r, 0, then)
	return true
}

// release takes up the held requests whose time has come.
func (l *limiter) release(nowMicros int64) {
	for l.room > 0 {
		r := l.queue.next(nowMicros)
		if r == nil {
			return
		}
		switch r.held.then {
		case toConclude:
			r.conclude()
		case toFail:
			r.fail()
		default:
			l.room--
			enter(r.id)
			r.proceed()
		}
	}
}

// wake makes the timer tick in time for what waits next. A timer that ticks early
// is left alone until then: to set it is a call into Envoy.
func (l *limiter) wake(nowMicros int64) {
	next := l.nextMicros(nowMicros)
	if next > 0 && (l.tickMillis == 0 || nowMicros+next+1000 < l.tickAtMicros) {
		l.setTimer(next, nowMicros)
	}
}

// nextMicros is how long until something waits for a tick; 0 if nothing does.
func (l *limiter) nextMicros(nowMicros int64) int64 {
	next := sooner(l.metrics.nextMicros(nowMicros), l.offenders.nextMicros(nowMicros))
	next = sooner(next, l.queue.nextMicros(nowMicros))
	if l.conn != nil {
		next = sooner(next, l.conn.NextTickMicros(nowMicros))
		if l.stream.ended || len(l.stream.useless) > 0 {
			next = 1
		}
	}
	if l.leases != nil {
		next = sooner(next, l.leases.NextMicros(nowMicros))
	}
	return next
}

// setTimer makes the timer tick in some time and from then on with that period, if
// it does not already; 0 stops it.
func (l *limiter) setTimer(micros, nowMicros int64) {
	millis := uint32((micros + 999) / 1000)
	if millis == l.tickMillis {
		return
	}
	enter(l.id)
	setTickPeriod(millis)
	l.tickMillis, l.tickAtMicros = millis, nowMicros+int64(millis)*1000
}

// sooner is the shorter of two times, of which 0 is never.
func sooner(a, b int64) int64 {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// close ends the configuration.
func (l *limiter) close() {
	if l.stream != nil {
		l.stream.CloseStream()
		l.stream.reap()
	}
	l.metrics.close(l)
	delete(limiters, l.id)
}
