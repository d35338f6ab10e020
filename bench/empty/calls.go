//go:build tinygo

package main

import (
	"strconv"
	"strings"

	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"
)

// The host calls whose cost the benchmark tells. They are Sluice's own declarations:
// the SDK's allocate and what the host does.

//go:wasmimport env proxy_get_header_map_value
func getHeader(kind uint32, name *byte, nameLen uint32, value **byte, valueLen *uint32) uint32

//go:wasmimport env proxy_replace_header_map_value
func replaceHeader(kind uint32, name *byte, nameLen uint32, value *byte, valueLen uint32) uint32

//go:wasmimport env proxy_get_property
func getProperty(path *byte, pathLen uint32, value **byte, valueLen *uint32) uint32

//go:wasmimport env proxy_set_property
func setProperty(path *byte, pathLen uint32, value *byte, valueLen uint32) uint32

//go:wasmimport env proxy_set_effective_context
func setEffectiveContext(id uint32) uint32

//go:wasmimport env proxy_define_metric
func defineMetric(kind uint32, name *byte, nameLen uint32, id *uint32) uint32

//go:wasmimport env proxy_increment_metric
func incrementMetric(id uint32, delta int64) uint32

//go:wasmimport wasi_snapshot_preview1 clock_time_get
func clockTime(clock uint32, precision uint64, now *uint64) uint32

const (
	requestMap  = 0
	responseMap = 2
)

// text is a string as the host wants it, prepared so that a call measures the host.
type text struct {
	at  *byte
	len uint32
}

func textOf(s string) text { return text{&[]byte(s)[0], uint32(len(s))} }

var (
	identity  = textOf("x-api-key")
	absent    = textOf("x-absent")
	status    = textOf(":status")
	shown     = textOf("x-ratelimit-limit")
	million   = textOf("1000000")
	outcome   = textOf("sluice")
	allowed   = textOf("allowed;bench")
	address   = textOf("source\x00address")
	counter   = textOf("bench.calls")
	result    *byte
	resultLen uint32
	now       uint64
	metric    uint32
)

// calls are the host calls, by the names that configurations give them.
var calls = map[string]func(contextID uint32){
	"request_header":     func(uint32) { getHeader(requestMap, identity.at, identity.len, &result, &resultLen) },
	"absent_header":      func(uint32) { getHeader(requestMap, absent.at, absent.len, &result, &resultLen) },
	"response_status":    func(uint32) { getHeader(responseMap, status.at, status.len, &result, &resultLen) },
	"response_header":    func(uint32) { replaceHeader(responseMap, shown.at, shown.len, million.at, million.len) },
	"attribute":          func(uint32) { getProperty(address.at, address.len, &result, &resultLen) },
	"filter_state":       func(uint32) { setProperty(outcome.at, outcome.len, allowed.at, allowed.len) },
	"clock":              func(uint32) { clockTime(1, 1000, &now) },
	"effective_context":  func(id uint32) { setEffectiveContext(id) },
	"increment_a_metric": func(uint32) { incrementMetric(metric, 1) },
}

// caller repeats a host call while the headers pass that it is about: Envoy shows
// those of the request only then.
type caller struct {
	types.DefaultHttpContext
	id       uint32
	call     func(contextID uint32)
	response bool
	times    int
}

// newCaller reads a configuration like "clock 50"; nil if it is something else.
func newCaller(configuration string) *caller {
	name, times, _ := strings.Cut(configuration, " ")
	n, _ := strconv.Atoi(times)
	call := calls[name]
	if call == nil || n == 0 {
		return nil
	}
	defineMetric(0, counter.at, counter.len, &metric)
	return &caller{call: call, response: strings.HasPrefix(name, "response_"), times: n}
}

// OnHttpRequestHeaders makes the calls that are not about the response.
func (c *caller) OnHttpRequestHeaders(int, bool) types.Action {
	if !c.response {
		c.repeat()
	}
	return types.ActionContinue
}

// OnHttpResponseHeaders makes the others.
func (c *caller) OnHttpResponseHeaders(int, bool) types.Action {
	if c.response {
		c.repeat()
	}
	return types.ActionContinue
}

func (c *caller) repeat() {
	for range c.times {
		c.call(c.id)
	}
}
