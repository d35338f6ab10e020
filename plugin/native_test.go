package main

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

// nativeGuest is the plugin as ordinary Go: what the SDK does in a VM. What Envoy
// does is in internal/wasmhost.
type nativeGuest struct {
	vm      *vm
	host    *wasmhost.Host
	streams map[uint32]types.HttpContext
}

func newNativeGuest(t *testing.T, h *wasmhost.Host, chance rand.Source) *nativeGuest {
	return &nativeGuest{
		vm:      newVM(host{nativeEnvoy{h, t, chance}}),
		host:    h,
		streams: map[uint32]types.HttpContext{},
	}
}

// nativeCallbacks are those of the ABI that the plugin has a use for.
var nativeCallbacks = map[string]func(g *nativeGuest, id uint32, args []uint32) uint32{
	"proxy_on_context_create": func(g *nativeGuest, id uint32, args []uint32) uint32 {
		if parent := args[0]; parent != 0 {
			g.streams[id] = g.vm.plugins[parent].limiter.begin(id)
		} else {
			g.vm.plugins[id] = &plugin{vm: g.vm, id: id}
		}
		return 0
	},
	"proxy_on_configure": func(g *nativeGuest, id uint32, args []uint32) uint32 {
		return boolResult(bool(g.vm.plugins[id].OnPluginStart(int(args[0]))))
	},
	"proxy_on_tick": func(g *nativeGuest, id uint32, _ []uint32) uint32 {
		g.vm.plugins[id].tick()
		return 0
	},
	"proxy_on_request_headers": func(g *nativeGuest, id uint32, args []uint32) uint32 {
		return uint32(g.streams[id].OnHttpRequestHeaders(int(args[0]), args[1] != 0))
	},
	"proxy_on_response_headers": func(g *nativeGuest, id uint32, args []uint32) uint32 {
		return uint32(g.streams[id].OnHttpResponseHeaders(int(args[0]), args[1] != 0))
	},
	"proxy_on_grpc_receive": func(g *nativeGuest, id uint32, args []uint32) uint32 {
		token, size := args[0], args[1]
		message, _ := g.host.Begin("proxy_get_buffer_bytes", 0).GetBuffer(wasmhost.GRPCMessage, 0, size)
		if l := g.vm.streaming(id); l != nil {
			message = slices.Clone(message)
			l.received(token, message)
			for i := range message { // as the next one takes its place
				message[i] = '!'
			}
		}
		return 0
	},
	"proxy_on_grpc_close": func(g *nativeGuest, id uint32, args []uint32) uint32 {
		if l := g.vm.streaming(id); l != nil {
			l.closed(args[0], args[1])
		}
		return 0
	},
	"proxy_on_log": func(g *nativeGuest, id uint32, _ []uint32) uint32 {
		if s := g.streams[id]; s != nil {
			s.OnHttpStreamDone()
		}
		return 0
	},
	"proxy_on_done": func(g *nativeGuest, id uint32, _ []uint32) uint32 {
		if s := g.streams[id]; s != nil {
			s.OnHttpStreamDone()
		}
		p := g.vm.plugins[id]
		return boolResult(p == nil || p.OnPluginDone())
	},
	"proxy_on_delete": func(g *nativeGuest, id uint32, _ []uint32) uint32 {
		delete(g.streams, id)
		return 0
	},
}

