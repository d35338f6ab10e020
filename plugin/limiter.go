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

// limiter is one configuration of the limiter role in one worker.
type limiter struct {
	common   *common
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
	clusters  *clusters // of the limiter that requests begin with
	gone      bool      // it has ended, and others of its clusters have not

	metrics   *metrics
	offenders *topOffenders // nil: not followed

	view     requestView
	response responseView
	matcher  rule.Matcher
	headers  []byte // scratch
	state    []byte // scratch

	rejectedState bool // rejections are told in filter state
}

// common is shared by the configurations in one VM.
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
		return nil, message.Errorf("sluice: %v", err)
	}
	c.notices.tellOdd(cfg)
	c.metrics.loaded()
	seed := c.host.Uint64()
	l := (&limiter{
		common: c, host: c.host, id: id, rules: rules, exprs: exprs,
		answers: answer.New(cfg, seed), refusals: answer.NewRefusals(cfg, seed),
		texts: answer.NewTexts(""), rejectedState: cfg.RejectedState,
		timer:     &timer{host: c.host, id: id},
		offenders: newTopOffenders(c.host, cfg.TopOffenders),
	}).like(cfg)
	l.redirects = newRedirects(c.host, id)
	l.clusters = newClusters(l, cfg)
	return l, nil
}

// like is a limiter with what this one has that does not depend on the Redis cluster.
func (l *limiter) like(cfg *config.Config) *limiter {
	h := l.host
	n := &limiter{
		common: l.common, host: h, id: l.id, rules: l.rules, exprs: l.exprs,
		answers: l.answers, refusals: l.refusals, texts: l.texts, rejectedState: l.rejectedState,
		timer: l.timer, offenders: l.offenders, redirects: l.redirects,
		view: requestView{host: h}, response: responseView{requestView: requestView{host: h}},
	}
	if cfg.UsesEmbeddedStore() {
		n.embedded = local.New(sharedData{h}, h, namespace(cfg))
	}
	n.metrics = newMetrics(n.common.metrics, n.rules, cfg)
	n.worker = decide.NewWorker(cfg, n.rules, n.embedded, n, recorder{n.metrics, n.offenders}, h)
	if cfg.Redis != nil {
		n.connect(cfg)
	}
	return n
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
	l.stream = newStream(l.host, l.id, cfg.Redis, l.metrics)
	l.conn = l.worker.Connect(l.stream, redis.Options{
		KeyPrefix:     cfg.Redis.KeyPrefix,
		Username:      cfg.Redis.Username,
		Password:      password(l.common, cfg.Redis),
		Database:      cfg.Redis.Database,
		TimeoutMicros: cfg.Redis.TimeoutMicros,
		MaxPending:    cfg.Failure.MaxPending,
		Breaker:       cfg.Failure.Breaker,
		Cluster:       cfg.Redis.Cluster,
		Try:           cfg.Redis.Cluster != "" && l.common.trials.mustTry(cfg),
		Overrides:     cfg.UsesOverrides(),
		Seed:          l.host.Uint64(),
		MaxAgeMicros:  cfg.Redis.MaxStreamAgeMicros,
	})
}

// password is the configured one, or that of an environment variable of the VM.
func password(c *common, cfg *config.Redis) string {
	if cfg.PasswordEnv == "" {
		return cfg.Password
	}
	value, ok := c.host.environment(cfg.PasswordEnv)
	if !ok {
		c.notices.sayOnce(logWarn, "sluice: redis.password_env: the VM has no environment variable "+cfg.PasswordEnv+
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
