package wasmhost

import (
	"errors"
	"time"
)

// ErrRefused is the error of a plugin context when the guest does not want
// its configuration. The guest's log says why.
var ErrRefused = errors.New("the guest refused the configuration")

// vmContext is a context as the guest knows it: that of a plugin, or that of a
// stream and the plugin it belongs to.
type vmContext struct {
	id     uint32
	plugin *Plugin
	stream *Stream // nil: the plugin's own
}

func (h *Host) newContext(p *Plugin, s *Stream) *vmContext {
	c := &vmContext{id: h.nextID, plugin: p, stream: s}
	h.nextID++
	h.contexts[c.id] = c
	return c
}

// A Plugin is a plugin context: one configuration of the filter on this worker.
// After a reload two live in one VM until the old one's streams have ended.
type Plugin struct {
	*vmContext
	host       *Host
	config     *[]byte // readable only while the plugin starts
	tickPeriod time.Duration
	state      pluginState
	streams    int             // that have not ended
	declared   map[string]bool // the properties; whether for all passes of a request

	expressions expressions

	grpc    map[uint32]*grpcStream // by token
	message *[]byte                // of gRPC, while its callback runs
}

type pluginState int

const (
	live pluginState = iota
	closing
	waitingForDone
	finished
)

// StartPlugin makes a plugin context and configures it. Envoy calls
// proxy_on_vm_start for each, not once per VM.
func (h *Host) StartPlugin(config string) (*Plugin, error) {
	p := &Plugin{host: h, grpc: map[uint32]*grpcStream{}, declared: map[string]bool{}}
	p.vmContext = h.newContext(p, nil)
	content := []byte(config)
	p.config = &content
	h.call(p.vmContext, "proxy_on_context_create", p.id, 0)
	p.config = nil
	if r := h.call(p.vmContext, "proxy_on_vm_start", p.id, 0); r.ok && r.value == 0 {
		return nil, ErrRefused
	}
	p.config = &content
	r := h.call(p.vmContext, "proxy_on_configure", p.id, uint32(len(config)))
	p.config = nil
	if r.ok && r.value == 0 {
		return nil, ErrRefused
	}
	return p, h.failure
}

// TickPeriod is how often the guest has asked to be ticked; 0: never.
func (p *Plugin) TickPeriod() time.Duration { return p.tickPeriod }

// Tick is one tick of the timer, which runs only when a test says so.
func (p *Plugin) Tick() {
	if p.state != finished {
		p.host.call(p.vmContext, "proxy_on_tick", p.id)
	}
}

// Close takes the configuration away. As in Envoy the guest hears of it once
// the last stream has ended, and its gRPC streams are reset in the end.
func (p *Plugin) Close() {
	if p.state == live {
		p.state = closing
		p.closeIfUnused()
	}
}

// Closed reports whether the guest has been told to delete the context.
func (p *Plugin) Closed() bool { return p.host.contexts[p.id] == nil }

func (p *Plugin) closeIfUnused() {
	if p.state != closing || p.streams > 0 {
		return
	}
	r := p.host.call(p.vmContext, "proxy_on_done", p.id)
	if r.ok && r.value == 0 {
		p.state = waitingForDone // until proxy_done
		return
	}
	p.delete()
}

func (p *Plugin) delete() {
	p.state = finished
	p.host.call(p.vmContext, "proxy_on_delete", p.id)
	p.cancelStreams()
	delete(p.host.contexts, p.id)
}
