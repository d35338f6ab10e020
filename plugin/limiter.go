package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/decide"
	"github.com/sluiceproxy/sluice/plugin/local"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// limiter is one configuration of the limiter role in one worker.
type limiter struct {
	vm      *vm
	host    host
	id      uint32 // of the plugin context
	rules   *rule.Set
	exprs   *expressions // that the rules evaluate
	answers *answer.Writer
	texts   answer.Texts // of the outcomes that name no rule

	stores   *decide.Stores
	embedded *local.Store // nil: only Redis decides
	conn     *redis.Conn  // nil: only the embedded store decides
	stream   *stream      // nil with conn

	redirects     *redirects
	timer         timer
	closingMicros int64 // when the configuration is given up, once it is to end; 0 before

	metrics   *metrics
	offenders *topOffenders // nil: not followed

	view        requestView
	response    responseView
	matcher     rule.Matcher
	shownLimits []answer.Limit // scratch
	headers     []byte         // scratch
	state       []byte         // scratch

	rejectedState bool       // rejections are told in filter state
	idle          []*request // to use again
}

func newLimiter(v *vm, id uint32, cfg *config.Config, exprs *expressions) (*limiter, error) {
	rules, err := rule.Compile(cfg, exprs)
	if err != nil {
		exprs.removeAll()
		return nil, fmt.Errorf("sluice: %w", err)
	}
	tellPaths(v.host, cfg)
	v.tellSkipped(cfg)
	l := &limiter{
		vm: v, host: v.host, id: id, rules: rules, exprs: exprs,
		answers: answer.New(cfg), texts: answer.NewTexts(""), rejectedState: cfg.RejectedState,
		timer: timer{host: v.host, id: id},
		view:  requestView{host: v.host}, response: responseView{requestView: requestView{host: v.host}},
	}
	if cfg.Redis == nil || cfg.Failure.Mode == config.FailLocal {
		l.embedded = local.New(sharedData{v.host}, local.Options{Namespace: namespace(cfg)})
	}
	l.metrics = newMetrics(l, cfg)
	l.stores = decide.NewStores(cfg, rules, l.embedded, l.metrics)
	if cfg.Redis != nil {
		l.connect(cfg)
	}
	l.redirects = newRedirects(v.host, id)
	l.offenders = newTopOffenders(v.host, cfg.TopOffenders)
	v.limiters[id] = l
	return l, nil
}

// namespace tells the counters of the embedded store apart as Redis would.
func namespace(cfg *config.Config) string {
	if cfg.Redis == nil {
		return ""
	}
	return strconv.FormatInt(int64(cfg.Redis.Database), 10) + ":" + cfg.Redis.KeyPrefix
}

// connect prepares the connection to Redis; nothing is sent before it is needed.
func (l *limiter) connect(cfg *config.Config) {
	l.stream = newStream(l.host, l.id, cfg.Redis)
	l.conn = redis.New(l.stream, l.stores, redis.Options{
		KeyPrefix:     cfg.Redis.KeyPrefix,
		Username:      cfg.Redis.Username,
		Password:      password(l.host, cfg.Redis),
		Database:      cfg.Redis.Database,
		TimeoutMicros: cfg.Redis.TimeoutMicros,
		MaxPending:    cfg.Failure.MaxPending,
		Breaker:       cfg.Failure.Breaker,
		Cluster:       cfg.Redis.Cluster,
		Try:           l.vm.mustTry(cfg.Redis),
		Seed:          rand.Uint64(),
	})
	l.stores.Connect(l.conn)
}

// password is the configured one, or that of an environment variable of the VM.
func password(h host, cfg *config.Redis) string {
	if cfg.PasswordEnv == "" {
		return cfg.Password
	}
	value, ok := h.environment(cfg.PasswordEnv)
	if !ok {
		h.logLine(logWarn, "sluice: redis.password_env: the VM has no environment variable "+cfg.PasswordEnv+
			" (set it in vm_config.environment_variables); going on without AUTH")
	}
	return strings.TrimRight(value, "\r\n")
}

// maxIdle bounds how many ended requests are kept for their memory.
const maxIdle = 256

// newRequest begins a request with the memory of one that has ended.
func (l *limiter) newRequest(id uint32) *request {
	n := len(l.idle)
	if n == 0 {
		return &request{limiter: l, question: l.stores.Question(id)}
	}
	r := l.idle[n-1]
	l.idle = l.idle[:n-1]
	*r = request{limiter: l, question: l.stores.Question(id)}
	return r
}

// recycle keeps a request for another one.
func (l *limiter) recycle(r *request) {
	r.question = nil
	if len(l.idle) < maxIdle {
		l.idle = append(l.idle, r)
	}
}

