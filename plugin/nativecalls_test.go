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
func (v *nativeGuest) stream(call string, contextID uint32) *nativeStream {
	v.count(call)
	s := v.streams[contextID]
	if s == nil {
		v.t.Errorf("proxy_%s in context %d, which is no stream", call, contextID)
		return &nativeStream{vm: v, filter: &nativeFilter{vm: v}}
	}
	return s
}

// running is the stream of the callback that runs.
func (v *nativeGuest) running(call string) *nativeStream {
	v.count(call)
	return v.body
}

// filter is the plugin context that a host call acts on.
func (v *nativeGuest) filter(call string, contextID uint32) *nativeFilter {
	v.count(call)
	f := v.filters[contextID]
	if f == nil {
		v.t.Errorf("proxy_%s in context %d, which is no plugin's", call, contextID)
		return &nativeFilter{vm: v}
	}
	return f
}

func (v *nativeGuest) pluginDone(pluginID uint32) {
	f := v.filter("done", pluginID)
	f.done = true
	v.later(f.end)
}

func (v *nativeGuest) pluginConfiguration() []byte {
	v.count("get_buffer_bytes")
	return []byte(v.config)
}

func (v *nativeGuest) logLine(level logLevel, text string) {
	v.count("log")
	v.lines = append(v.lines, wasmhost.LogLine{Level: wasmhost.LogLevel(level), Text: strings.Clone(text)})
}

func (v *nativeGuest) setTickPeriod(pluginID, millis uint32) {
	v.filter("set_tick_period_milliseconds", pluginID).tickMillis = millis
}

func (v *nativeGuest) unixMicros() int64 {
	v.count("get_current_time_nanoseconds")
	return v.worker.clock.now.UnixMicro()
}

func (v *nativeGuest) steadyMicros() int64 { return v.worker.clock.now.UnixMicro() }

func (v *nativeGuest) environment(name string) (value string, ok bool) {
	var text []byte
	for n, value := range v.worker.env {
		text = append(text, n+"="+value+"\x00"...)
	}
	return lookup(text, name)
}

func (v *nativeGuest) requestHeader(contextID uint32, name string) (string, bool) {
	return v.stream("get_header_map_value", contextID).request.Get(name)
}

func (v *nativeGuest) responseHeader(contextID uint32, name string) (string, bool) {
	return v.stream("get_header_map_value", contextID).response.Get(name)
}

func (v *nativeGuest) setResponseHeaders(contextID uint32, headers [][2]string) {
	for _, h := range headers {
		s := v.stream("replace_header_map_value", contextID)
		s.response = slices.DeleteFunc(s.response, func(p [2]string) bool { return p[0] == h[0] })
		s.response = append(s.response, [2]string{h[0], strings.Clone(h[1])})
	}
}

// property is an attribute. One whose path has an element with a dot is found
// under the path as it is, as in wasmhost.Properties.
func (v *nativeGuest) property(contextID uint32, path string) ([]byte, bool) {
	s := v.stream("get_property", contextID)
	for _, key := range []string{path, strings.ReplaceAll(path, "\x00", ".")} {
		for _, properties := range []wasmhost.Properties{s.record.Properties, v.worker.properties} {
			if value, ok := properties[key]; ok {
				return slices.Clone(value), true
			}
		}
	}
	return nil, false
}

func (v *nativeGuest) setProperty(contextID uint32, path, value string) {
	v.stream("set_property", contextID).record.FilterState["wasm."+path] = []byte(value)
}

func (v *nativeGuest) resumeRequest(contextID uint32) {
	s := v.stream("continue_stream", contextID)
	if !s.paused || s.record.Local != nil {
		v.t.Error("a request was resumed that is not paused")
	}
	v.later(s.pass)
}

func (v *nativeGuest) sendResponse(contextID, status uint32, details string, headers []byte, body string, grpcStatus int32) {
	v.stream("send_local_response", contextID).respond(&wasmhost.LocalResponse{
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

func (v *nativeGuest) requestBody(start, size int) []byte { return v.part(start, size) }

func (v *nativeGuest) responseBody(start, size int) []byte { return v.part(start, size) }

func (v *nativeGuest) part(start, size int) []byte {
	b := v.running("get_buffer_bytes").body
	start = min(start, len(b))
	return slices.Clone(b[start:min(start+size, len(b))])
}

func (v *nativeGuest) dropRequestBody(n int) {
	s := v.running("set_buffer_bytes")
	s.body = s.body[n:]
}

func (v *nativeGuest) replaceRequestBody(b []byte) { v.replaceBody(b) }

func (v *nativeGuest) replaceResponseBody(b []byte) { v.replaceBody(b) }

func (v *nativeGuest) replaceBody(b []byte) {
	v.running("set_buffer_bytes").body = slices.Clone(b)
}

func (v *nativeGuest) prependResponseBody(b []byte) {
	s := v.running("set_buffer_bytes")
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
