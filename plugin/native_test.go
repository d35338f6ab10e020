package main

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

// nativeGuest is the plugin as ordinary Go. It is an Envoy as far as the plugin
// can tell, but for memory; what Envoy would not put up with fails the test.
// The subtleties of Envoy are in internal/wasmhost.
type nativeGuest struct {
	t           *testing.T
	worker      *worker
	filters     map[uint32]*nativeFilter // by context id
	streams     map[uint32]*nativeStream
	plugin      *vm
	depth       int // of calls into the plugin
	lastContext uint32
	defined     []definedMetric // what the ids, from 1, stand for
	pending     []*nativeFilter // asked to end, and not done
	after       []func()
	body        *nativeStream // whose body a callback may see
	config      string        // of the plugin context that starts
	lines       []wasmhost.LogLine
	made        map[string]int
	channels    map[uint32]*channel // gRPC streams by token
	token       uint32
}

func newNativeGuest(w *worker) guest {
	v := &nativeGuest{
		t: w.t, worker: w,
		filters: map[uint32]*nativeFilter{}, streams: map[uint32]*nativeStream{},
		made: map[string]int{}, channels: map[uint32]*channel{},
	}
	v.plugin = newVM(host{v})
	return v
}

func (v *nativeGuest) newContext() uint32 {
	v.lastContext++
	return v.lastContext
}

// call runs a callback, and then what must not happen inside one.
func (v *nativeGuest) call(callback func()) {
	v.depth++
	callback()
	v.depth--
	for v.depth == 0 && len(v.after) > 0 {
		f := v.after[0]
		v.after = v.after[1:]
		f()
	}
}

// later runs f when no callback is running.
func (v *nativeGuest) later(f func()) {
	v.after = append(v.after, f)
	if v.depth == 0 {
		v.call(func() {})
	}
}

func (v *nativeGuest) start(config string) (filter, error) {
	f := &nativeFilter{vm: v, id: v.newContext()}
	v.filters[f.id] = f
	v.config = config
	ok := false
	v.call(func() {
		f.context = v.plugin.NewPluginContext(f.id)
		ok = bool(f.context.OnPluginStart(len(config)))
	})
	if !ok {
		return nil, wasmhost.ErrRefused
	}
	return f, nil
}

func (v *nativeGuest) logs() []wasmhost.LogLine { return v.lines }
func (v *nativeGuest) calls() map[string]int    { return v.made }

// nativeFilter is a plugin context.
type nativeFilter struct {
	vm         *nativeGuest
	id         uint32
	context    types.PluginContext
	tickMillis uint32
	streams    int
	closing    bool
	done       bool // it said so
}

func (f *nativeFilter) newStream() httpStream {
	s := &nativeStream{vm: f.vm, filter: f, id: f.vm.newContext()}
	s.record.Properties = wasmhost.Properties{}
	s.record.FilterState = map[string][]byte{}
	f.vm.streams[s.id] = s
	f.streams++
	f.vm.call(func() { s.context = f.context.NewHttpContext(s.id) })
	return s
}

func (f *nativeFilter) Tick() { f.vm.call(f.context.OnTick) }

func (f *nativeFilter) TickPeriod() time.Duration {
	return time.Duration(f.tickMillis) * time.Millisecond
}

// Close takes the configuration away, once the last of its streams has ended.
func (f *nativeFilter) Close() {
	f.closing = true
	if f.streams > 0 || f.vm.filters[f.id] == nil {
		return
	}
	f.vm.call(func() {
		if done := f.context.OnPluginDone(); !done && !f.done {
			f.vm.pending = append(f.vm.pending, f)
		} else {
			f.done = true
		}
	})
	if f.done {
		f.end()
	}
}

// end forgets the plugin context, which has no more to do.
func (f *nativeFilter) end() {
	for _, c := range f.vm.channels {
		if c.filter == f && !c.closed {
			c.closed = true
			c.peer.Cancel()
		}
	}
	delete(f.vm.filters, f.id)
}

// nativeStream is one request.
type nativeStream struct {
	vm                 *nativeGuest
	filter             *nativeFilter
	id                 uint32
	context            types.HttpContext
	record             wasmhost.Stream // only its exported fields are used
	request, response  wasmhost.Pairs
	requestEnd, paused bool
	body               []byte // what a callback may see of it
}

func (s *nativeStream) seen() *wasmhost.Stream { return &s.record }

func (s *nativeStream) RequestHeaders(headers wasmhost.Pairs, endOfStream bool) wasmhost.Action {
	s.request, s.requestEnd = headers, endOfStream
	action := types.ActionPause
	s.vm.call(func() { action = s.context.OnHttpRequestHeaders(len(headers), endOfStream) })
	if action == types.ActionContinue && s.record.Local == nil {
		s.pass()
		return wasmhost.Continue
	}
	s.paused = true // and no sooner: a resume in the callback comes too early
	return wasmhost.Pause
}

func (s *nativeStream) pass() {
	s.paused = false
	s.record.Upstream.Headers, s.record.Upstream.Ended = s.request, s.requestEnd
}

func (s *nativeStream) RequestPaused() bool { return s.paused }

func (s *nativeStream) RequestBody(body []byte, endOfStream bool) wasmhost.Action {
	return s.filterBody(body, &s.record.Upstream, func() types.Action {
		return s.context.OnHttpRequestBody(len(body), endOfStream)
	})
}

func (s *nativeStream) ResponseHeaders(headers wasmhost.Pairs, endOfStream bool) wasmhost.Action {
	s.response = append(wasmhost.Pairs(nil), headers...)
	action := types.ActionPause
	s.vm.call(func() { action = s.context.OnHttpResponseHeaders(len(headers), endOfStream) })
	s.record.Downstream.Headers, s.record.Downstream.Ended = s.response, endOfStream
	return wasmhost.Action(action)
}

func (s *nativeStream) ResponseBody(body []byte, endOfStream bool) wasmhost.Action {
	return s.filterBody(body, &s.record.Downstream, func() types.Action {
		return s.context.OnHttpResponseBody(len(body), endOfStream)
	})
}

func (s *nativeStream) filterBody(body []byte, out *wasmhost.Message, callback func() types.Action) wasmhost.Action {
	s.body = append([]byte(nil), body...)
	s.vm.body = s
	action := types.ActionPause
	s.vm.call(func() { action = callback() })
	out.Body = append(out.Body, s.body...)
	return wasmhost.Action(action)
}

func (s *nativeStream) End() {
	if s.vm.streams[s.id] == nil {
		return
	}
	s.vm.call(s.context.OnHttpStreamDone)
	delete(s.vm.streams, s.id)
	s.filter.streams--
	if s.filter.closing {
		s.filter.Close()
	}
}

// respond makes a local response of what the plugin sent. Its headers go through
// the filter like the upstream's.
func (s *nativeStream) respond(r *wasmhost.LocalResponse) {
	if s.record.Local != nil {
		s.vm.t.Error("a second local response")
	}
	r.Details = strings.ReplaceAll(r.Details, " ", "_")
	s.record.Local = r
	s.vm.later(func() {
		s.ResponseHeaders(append(wasmhost.Response(strconv.Itoa(int(r.Status))), r.Headers...), r.Body == "")
	})
}
