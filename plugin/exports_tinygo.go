//go:build tinygo

package main

// What Envoy calls:
// https://github.com/proxy-wasm/spec/blob/main/abi-versions/v0.2.0/README.md#functions-implemented-in-the-wasm-module
// The SDK has these functions too, but looks a stream up in Go maps in each of them, and needs
// proxy_on_delete, which costs a request another callback. The plugin uses the SDK's types,
// through which the tests drive it as ordinary Go.
//
// Each callback but the allocation begins with callbackBegins and ends with callbackEnds, see
// collect_tinygo.go. So none returns in between.
//
// The callbacks for metadata are not exported. Envoy calls them inside proxy_grpc_stream, and when
// two streams failed within one callback, its worker was seen to hang.

// thisVM is the plugin in this VM: one worker of one Envoy.
var thisVM = newVM(envoyHost())

var (
	recent *plugin // the configuration of the last stream
	live   streams
)

// pluginOf returns the configuration of a context, or nil.
func pluginOf(contextID uint32) *plugin {
	if recent == nil || recent.id != contextID {
		p := thisVM.plugins[contextID]
		if p == nil {
			return nil
		}
		recent = p
	}
	return recent
}

//export proxy_abi_version_0_2_0
func abiVersion() {}

// allocate is memory for what the host returns: of Go's, which is not used again in the next callback, as
// what a tier may read that Redis names later is kept as it came. Headers and messages are not.
//
//export proxy_on_memory_allocate
func allocate(size uint32) *byte {
	if n := uint32(len(lent)); 0 < n && size <= n {
		return &lent[0]
	}
	return &make([]byte, max(size, 1))[0]
}

//export proxy_on_vm_start
func onVMStart(_, _ uint32) bool { return true }

//export proxy_on_context_create
func onContextCreate(contextID, parentID uint32) {
	callbackBegins()
	if parentID == 0 {
		thisVM.plugins[contextID] = &plugin{vm: thisVM, id: contextID}
	} else if p := pluginOf(parentID); p != nil && p.limiter != nil {
		live.put(contextID, p.limiter.begin(contextID))
	}
	callbackEnds()
}

//export proxy_on_configure
func onConfigure(contextID, size uint32) (ok bool) {
	callbackBegins()
	if p := pluginOf(contextID); p != nil {
		ok = bool(p.OnPluginStart(int(size)))
	}
	callbackEnds()
	return ok
}

//export proxy_on_tick
func onTick(contextID uint32) {
	callbackBegins()
	if p := pluginOf(contextID); p != nil && p.tick() {
		recent = nil
	}
	callbackEnds()
}

//export proxy_on_request_headers
func onRequestHeaders(contextID, count, end uint32) (action uint32) {
	callbackBegins()
	if r := live.get(contextID); r != nil {
		action = uint32(r.OnHttpRequestHeaders(int(count), end != 0))
	}
	callbackEnds()
	return action
}

//export proxy_on_response_headers
func onResponseHeaders(contextID, count, end uint32) (action uint32) {
	callbackBegins()
	if r := live.get(contextID); r != nil {
		action = uint32(r.OnHttpResponseHeaders(int(count), end != 0))
	}
	callbackEnds()
	return action
}

//export proxy_on_log
func onLog(contextID uint32) {
	callbackBegins()
	if r := live.get(contextID); r != nil {
		r.OnHttpStreamDone()
	}
	callbackEnds()
}

// onDone is the last callback of a stream. Of a configuration it is not if it returns false.
//
//export proxy_on_done
func onDone(contextID uint32) (done bool) {
	callbackBegins()
	done = true
	if r := live.get(contextID); r != nil {
		r.OnHttpStreamDone()
		live.remove(contextID)
	} else if p := pluginOf(contextID); p != nil {
		recent = nil
		done = p.OnPluginDone()
	}
	callbackEnds()
	return done
}

//export proxy_on_grpc_receive
func onGrpcReceive(contextID, token, size uint32) {
	callbackBegins()
	if l := thisVM.streaming(contextID); l != nil {
		message, memory := thisVM.host.message(size)
		l.received(token, message)
		messageMemory.takeBack(memory)
	}
	acting = unknown
	callbackEnds()
}

//export proxy_on_grpc_close
func onGrpcClose(contextID, token, status uint32) {
	callbackBegins()
	if l := thisVM.streaming(contextID); l != nil {
		l.closed(token, status)
	}
	acting = unknown // it may have been called inside another callback
	callbackEnds()
}
