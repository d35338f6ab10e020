// Package wasmhost runs the plugin in tests: a proxy-wasm host for ABI 0.2.0 and
// 0.2.1, which behaves towards the plugin as Envoy does and which a test drives
// step by step. The plugin is the built wasm, on wazero, or ordinary Go code.
//
//	redis := &wasmhost.Memory{}
//	h := wasmhost.Start(t, wasmhost.Options{
//		Wasm:     testenv.Wasm(t), // or Native
//		Clusters: map[string]wasmhost.Cluster{"redis": redis},
//	})
//	p, err := h.StartPlugin(`{"redis": {"cluster": "redis"}, ...}`)
//	s := p.NewStream()
//	s.RequestHeaders(wasmhost.Request("GET", "/"), true) // == wasmhost.Pause
//	redis.Last().Reply(":1\r\n")
//	// s.Upstream.Headers went on, s.Local is the plugin's own answer
//	s.End()
//
// An [Envoy] has several workers: Hosts, each a VM, that share data and metrics. A
// [Host] has several configurations: Plugins. A [Plugin] has many requests: Streams.
// Far ends of gRPC streams are a [Memory] that the test plays by hand, or a [Bridge],
// which is the plugin again, as the filter between the two.
//
// # Two guests
//
// The host calls a [Guest]: a VM (vm.go), or the result of Options.Native. What
// a host call does is a method of [Caller] (calls*.go). A native guest calls it after
// [Host.Begin]; for a VM, decode.go reads the arguments from the guest's memory before,
// and writes the results there after.
//
// # What is copied from Envoy
//
// TestConformance has one guest, a VM, do the same here and in a real Envoy and
// compares what it sees, call by call. The rules a plugin depends on are these.
//
//   - Each call into the guest begins without an effective context; calls of
//     gRPC, ticks and their callbacks are for the plugin context in any case.
//   - What a callback asks for happens when it has returned: a request continued,
//     a local response, the close of a gRPC stream. A local response holds the
//     stream whose callback runs, even if it is for another stream.
//   - A local response goes through this filter's response callbacks. To a gRPC
//     request it is made of trailers only, with the body as grpc-message.
//   - Headers and bodies are visible in the callbacks they belong to and while
//     they are paused, the request's no more after proxy_continue_stream. The log
//     shows headers to read only.
//   - Paused headers keep the body back; then it comes in one piece. A paused
//     body grows, and the callback sees all of it.
//   - proxy_set_buffer_bytes replaces the beginning or appends to the end.
//   - A stream ends with log, done, delete; one of an upstream filter has no log.
//     A plugin context ends when its last stream has.
//   - proxy_grpc_stream may fail inside the call. It returns a failure and no
//     token, and proxy_on_grpc_close comes all the same.
//   - Memory in the guest comes from malloc if that is exported, else from
//     proxy_on_memory_allocate. While it allocates, and while it is initialized,
//     the guest may only log.
//   - An internal redirect ends the stream without response callbacks and begins
//     another. Filter state stays with the first, unless it was declared otherwise.
//   - Shared data belongs to a vm_id, metrics to the Envoy; ids, tokens and return
//     codes are Envoy's.
//
// # What is not
//
// Host calls and callbacks that Sluice does not use: a guest that imports another
// call cannot be started, and another callback is never called, such as those for
// trailers and for gRPC's metadata. Only requests can be continued. Of Envoy's
// foreign functions there are declare_property and those for expressions, of
// actions continue and pause.
//
// The filter is alone in its chain. There are no trailers, no watermarks or buffer
// limits, no 1xx responses, no metadata frames. Attributes are those a test sets.
// Timers fire when a test says so. A VM that failed stays dead, and shared data
// outlives it.
//
// The host is stricter than Envoy where Envoy does harm without a word. These
// end the VM and are reported by [Host.Err]: a stream continued that is not
// paused (its headers go upstream twice), a request continued in the callback that
// answers it (it goes upstream all the same), a second local response, and the use
// of a gRPC stream after its proxy_on_grpc_close (freed memory).
//
// # Sources
//
// https://github.com/proxy-wasm/spec/tree/main/abi-versions,
// https://github.com/proxy-wasm/proxy-wasm-cpp-host (src/exports.cc, context.cc),
// https://github.com/envoyproxy/envoy (source/extensions/common/wasm/context.cc,
// source/common/http/filter_manager.cc, source/common/grpc/async_client_impl.cc)
package wasmhost
