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
	"github.com/sluiceproxy/sluice/plugin/text"
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

	tickMillis   uint32 // the period of the tick, which runs only while something waits for it; 0 while it is off
	tickAtMicros int64  // the next tick

	metrics *metrics
	idle    []*httpRequest // that have ended, to use again
	mark    string         // filter state of requests that Envoy redirects

	view           requestView
	response       responseView
	matcher        rule.Matcher
	headers, state []byte // scratch

	rejectedState bool           // rejections are told in filter state
	untried       *config.Config // Redis is tried with the first request; nil: it was, or there is none
}

func newLimiter(v *vm, id uint32, cfg *config.Config, exprs *expressions) (*limiter, error) {
	rules, err := rule.Compile(cfg, exprs)
	if err != nil {
		exprs.removeAll()
		return nil, message.Errorf("sluice: %v", err)
	}
	h := v.host
	v.metrics.loads, v.metrics.loadSeconds = v.metrics.loads+1, h.unixMicros()/1e6
	seed := h.Uint64()
	// Filter state tells the passes of one request. Each configuration has a name of its own, so that two of
	// them in one chain keep out of each other's way.
	mark := "sluice.redirected." + strconv.FormatUint(uint64(id), 10)
	// It has to outlive a pass: an envoy.source.extensions.common.wasm.DeclarePropertyArguments message,
	// {name, type: String, span: DownstreamRequest}. Envoy takes it while a configuration is loaded.
	h.foreign(id, "declare_property", append(appendField(nil, 1, mark), 3<<3, 1, 5<<3, 1))
	l := &limiter{
		vm: v, host: h, id: id, rules: rules, exprs: exprs,
		answers: answer.New(cfg, seed), refusals: answer.NewRefusals(cfg, seed),
		texts: answer.NewTexts(""), rejectedState: cfg.RejectedState,
		mark: mark, metrics: newMetrics(v.metrics, rules, cfg),
		view: requestView{host: h}, response: responseView{requestView: requestView{host: h}},
	}
	if cfg.UsesEmbeddedStore() {
		namespace := "" // tells counters apart as Redis would
		if cfg.Redis != nil {
			namespace = strconv.FormatInt(int64(cfg.Redis.Database), 10) + ":" + cfg.Redis.KeyPrefix
		}
		l.embedded = local.New(sharedData{h}, h, namespace)
	}
	l.worker = decide.NewWorker(cfg, rules, l.embedded, l, l.metrics, h)
	if cfg.Redis == nil {
		return l, nil
	}

	// The connection to Redis: nothing is sent before it is needed.
	l.untried = cfg
	password := cfg.Redis.Password
	if name := cfg.Redis.PasswordEnv; name != "" {
		value, ok := h.environment(name)
		if !ok {
			v.notices.sayOnce(logWarn, "sluice: redis.password_env: the VM has no environment variable "+name+
				" (set it in vm_config.environment_variables); going on without AUTH")
		}
		password = strings.TrimRight(value, "\r\n")
	}
	cluster := cfg.Redis.Cluster
	l.stream = &stream{host: h, id: id, cluster: cluster, service: grpcService(cluster), metrics: l.metrics}
	// Envoy's compare-and-swap covers changes of a record, but not its creation.
	if _, _, ok := l.stream.loadVitals(); !ok {
		l.stream.storeVitals(vitals{evictedKeys: redis.Unknown}, 0)
	}
	l.conn = l.worker.Connect(l.stream, redis.Options{
		Cluster: cluster, KeyPrefix: cfg.Redis.KeyPrefix, Database: cfg.Redis.Database,
		Username: cfg.Redis.Username, Password: password,
		TimeoutMicros: cfg.Redis.TimeoutMicros, MaxAgeMicros: cfg.Redis.MaxStreamAgeMicros,
		MaxPending: cfg.Failure.MaxPending, Breaker: cfg.Failure.Breaker,
		Overrides: cfg.UsesOverrides(), Seed: h.Uint64(),
	})
	return l, nil
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

// letGo lets go of what the configuration has opened.
func (l *limiter) letGo() {
	if l.stream != nil {
		l.stream.CloseStream()
		l.stream.SwapStreams()
		l.stream.CloseStream()
		l.stream.reap()
	}
	l.exprs.removeAll()
	l.metrics.observe(l)
	l.metrics.batch.Close()
}

// wake makes the timer tick in time for what waits next.
func (l *limiter) wake(now decide.Time) {
	l.tickWithin(l.nextMicros(now.SteadyMicros), now.SteadyMicros)
}

// nextMicros is how long until something waits for a tick; 0 if nothing does.
func (l *limiter) nextMicros(nowMicros int64) int64 {
	return decide.Sooner(l.worker.NextMicros(nowMicros), l.ownNextMicros(nowMicros))
}

// ownNextMicros is how long until something other than a request does.
func (l *limiter) ownNextMicros(nowMicros int64) int64 {
	next := l.metrics.batch.NextMicros(nowMicros)
	// An interval of the top offenders begins with the first call after a rejection.
	if o := l.metrics.offenders; o != nil && (o.sketch.Total() > 0 || o.shown) {
		if o.sinceMicros == 0 {
			o.sinceMicros = nowMicros
		}
		next = decide.Sooner(next, max(1, o.sinceMicros+o.intervalMicros-nowMicros))
	}
	if l.stream != nil && len(l.stream.useless) > 0 {
		next = 1
	}
	return next
}

// tickWithin makes the timer tick within some time; 0 asks for nothing. A timer that
// ticks early is left alone until then: to set it is a call into Envoy.
func (l *limiter) tickWithin(micros, nowMicros int64) {
	if micros > 0 && (l.tickMillis == 0 || nowMicros+micros+1000 < l.tickAtMicros) {
		l.setTimer(micros, nowMicros)
	}
}

// setTimer makes the timer tick in some time and from then on with that period, if it
// does not already; 0 stops it.
func (l *limiter) setTimer(micros, nowMicros int64) {
	millis := uint32((micros + 999) / 1000)
	if millis != l.tickMillis {
		l.host.setTickPeriod(l.id, millis)
		l.tickMillis, l.tickAtMicros = millis, nowMicros+int64(millis)*1000
	}
}

// What a decision does in Envoy. The limiter is the decide.Host of its Worker.

// Say implements decide.Host: %FILTER_STATE(wasm.sluice)% in access logs.
func (l *limiter) Say(contextID uint32, text string) { l.host.setProperty(contextID, "sluice", text) }

// Answer implements decide.Host.
func (l *limiter) Answer(contextID uint32, r *answer.Rejection) {
	contentType, _ := l.host.header(contextID, requestHeader, "content-type")
	r.GRPC, r.AtMicros = answer.IsGRPC(contentType), l.told(r.AtMicros)
	if l.rejectedState && !r.Undecided {
		l.state = r.AppendState(l.state[:0])
		l.host.setProperty(contextID, "sluice.rejected", text.View(l.state))
	}
	reply, again := l.refusals.Answer(r)
	if !again {
		l.refusals.Wire = appendHeaders(l.refusals.Wire[:0], reply.Headers)
	}
	l.host.sendResponse(contextID, reply.Status, r.Text, l.refusals.Wire, reply.Body, reply.GRPCStatus)
}

// Request, Resume and Warn implement decide.Host.
func (l *limiter) Request(contextID uint32) rule.Request { return l.view.of(contextID) }
func (l *limiter) Resume(contextID uint32)               { l.host.resumeRequest(contextID) }
func (l *limiter) Warn(line string)                      { l.host.logLine(logWarn, line) }

// Report implements decide.Host.
func (l *limiter) Report(contextID uint32, r *answer.Report) {
	contentType, _ := l.host.header(contextID, requestHeader, "content-type")
	r.GRPC = answer.IsGRPC(contentType)
	reply := l.answers.Report(r)
	l.headers = appendHeaders(l.headers[:0], reply.Headers)
	l.host.sendResponse(contextID, reply.Status, r.Text, l.headers, reply.Body, reply.GRPCStatus)
}

// told is the Unix time of decisions: that of the store that made them, or now if none did.
func (l *limiter) told(atMicros int64) int64 {
	if atMicros == 0 {
		return l.host.unixMicros()
	}
	return atMicros
}

// TickWithin implements decide.Host. The metrics and the rest of the limiter wait for ticks,
// too.
func (l *limiter) TickWithin(micros, nowMicros int64) {
	l.tickWithin(decide.Sooner(micros, l.ownNextMicros(nowMicros)), nowMicros)
}

// SetHeaders implements decide.Host. Envoy chooses the route anew.
func (l *limiter) SetHeaders(contextID uint32, headers [][2]string) {
	l.host.setHeaders(contextID, requestHeader, headers)
}

// strip takes from a request that begins the headers that some over sets: they are what Sluice
// says, not what a client does. Others are not touched, as Envoy would choose the route anew.
//
//go:noinline
func (l *limiter) strip(contextID uint32) {
	fields := readFields(l.host.requestHeaders(contextID))
	for name, _, ok := fields.next(); ok; name, _, ok = fields.next() {
		for _, of := range l.rules.OverHeaders { // in the spelling of config.SameHeader
			same := len(name) == len(of)
			for i := 0; same && i < len(name); i++ {
				same = name[i] == of[i] || name[i] == '_' && of[i] == '-'
			}
			if same {
				l.host.removeRequestHeader(contextID, text.View(name))
			}
		}
	}
}
