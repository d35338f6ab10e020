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
	common  *common
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

	rejectedState bool // rejections are told in filter state
}

// common is what the configurations in one VM have in common.
type common struct {
	host    host
	metrics *metricIDs
	notices notices
	trials  trials
}

func newCommon(h host) *common {
	return &common{host: h, metrics: newMetricIDs(h), notices: newNotices(h), trials: trials{host: h}}
}

func newLimiter(c *common, id uint32, cfg *config.Config, exprs *expressions) (*limiter, error) {
	rules, err := rule.Compile(cfg, exprs)
	if err != nil {
		exprs.removeAll()
		return nil, fmt.Errorf("sluice: %w", err)
	}
	tellPaths(c.host, cfg)
	c.notices.tellSkipped(cfg)
	l := &limiter{
		common: c, host: c.host, id: id, rules: rules, exprs: exprs,
		answers: answer.New(cfg), texts: answer.NewTexts(""), rejectedState: cfg.RejectedState,
		timer: timer{host: c.host, id: id},
		view:  requestView{host: c.host}, response: responseView{requestView: requestView{host: c.host}},
	}
	if cfg.Redis == nil || cfg.Failure.Mode == config.FailLocal {
		l.embedded = local.New(sharedData{c.host}, local.Options{Namespace: namespace(cfg)})
	}
	l.metrics = newMetrics(c.metrics, rules, cfg)
	l.stores = decide.NewStores(cfg, rules, l.embedded, l.metrics)
	if cfg.Redis != nil {
		l.connect(cfg)
	}
	l.redirects = newRedirects(c.host, id)
	l.offenders = newTopOffenders(c.host, cfg.TopOffenders)
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
		Try:           l.common.trials.mustTry(cfg.Redis),
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

// now reads the clocks, once in each callback. The wall clock is a host call of its
// own, which only the embedded store needs, and calendars until Redis has told its time.
func (l *limiter) now() decide.Time {
	now := decide.Time{SteadyMicros: l.host.steadyMicros()}
	if l.embedded != nil || l.stores.GuessesTime() {
		now.UnixMicros = l.host.unixMicros()
	}
	return now
}

// wake makes the timer tick in time for what waits next.
func (l *limiter) wake(now decide.Time) {
	l.timer.tickWithin(l.nextMicros(now.SteadyMicros), now.SteadyMicros)
}

// closingTickMicros is how often a configuration that ends sees whether it can.
const closingTickMicros = 4_000

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
