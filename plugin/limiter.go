package main

import (
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/decide"
	"github.com/sluiceproxy/sluice/plugin/local"
	"github.com/sluiceproxy/sluice/plugin/message"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// limiter is one configuration of the limiter in one worker.
type limiter struct {
	vm       *vm
	host     host
	id       uint32 // of the plugin context
	rules    *rule.Set
	exprs    *expressions // that the rules evaluate
	answers  *answer.Writer
	refusals *answer.Refusals
	texts    answer.Texts // of the outcomes that name no rule

	worker   *decide.Worker
	embedded *local.Store // nil: only Redis decides
	conn     *redis.Conn  // nil: only the embedded store decides
	stream   *stream      // nil with conn

	redirects *redirects
	timer     *timer

	metrics   *metrics
	offenders *topOffenders // nil: not followed

	view     requestView
	response responseView
	matcher  rule.Matcher
	headers  []byte // scratch
	state    []byte // scratch

	rejectedState bool           // rejections are told in filter state
	untried       *config.Config // Redis is tried with the first request; nil: it was, or there is none
}

func newLimiter(v *vm, id uint32, cfg *config.Config, exprs *expressions) (*limiter, error) {
	rules, err := rule.Compile(cfg, exprs)
	if err != nil {
		exprs.removeAll()
		return nil, message.Errorf("sluice: %v", err)
	}
	v.metrics.loaded()
	h := v.host
	seed := h.Uint64()
	l := &limiter{
		vm: v, host: h, id: id, rules: rules, exprs: exprs,
		answers: answer.New(cfg, seed), refusals: answer.NewRefusals(cfg, seed),
		texts: answer.NewTexts(""), rejectedState: cfg.RejectedState,
		timer: &timer{host: h, id: id}, redirects: newRedirects(h, id),
		offenders: newTopOffenders(h, cfg.TopOffenders), metrics: newMetrics(v.metrics, rules, cfg),
		view: requestView{host: h}, response: responseView{requestView: requestView{host: h}},
	}
	if cfg.UsesEmbeddedStore() {
		l.embedded = local.New(sharedData{h}, h, namespace(cfg))
	}
	l.worker = decide.NewWorker(cfg, rules, l.embedded, l, recorder{l.metrics, l.offenders}, h)
	if cfg.Redis != nil {
		l.connect(cfg)
	}
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
	l.untried = cfg
	l.stream = newStream(l.host, l.id, cfg.Redis, l.metrics)
	l.conn = l.worker.Connect(l.stream, redis.Options{
		KeyPrefix:     cfg.Redis.KeyPrefix,
		Username:      cfg.Redis.Username,
		Password:      password(l.vm, cfg.Redis),
		Database:      cfg.Redis.Database,
		TimeoutMicros: cfg.Redis.TimeoutMicros,
		MaxPending:    cfg.Failure.MaxPending,
		Breaker:       cfg.Failure.Breaker,
		Cluster:       cfg.Redis.Cluster,
		Overrides:     cfg.UsesOverrides(),
		Seed:          l.host.Uint64(),
		MaxAgeMicros:  cfg.Redis.MaxStreamAgeMicros,
	})
}

// password is the configured one, or that of an environment variable of the VM.
func password(v *vm, cfg *config.Redis) string {
	if cfg.PasswordEnv == "" {
		return cfg.Password
	}
	value, ok := v.host.environment(cfg.PasswordEnv)
	if !ok {
		v.notices.sayOnce(logWarn, "sluice: redis.password_env: the VM has no environment variable "+cfg.PasswordEnv+
			" (set it in vm_config.environment_variables); going on without AUTH")
	}
	return strings.TrimRight(value, "\r\n")
}

// now reads the clocks, once in each callback. The wall clock is a host call of its
// own, which only the embedded store needs, and calendars until Redis has told its time.
func (l *limiter) now() decide.Time {
	now := decide.Time{SteadyMicros: l.host.steadyMicros()}
	if l.embedded != nil || l.worker.GuessesTime() {
		now.UnixMicros = l.host.unixMicros()
	}
	return now
}

// timer is the tick of one plugin context. It runs only while something waits for
// it.
type timer struct {
	host     host
	id       uint32 // of the plugin context
	millis   uint32 // the period; 0 while it is off
	atMicros int64  // the next tick
}

// ticked notes that the timer has ticked.
func (t *timer) ticked(nowMicros int64) { t.atMicros = nowMicros + int64(t.millis)*1000 }

// tickWithin makes the timer tick within some time; 0 asks for nothing. A timer that
// ticks early is left alone until then: to set it is a call into Envoy.
func (t *timer) tickWithin(micros, nowMicros int64) {
	if micros > 0 && (t.millis == 0 || nowMicros+micros+1000 < t.atMicros) {
		t.set(micros, nowMicros)
	}
}

// set makes the timer tick in some time and from then on with that period, if it
// does not already; 0 stops it.
func (t *timer) set(micros, nowMicros int64) {
	millis := uint32((micros + 999) / 1000)
	if millis == t.millis {
		return
	}
	t.host.setTickPeriod(t.id, millis)
	t.millis, t.atMicros = millis, nowMicros+int64(millis)*1000
}
