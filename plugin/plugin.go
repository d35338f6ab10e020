package main

import (
	"slices"

	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/sluiceproxy/sluice/plugin/calendar"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// vm is the plugin in one worker of an Envoy.
type vm struct {
	host    host
	metrics *metricIDs
	notices notices
	tried   []attempt // what this VM has tried
	// plugins are the configurations by their contexts: during a reload there are
	// two, and each has its own stream to Redis.
	plugins map[uint32]*plugin
}

func newVM(h host) *vm {
	return &vm{
		host: h, metrics: newMetricIDs(h), notices: newNotices(h), plugins: map[uint32]*plugin{},
	}
}

// plugin is one configuration's plugin context.
type plugin struct {
	vm       *vm
	id       uint32
	limiter  *limiter // nil until the configuration has been read
	requests *requestPool
}

// OnPluginStart reads the configuration. A mistake makes Envoy refuse it and
// keep the one it had; the log names every mistake.
func (p *plugin) OnPluginStart(int) types.OnPluginStartStatus {
	h := p.vm.host
	h.running(p.id)
	exprs := &expressions{host: h, pluginID: p.id}
	cfg, err := config.Checks{Expression: exprs.check, Zone: calendar.Known}.Parse(h.buffer(configuration, 0, toTheEnd))
	p.vm.notices.sayOnce(logInfo, "sluice: version "+buildVersion())
	if err == nil {
		err = cfg.TakeHashSecret(h.environment)
	}
	if err == nil {
		p.limiter, err = newLimiter(p.vm, p.id, cfg, exprs)
	}
	if err != nil {
		for _, line := range config.Lines(err) {
			h.logLine(logCritical, line)
		}
		return types.OnPluginStartStatusFailed
	}
	p.requests = &requestPool{limiter: p.limiter}
	p.limiter.wake(p.limiter.now()) // for the first flush of the metrics
	return types.OnPluginStartStatusOK
}

// tick passes time; it is asked for only while something waits for it. It reports whether
// the configuration, which was to end, has ended.
func (p *plugin) tick() (ended bool) {
	p.vm.host.running(p.id)
	ended = p.limiter != nil && p.limiter.tick()
	if ended {
		delete(p.vm.plugins, p.id)
		p.vm.host.pluginDone(p.id)
	}
	return ended
}

// OnPluginDone ends the configuration, now that the last of its streams has ended.
// It reports whether nothing is left to do; otherwise a tick says so later.
func (p *plugin) OnPluginDone() bool {
	p.vm.host.running(p.id)
	if p.limiter != nil && !p.limiter.close() {
		return false
	}
	delete(p.vm.plugins, p.id)
	return true
}

// Bound: Redis that a VM has tried. Beyond it, the oldest is forgotten, and tried again if it comes
// back. Protects memory over many configurations.
const maxTrials = 16

// attempt has the settings that a worker's first use of Redis depends on.
type attempt struct {
	redis     config.Redis
	overrides bool
}

// mustTry reports whether this worker has yet to try a Redis (plugin/redis, startup_check.go). Updates
// of the rules alone, which may come several a second, need no connection for that, but for one that
// brings the first overrides.
func (v *vm) mustTry(cfg *config.Config) bool {
	this := attempt{*cfg.Redis, cfg.UsesOverrides()}
	if slices.Contains(v.tried, this) {
		return false
	}
	if len(v.tried) == maxTrials {
		v.tried = v.tried[1:]
	}
	v.tried = append(v.tried, this)
	return true
}

// begin begins a request. With the first one the limiter tries Redis: this VM serves requests, while that
// of Envoy's main thread, which cannot reach an internal listener, never does.
func (p *plugin) begin(id uint32) *httpRequest {
	if l := p.limiter; l.untried != nil {
		if l.vm.mustTry(l.untried) {
			l.conn.Try()
			l.wake(l.now())
		}
		l.untried = nil
	}
	return p.requests.begin(id)
}
