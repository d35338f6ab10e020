package main

import (
	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/sluiceproxy/sluice/plugin/config"
)

// plugin is one configuration's plugin context. Which role it has, limiter or
// bridge, is known once its configuration has been read.
type plugin struct {
	types.DefaultPluginContext
	id      uint32
	limiter *limiter // nil: the bridge
}

func newPlugin(id uint32) *plugin { return &plugin{id: id} }

// OnPluginStart reads the configuration. A mistake makes Envoy refuse it and
// keep the one it had; the log names every mistake.
func (p *plugin) OnPluginStart(int) types.OnPluginStartStatus {
	cfg, err := config.Parse(pluginConfiguration())
	if err == nil && !cfg.Bridge {
		p.limiter, err = newLimiter(p.id, cfg)
	}
	if err != nil {
		logLine(logCritical, err.Error())
		return types.OnPluginStartStatusFailed
	}
	if p.limiter != nil {
		p.limiter.wake(steadyMicros()) // for the first flush of the metrics
	}
	return types.OnPluginStartStatusOK
}

// NewHttpContext begins a request, or, in the bridge, one stream to Redis.
func (p *plugin) NewHttpContext(id uint32) types.HttpContext {
	if p.limiter == nil {
		return &bridge{}
	}
	return p.limiter.newRequest(id)
}

// OnTick passes time; it is asked for only while something waits for it.
func (p *plugin) OnTick() {
	if p.limiter != nil {
		p.limiter.tick()
	}
}

// OnPluginDone ends what the configuration has opened.
func (p *plugin) OnPluginDone() bool {
	if p.limiter != nil {
		p.limiter.close()
	}
	return true
}
