// Command guest is a plugin for the tests of wasmhost. It does what its
// configuration says, and logs each callback and what its host calls returned.
//
// The host calls are those that the plugin declares, in plugin/host_imports_tinygo.go, with which
// the tests build it.
//
// The configuration is in sections, each headed by who and when: the path of a
// request, or "plugin", and the name of a callback.
//
//	/a request_headers
//	  get 0 x-name
//	  return 1
package main

import (
	"os"
	"strings"
)

// A call that Envoy does not allow while a guest is initialized.
func init() {
	if os.Getenv("INITCALL") != "" {
		proxySetTickPeriodMilliseconds(1)
	}
}

func main() {}

// streams is the path of the request of each stream.
var streams = map[uint32]string{}

// ids is the other way round.
var ids = map[string]uint32{}

// script is the commands of each section.
var script = map[string][]string{}

const plugin = "plugin"

// who is how a context is called in the configuration and in the log.
func who(id uint32) string {
	if path, ok := streams[id]; ok {
		return path
	}
	return plugin
}

// on is one callback: it is logged, and then its section runs. What that returns
// is 0 unless it says otherwise.
func on(id uint32, callback string, args ...uint32) uint32 {
	line := who(id) + " " + callback
	for _, a := range args {
		line += " " + decimal(a)
	}
	log(line)
	return run(script[who(id)+" "+callback])
}

func configure(text string) {
	section := ""
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if line[0] == '/' || strings.HasPrefix(line, plugin+" ") {
			section = line
			continue
		}
		script[section] = append(script[section], line)
	}
}

//export proxy_abi_version_0_2_1
func abiVersion() {}

//export proxy_on_memory_allocate
func allocate(size uint32) *byte {
	b := make([]byte, size)
	return &b[0]
}

//export proxy_on_context_create
func onContextCreate(id, parent uint32) {
	if parent == 0 {
		ids[plugin] = id
	}
}

//export proxy_on_vm_start
func onVMStart(id, size uint32) uint32 {
	log(plugin + " vm_start " + decimal(size))
	return 1
}

//export proxy_on_configure
func onConfigure(id, size uint32) uint32 {
	_, text := getBuffer(pluginConfiguration, 0, size)
	configure(text)
	return 1 - on(id, "configure")
}

//export proxy_on_tick
func onTick(id uint32) { on(id, "tick") }

//export proxy_on_request_headers
func onRequestHeaders(id, n, end uint32) uint32 {
	_, path := getHeader(0, ":path")
	streams[id], ids[path] = path, id
	return on(id, "request_headers", end)
}

//export proxy_on_request_body
func onRequestBody(id, size, end uint32) uint32 { return on(id, "request_body", size, end) }

//export proxy_on_response_headers
func onResponseHeaders(id, n, end uint32) uint32 { return on(id, "response_headers", end) }

//export proxy_on_response_body
func onResponseBody(id, size, end uint32) uint32 { return on(id, "response_body", size, end) }

//export proxy_on_grpc_receive
func onGRPCReceive(id, token, size uint32) { on(id, "grpc_receive", token, size) }

//export proxy_on_grpc_close
func onGRPCClose(id, token, status uint32) { on(id, "grpc_close", token, status) }

//export proxy_on_log
func onLog(id uint32) { on(id, "log") }

// The result of done is the other way round: 0 is to wait for proxy_done.
//
//export proxy_on_done
func onDone(id uint32) uint32 { return 1 - on(id, "done") }

//export proxy_on_delete
func onDelete(id uint32) {
	on(id, "delete")
	delete(ids, streams[id])
	delete(streams, id)
}
