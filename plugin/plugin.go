package main

import (
	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/sluiceproxy/sluice/plugin/calendar"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/text"
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
	ids := &metricIDs{host: h}
	for kind := range ids.defined {
		ids.defined[kind] = map[string]uint32{}
	}
	return &vm{
		host: h, metrics: ids, notices: notices{host: h, said: map[string]bool{}}, plugins: map[uint32]*plugin{},
	}
}

// plugin is one configuration's plugin context.
type plugin struct {
	vm      *vm
	id      uint32
	limiter *limiter // nil until the configuration has been read
}

// Bound: Redis that a VM has tried. Beyond it, the oldest is forgotten, and tried again if it comes
// back. Protects memory over many configurations.
const maxTrials = 16

// attempt has the settings that a worker's first use of Redis depends on.
type attempt struct {
	redis     config.Redis
	overrides bool
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
	p.limiter.wake(p.limiter.now()) // for the first flush of the metrics
	return types.OnPluginStartStatusOK
}

// tick passes time; it is asked for only while something waits for it. It reports whether
// the configuration, which was to end, has ended.
func (p *plugin) tick() (ended bool) {
	p.vm.host.running(p.id)
	l := p.limiter
	if l == nil {
		return false
	}
	now := l.now()
	l.tickAtMicros = now.SteadyMicros + int64(l.tickMillis)*1000
	ended = l.worker.Tick(now)
	if l.stream != nil {
		l.stream.reap()
	}
	m := l.metrics
	if o := m.offenders; o != nil && o.sinceMicros > 0 && now.SteadyMicros >= o.sinceMicros+o.intervalMicros {
		// The interval is over: the log has it, and the gauges have its highest ranks.
		if o.shown = o.sketch.Total() > 0; o.shown {
			m.line = o.sketch.AppendReport(m.line[:0], (now.SteadyMicros-o.sinceMicros+500_000)/1_000_000)
			m.host.logLine(logInfo, text.View(m.line))
		}
		rank := 0
		for offender := range o.sketch.Top {
			if rank == len(m.ranks) {
				break
			}
			m.batch.Set(m.ranks[rank], offender.Rejections)
			rank++
		}
		for ; rank < len(m.ranks); rank++ {
			m.batch.Set(m.ranks[rank], 0)
		}
		o.sketch.Reset()
		o.sinceMicros = 0
	}
	m.observe(l)
	if m.batch.Due(now.SteadyMicros) {
		m.batch.Flush()
	}
	if !ended {
		l.setTimer(l.nextMicros(now.SteadyMicros), now.SteadyMicros)
		return false
	}
	l.letGo()
	l.setTimer(0, now.SteadyMicros)
	delete(p.vm.plugins, p.id)
	p.vm.host.pluginDone(p.id)
	return true
}

// OnPluginDone ends the configuration, now that the last of its streams has ended.
// It reports whether nothing is left to do; otherwise a tick says so later.
func (p *plugin) OnPluginDone() bool {
	p.vm.host.running(p.id)
	if l := p.limiter; l != nil {
		if !l.worker.Close(l.now()) {
			return false
		}
		l.letGo()
	}
	delete(p.vm.plugins, p.id)
	return true
}
