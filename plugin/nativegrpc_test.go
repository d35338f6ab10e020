package main

import (
	"slices"

	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

// channel is a gRPC stream of a nativeGuest: the plugin's end (wasmhost.NearEnd).
type channel struct {
	vm     *nativeGuest
	filter *nativeFilter
	token  uint32
	peer   wasmhost.Peer
	closed bool // by the far end, or with the plugin context
	told   bool // proxy_on_grpc_close has been called
}

func (v *nativeGuest) grpcOpen(pluginID uint32, service []byte) (token, status uint32) {
	f := v.filter("grpc_stream", pluginID)
	cluster := v.worker.clusters[string(service)]
	if cluster == nil {
		return 0, uint32(wasmhost.StatusParseFailure)
	}
	v.token++
	c := &channel{vm: v, filter: f, token: v.token}
	v.channels[c.token] = c
	if c.peer = cluster.Open(c); c.closed {
		return 0, uint32(wasmhost.StatusInternalFailure)
	}
	return c.token, statusOK
}

// channel is the one of a token, which must be one that a plugin may still use.
func (v *nativeGuest) channel(call string, pluginID, token uint32) *channel {
	f := v.filter(call, pluginID)
	c := v.channels[token]
	if c == nil || c.filter != f || c.told {
		v.t.Errorf("proxy_%s of stream %d, which is not there", call, token)
		return &channel{vm: v, closed: true}
	}
	return c
}

func (v *nativeGuest) grpcSend(pluginID, token uint32, message []byte) (status uint32) {
	if c := v.channel("grpc_send", pluginID, token); !c.closed {
		c.peer.Send(slices.Clone(message), false)
	}
	return statusOK
}

func (v *nativeGuest) grpcCancel(pluginID, token uint32) {
	if c := v.channel("grpc_cancel", pluginID, token); !c.closed {
		c.peer.Cancel()
	}
}

// Post implements wasmhost.NearEnd.
func (c *channel) Post(f func()) { c.vm.later(f) }

// Connected implements wasmhost.NearEnd.
func (c *channel) Connected() {}

// Receive implements wasmhost.NearEnd.
func (c *channel) Receive(message []byte) {
	c.vm.later(func() {
		if !c.closed {
			c.vm.count("get_buffer_bytes")
			c.vm.call(func() { c.vm.plugin.received(c.filter.id, c.token, slices.Clone(message)) })
		}
	})
}

// Close implements wasmhost.NearEnd.
func (c *channel) Close(uint32) {
	if c.closed {
		return
	}
	c.closed = true
	c.vm.later(func() {
		c.told = true
		if c.vm.filters[c.filter.id] != nil {
			c.vm.call(func() { c.vm.plugin.closed(c.filter.id, c.token) })
		}
	})
}
