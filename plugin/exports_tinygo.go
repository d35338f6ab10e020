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

// allocate is memory for what the host returns: of the arena in a callback that keeps none of it, else of
// Go's.
//
//export proxy_on_memory_allocate
func allocate(size uint32) *byte {
	if arena.open && size < uint32(len(arena.memory))-arena.used {
		at := arena.used
		arena.used += (size + 7) &^ 7
		return &arena.memory[at]
	}
	return &make([]byte, max(size, 1))[0]
}

// Bound: bytes that one callback has from the arena. Beyond it, it has them from the heap. Protects
// the collector from garbage of every request.
const arenaBytes = 4096

// arena is memory that the next callback uses again. It is open in the callbacks with request headers and
// with Redis' replies, the two that have Envoy return most: nothing that they read of it outlives them.
var arena struct {
	memory [arenaBytes]byte
	used   uint32
	open   bool
}

// openArena reports whether it has opened the arena, which it has not if that is open in a callback around
// this one: then that one closes it.
func openArena() (opened bool) {
	if opened = !arena.open; opened {
		arena.open, arena.used = true, 0
	}
	return opened
}

//export proxy_on_vm_start
func onVMStart(_, _ uint32) bool { return true }

//export proxy_on_context_create
func onContextCreate(contextID, parentID uint32) {
	callbackBegins()
	if parentID == 0 {
		thisVM.plugins[contextID] = &plugin{vm: thisVM, id: contextID}
	} else if p := pluginOf(parentID); p != nil && p.requests != nil {
		live.put(contextID, p.begin(contextID))
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
		opened := openArena()
		action = uint32(r.OnHttpRequestHeaders(int(count), end != 0))
		arena.open = arena.open && !opened
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
	if live.get(contextID) != nil {
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
		opened := openArena()
		l.received(token, thisVM.host.buffer(grpcMessage, 0, size))
		arena.open = arena.open && !opened
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
