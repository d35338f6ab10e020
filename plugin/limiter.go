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

func newLimiter(v *vm, id uint32, cfg *config.Config, exprs *expressions) (*limiter, error) {
	rules, err := rule.Compile(cfg, exprs)
	if err != nil {
		exprs.removeAll()
		return nil, message.Errorf("sluice: %v", err)
	}
	v.notices.tellOdd(cfg)
	v.metrics.loaded()
	seed := v.host.Uint64()
	l := (&limiter{
		vm: v, host: v.host, id: id, rules: rules, exprs: exprs,
		answers: answer.New(cfg, seed), refusals: answer.NewRefusals(cfg, seed),
		texts: answer.NewTexts(""), rejectedState: cfg.RejectedState,
		timer:     &timer{host: v.host, id: id},
		offenders: newTopOffenders(v.host, cfg.TopOffenders),
	}).like(cfg)
	l.redirects = newRedirects(v.host, id)
	l.clusters = newClusters(l, cfg)
	return l, nil
}

// like is a limiter with what this one has that does not depend on the Redis cluster.
func (l *limiter) like(cfg *config.Config) *limiter {
	h := l.host
	n := &limiter{
		vm: l.vm, host: h, id: l.id, rules: l.rules, exprs: l.exprs,
		answers: l.answers, refusals: l.refusals, texts: l.texts, rejectedState: l.rejectedState,
		timer: l.timer, offenders: l.offenders, redirects: l.redirects,
		view: requestView{host: h}, response: responseView{requestView: requestView{host: h}},
	}
	if cfg.UsesEmbeddedStore() {
		n.embedded = local.New(sharedData{h}, h, namespace(cfg))
	}
	n.metrics = newMetrics(n.vm.metrics, n.rules, cfg)
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
		Password:      password(l.vm, cfg.Redis),
		Database:      cfg.Redis.Database,
		TimeoutMicros: cfg.Redis.TimeoutMicros,
		MaxPending:    cfg.Failure.MaxPending,
		Breaker:       cfg.Failure.Breaker,
		Cluster:       cfg.Redis.Cluster,
		Try:           cfg.Redis.Cluster != "" && l.vm.trials.mustTry(cfg),
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
