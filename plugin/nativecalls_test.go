package main

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

// The host calls of a nativeGuest (envoy). They are counted under the names that
// they have in the ABI.

func (v *nativeGuest) count(call string) {
	v.made["proxy_"+call]++
	if before := v.worker.before; before != nil {
		before("proxy_" + call)
	}
}

// stream is the request that a host call acts on.
func (v *nativeGuest) stream(call string) *nativeStream {
	v.count(call)
	s := v.streams[v.current]
	if s == nil {
		v.t.Errorf("proxy_%s in context %d, which is no stream", call, v.current)
		return &nativeStream{vm: v, filter: &nativeFilter{vm: v}}
	}
	return s
}

// filter is the plugin context that a host call acts on.
func (v *nativeGuest) filter(call string) *nativeFilter {
	v.count(call)
	f := v.filters[v.current]
	if f == nil {
		v.t.Errorf("proxy_%s in context %d, which is no plugin's", call, v.current)
		return &nativeFilter{vm: v}
	}
	return f
}

func (v *nativeGuest) enter(contextID uint32) {
	v.count("set_effective_context")
	if v.filters[contextID] == nil && v.streams[contextID] == nil {
		v.t.Errorf("there is no context %d", contextID)
	}
	v.current = contextID
}

func (v *nativeGuest) pluginConfiguration() []byte {
	v.count("get_buffer_bytes")
	return []byte(v.config)
}

func (v *nativeGuest) logLine(level logLevel, text string) {
	v.count("log")
	v.lines = append(v.lines, wasmhost.LogLine{Level: wasmhost.LogLevel(level), Text: strings.Clone(text)})
}

func (v *nativeGuest) setTickPeriod(millis uint32) {
	v.filter("set_tick_period_milliseconds").tickMillis = millis
}

func (v *nativeGuest) unixMicros() int64 {
	v.count("get_current_time_nanoseconds")
	return v.worker.clock.now.UnixMicro()
}

func (v *nativeGuest) steadyMicros() int64 { return v.worker.clock.now.UnixMicro() }

func (v *nativeGuest) requestHeader(name string) (string, bool) {
	return v.stream("get_header_map_value").request.Get(name)
}

func (v *nativeGuest) requestHeaders() []byte {
	return appendHeaders(nil, v.stream("get_header_map_pairs").request)
}

func (v *nativeGuest) setResponseHeader(name, value string) {
	s := v.stream("replace_header_map_value")
	s.response = slices.DeleteFunc(s.response, func(p [2]string) bool { return p[0] == name })
	s.response = append(s.response, [2]string{name, strings.Clone(value)})
}

// property is an attribute. One whose path has an element with a dot is found
// under the path as it is, as in wasmhost.Properties.
func (v *nativeGuest) property(path string) ([]byte, bool) {
	s := v.stream("get_property")
	for _, key := range []string{path, strings.ReplaceAll(path, "\x00", ".")} {
		for _, properties := range []wasmhost.Properties{s.record.Properties, v.worker.properties} {
			if value, ok := properties[key]; ok {
				return slices.Clone(value), true
			}
		}
	}
	return nil, false
}

func (v *nativeGuest) setProperty(path, value string) {
	v.stream("set_property").record.FilterState["wasm."+path] = []byte(value)
}

func (v *nativeGuest) resumeRequest() {
	s := v.stream("continue_stream")
	if !s.paused || s.record.Local != nil {
		v.t.Error("a request was resumed that is not paused")
	}
	v.later(s.pass)
}

func (v *nativeGuest) sendResponse(status uint32, details string, headers []byte, body string, grpcStatus int32) {
	v.stream("send_local_response").respond(&wasmhost.LocalResponse{
		Status: status, Details: strings.Clone(details), Body: strings.Clone(body),
		Headers: readHeaders(headers), GRPCStatus: grpcStatus,
	})
}

// readHeaders is the inverse of appendHeaders.
func readHeaders(b []byte) wasmhost.Pairs {
	out := make(wasmhost.Pairs, binary.LittleEndian.Uint32(b))
	at := 4 + 8*len(out)
	for i := range out {
		for j := range 2 {
			n := int(binary.LittleEndian.Uint32(b[4+8*i+4*j:]))
			out[i][j] = string(b[at : at+n])
			at += n + 1
		}
	}
	return out
}

func (v *nativeGuest) requestBody(start, size int) []byte { return v.body(start, size) }

func (v *nativeGuest) responseBody(start, size int) []byte { return v.body(start, size) }

func (v *nativeGuest) body(start, size int) []byte {
	b := v.stream("get_buffer_bytes").body
	start = min(start, len(b))
	return slices.Clone(b[start:min(start+size, len(b))])
}

func (v *nativeGuest) dropRequestBody(n int) {
	s := v.stream("set_buffer_bytes")
	s.body = s.body[n:]
}

func (v *nativeGuest) replaceRequestBody(b []byte) { v.replaceBody(b) }

func (v *nativeGuest) replaceResponseBody(b []byte) { v.replaceBody(b) }

func (v *nativeGuest) replaceBody(b []byte) {
	v.stream("set_buffer_bytes").body = slices.Clone(b)
}

func (v *nativeGuest) prependResponseBody(b []byte) {
	s := v.stream("set_buffer_bytes")
	s.body = slices.Concat(b, s.body)
}

// sharedMemory is the shared data of the workers of one Envoy, see SharedData
// in proxy-wasm-cpp-host, src/shared_data.cc.
type sharedMemory struct {
	values map[string]sharedValue
	cas    uint32
}

type sharedValue struct {
	bytes []byte
	cas   uint32
}

func newSharedMemory() *sharedMemory { return &sharedMemory{values: map[string]sharedValue{}} }

func (v *nativeGuest) getSharedData(key string) (value []byte, cas, status uint32) {
	v.count("get_shared_data")
	held, ok := v.worker.shared.values[key]
	if !ok {
		return nil, 0, statusNotFound
	}
	return slices.Clone(held.bytes), held.cas, statusOK
}

func (v *nativeGuest) setSharedData(key string, value []byte, cas uint32) (status uint32) {
	v.count("set_shared_data")
	m := v.worker.shared
	if held, ok := m.values[key]; ok && cas != 0 && cas != held.cas {
		return statusCASMismatch
	}
	m.cas++
	m.values[strings.Clone(key)] = sharedValue{slices.Clone(value), m.cas}
	return statusOK
}