// now reads the clocks, once in each callback. The wall clock is a host call of its
// own, which only the embedded store needs, and calendars until Redis has told its time.
func (l *limiter) now() decide.Time {
	now := decide.Time{SteadyMicros: l.host.steadyMicros()}
	if l.embedded != nil || l.stores.GuessesTime() {
		now.UnixMicros = l.host.unixMicros()
	}
	return now
}

// received takes bytes from Redis, and concludes what they decide.
func (l *limiter) received(token uint32, b []byte) {
	if !l.stream.is(token) {
		return
	}
	now := l.now()
	l.conn.Received(b, now.SteadyMicros)
	l.goOn(now)
	l.wake(now)
}

// closed notes that a stream has ended. It may be called within a request's
// callback, so that nothing is concluded before the next tick: a request that is
// resumed before Envoy has learnt that it is paused hangs for ever.
func (l *limiter) closed(token uint32) {
	if !l.stream.ended(token) {
		return
	}
	now := l.now()
	l.conn.Closed(now.SteadyMicros)
	l.wake(now)
}

// tick passes time to what waits for it.
func (l *limiter) tick() {
	now := l.now()
	l.timer.ticked(now.SteadyMicros)
	if l.conn != nil {
		l.conn.Tick(now.SteadyMicros)
		l.stream.reap()
		l.stream.trial.tick(now.SteadyMicros)
	}
	l.stores.Tick(now)
	l.endRedirected()
	l.goOn(now)
	l.offenders.report(l.metrics, now.SteadyMicros)
	l.metrics.tick(l, now.SteadyMicros)
	l.timer.set(l.nextMicros(now.SteadyMicros), now.SteadyMicros)
	l.finish(now)
}

// maxConclusions bounds how many paused requests one callback lets go on or
// answers. Envoy does that when the callback has returned, each inside the one
// before if it answers at once, and a few hundred exhaust the stack: the VM dies.
const maxConclusions = 50

// goOn takes up the paused requests that wait for nothing any more.
func (l *limiter) goOn(now decide.Time) {
	for range maxConclusions {
		q, event := l.stores.Next(now)
		switch {
		case q == nil:
			return
		case event == decide.TurnComes:
			l.carryOut(q.Step(decide.TurnComes), q, decide.Verdict{}, now)
		default:
			l.conclude(q, now)
		}
	}
}

// wake makes the timer tick in time for what waits next.
func (l *limiter) wake(now decide.Time) {
	l.timer.tickWithin(l.nextMicros(now.SteadyMicros), now.SteadyMicros)
}

// nextMicros is how long until something waits for a tick; 0 if nothing does.
func (l *limiter) nextMicros(nowMicros int64) int64 {
	next := sooner(l.metrics.nextMicros(nowMicros), l.offenders.nextMicros(nowMicros))
	next = sooner(next, l.stores.NextMicros(nowMicros))
	if l.conn != nil {
		next = sooner(next, l.conn.NextTickMicros(nowMicros))
		next = sooner(next, l.stream.trial.nextMicros(nowMicros))
		if l.stream.mustReap() {
			next = 1
		}
	}
	if l.closingMicros > 0 || l.redirects.kept != nil {
		next = sooner(next, closingTickMicros)
	}
	return next
}

// A configuration that ends is kept until what it gives back has reached Redis, but
// for no longer than maxClosingMicros.
const (
	maxClosingMicros  = 1_000_000
	closingTickMicros = 4_000
)

// close ends the configuration. It reports whether it has; otherwise finish will.
func (l *limiter) close() bool {
	l.endRedirected() // its next pass is on the configuration that follows
	now := l.now()
	l.stores.Close(now)
	l.closingMicros = now.SteadyMicros + maxClosingMicros
	if l.conn != nil {
		l.conn.SendSettlements(now.SteadyMicros)
	}
	if l.conn == nil || l.conn.Idle() {
		l.letGo()
		return true
	}
	l.wake(now)
	return false
}

// finish ends a configuration that is to end, when nothing is left in the pipe.
func (l *limiter) finish(now decide.Time) {
	if l.closingMicros > 0 && (l.conn.Idle() || now.SteadyMicros >= l.closingMicros) {
		l.letGo()
		l.host.pluginDone(l.id)
	}
}

// letGo lets go of what the configuration has opened.
func (l *limiter) letGo() {
	if l.stream != nil {
		l.stream.CloseStream()
		l.stream.reap()
	}
	l.exprs.removeAll()
	l.metrics.close(l)
	delete(l.vm.limiters, l.id)
}