func boolResult(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// Exports implements wasmhost.Guest.
func (g *nativeGuest) Exports(callback string) bool { return nativeCallbacks[callback] != nil }

// Call implements wasmhost.Guest.
func (g *nativeGuest) Call(callback string, args ...uint32) (uint32, error) {
	return nativeCallbacks[callback](g, args[0], args[1:]), nil
}

// Close implements wasmhost.Guest.
func (g *nativeGuest) Close() error { return nil }

// nativeEnvoy is the plugin's host calls: host_tinygo.go's twin. A call that
// returns nothing must succeed. What the plugin passes is its own memory, which it
// uses again, so whatever Envoy may keep is copied.
type nativeEnvoy struct {
	*wasmhost.Host

	t      *testing.T
	chance rand.Source
}

func (e nativeEnvoy) must(status wasmhost.Status) {
	if status != wasmhost.StatusOK {
		e.t.Helper() // the line says which call it is
		e.t.Errorf("a host call failed with status %d", status)
	}
}

func (e nativeEnvoy) Uint64() uint64      { return e.chance.Uint64() }
func (e nativeEnvoy) steadyMicros() int64 { return e.Now().UnixMicro() }
func (e nativeEnvoy) unixMicros() int64 {
	e.Begin("proxy_get_current_time_nanoseconds", 0)
	return e.Now().UnixMicro()
}

func (e nativeEnvoy) environment(name string) (value string, ok bool) {
	return lookup(e.Environment(), name)
}

func (e nativeEnvoy) buffer(kind, start, size uint32) []byte {
	b, _ := e.Begin("proxy_get_buffer_bytes", 0).GetBuffer(wasmhost.BufferType(kind), start, size)
	return slices.Clone(b)
}

func (e nativeEnvoy) logLine(level logLevel, text string) {
	e.must(e.Begin("proxy_log", 0).Log(wasmhost.LogLevel(level), strings.Clone(text)))
}

func (e nativeEnvoy) header(id, kind uint32, name string) (string, bool) {
	value, status := e.Begin("proxy_get_header_map_value", id).GetHeader(wasmhost.MapType(kind), name)
	return value, status == wasmhost.StatusOK
}

func (e nativeEnvoy) requestHeaders(id uint32) []byte {
	pairs, _ := e.Begin("proxy_get_header_map_pairs", id).GetHeaders(wasmhost.RequestHeaders)
	return appendHeaders(nil, pairs)
}

func (e nativeEnvoy) setHeaders(id, kind uint32, headers [][2]string) {
	for _, h := range headers {
		c := e.Begin("proxy_replace_header_map_value", id)
		e.must(c.ReplaceHeader(wasmhost.MapType(kind), h[0], strings.Clone(h[1])))
	}
}

func (e nativeEnvoy) removeRequestHeader(id uint32, name string) {
	e.must(e.Begin("proxy_remove_header_map_value", id).RemoveHeader(wasmhost.RequestHeaders, strings.Clone(name)))
}

func (e nativeEnvoy) property(id uint32, path string) ([]byte, bool) {
	value, status := e.Begin("proxy_get_property", id).GetProperty(path)
	return slices.Clone(value), status == wasmhost.StatusOK
}

func (e nativeEnvoy) setProperty(id uint32, path, value string) {
	e.must(e.Begin("proxy_set_property", id).SetProperty(path, []byte(value)))
}

func (e nativeEnvoy) foreign(id uint32, name string, arguments []byte) ([]byte, bool) {
	results, status := e.Begin("proxy_call_foreign_function", id).CallForeign(name, slices.Clone(arguments))
	return slices.Clone(results), status == wasmhost.StatusOK
}

func (e nativeEnvoy) resumeRequest(id uint32) {
	e.must(e.Begin("proxy_continue_stream", id).ContinueRequest())
}

func (e nativeEnvoy) sendResponse(id, status uint32, details string, headers []byte, body string, grpcStatus int32) {
	c := e.Begin("proxy_send_local_response", id)
	e.must(c.SendLocalResponse(status, strings.Clone(details), strings.Clone(body), headers, grpcStatus))
}

func (e nativeEnvoy) setTickPeriod(id, millis uint32) {
	e.must(e.Begin("proxy_set_tick_period_milliseconds", id).SetTickPeriod(millis))
}

func (e nativeEnvoy) pluginDone(id uint32) { e.must(e.Begin("proxy_done", id).Done()) }

func (e nativeEnvoy) grpcOpen(id uint32, service []byte) (token, status uint32) {
	token, s := e.Begin("proxy_grpc_stream", id).OpenGRPC(string(service))
	return token, uint32(s)
}

func (e nativeEnvoy) grpcSend(id, token uint32, message []byte) (status uint32) {
	return uint32(e.Begin("proxy_grpc_send", id).SendGRPC(token, slices.Clone(message)))
}

func (e nativeEnvoy) grpcCancel(id, token uint32) {
	e.must(e.Begin("proxy_grpc_cancel", id).CancelGRPC(token))
}

func (e nativeEnvoy) getSharedData(key string) (value []byte, cas, status uint32) {
	value, cas, s := e.Begin("proxy_get_shared_data", 0).GetSharedData(strings.Clone(key))
	return slices.Clone(value), cas, uint32(s)
}

func (e nativeEnvoy) setSharedData(key string, value []byte, cas uint32) (status uint32) {
	return uint32(e.Begin("proxy_set_shared_data", 0).SetSharedData(strings.Clone(key), slices.Clone(value), cas))
}

func (e nativeEnvoy) defineMetric(kind uint32, name string) (id uint32) {
	id, status := e.Begin("proxy_define_metric", 0).DefineMetric(wasmhost.MetricType(kind), strings.Clone(name))
	e.must(status)
	return id
}

func (e nativeEnvoy) incrementMetric(id uint32, delta int64) {
	e.must(e.Begin("proxy_increment_metric", 0).IncrementMetric(id, delta))
}

func (e nativeEnvoy) recordMetric(id uint32, value uint64) {
	e.must(e.Begin("proxy_record_metric", 0).RecordMetric(id, value))
}

// limiters are those of the configurations that have not ended, by plugin context.
func (g *nativeGuest) limiters() map[uint32]*limiter {
	all := map[uint32]*limiter{}
	for id, p := range g.vm.plugins {
		if p.limiter != nil {
			all[id] = p.limiter
		}
	}
	return all
}
