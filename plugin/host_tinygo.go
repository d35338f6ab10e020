//go:build tinygo

package main

import (
	"math/rand/v2"
	"unsafe"
)

// host is Envoy. A call that acts on a context takes its id first.
type host struct{}

func envoyHost() host { return host{} }

// Results of host calls. A pointer that is passed to the host counts as
// escaping, so locals would be allocated on each call.
var (
	resultData  *byte
	resultNanos uint64

	resultLen, resultToken, resultID, resultCAS, resultCount uint32
)

func pointer(s string) (*byte, uint32) { return unsafe.StringData(s), uint32(len(s)) }

// result returns the result of the last call, in memory that the host allocated in the guest.
//
//go:inline
func result(status uint32) ([]byte, bool) {
	if status != statusOK {
		return nil, false
	}
	if resultLen == 0 {
		return nil, true
	}
	return unsafe.Slice(resultData, resultLen), true
}

// buffer is part of a buffer.
func (host) buffer(kind, start, size uint32) []byte {
	b, _ := result(proxyGetBufferBytes(kind, start, size, &resultData, &resultLen))
	return b
}

// message is a message from Redis. Its memory is used again after messageMemory.takeBack.
func (h host) message(size uint32) (b, memory []byte) {
	memory = messageMemory.lend()
	b = h.buffer(grpcMessage, 0, size)
	lent = nil
	return b, memory
}

// logLine writes a line to Envoy's log.
func (host) logLine(level logLevel, text string) {
	p, n := pointer(text)
	proxyLog(level, p, n)
}

// Uint64 is a random number, as the VM got its seed from Envoy (WASI random_get).
func (host) Uint64() uint64 { return rand.Uint64() }

// setTickPeriod sets the timer of a plugin context; 0 stops it.
func (host) setTickPeriod(pluginID, millis uint32) {
	enter(pluginID)
	proxySetTickPeriodMilliseconds(millis)
}

// pluginDone says that a plugin context, which did not end when Envoy asked, has.
func (host) pluginDone(pluginID uint32) {
	enter(pluginID)
	proxyDone()
}

// getSharedData reads what the workers share, and its version.
func (host) getSharedData(key string) (value []byte, cas, status uint32) {
	p, n := pointer(key)
	status = proxyGetSharedData(p, n, &resultData, &resultLen, &resultCAS)
	value, _ = result(status)
	return value, resultCAS, status
}

// setSharedData writes what the workers share if its version is still cas.
func (host) setSharedData(key string, value []byte, cas uint32) (status uint32) {
	p, n := pointer(key)
	return proxySetSharedData(p, n, unsafe.SliceData(value), uint32(len(value)), cas)
}

// requestHeaders is all headers, serialised as the ABI has it. They are valid until the next call.
func (host) requestHeaders(contextID uint32) []byte {
	enter(contextID)
	memory := headerMemory.lend()
	b, _ := result(proxyGetHeaderMapPairs(requestHeader, &resultData, &resultLen))
	headerMemory.takeBack(memory)
	return b
}

// reused is memory for what a host call returns of which nothing outlives the callback.
type reused []byte

var (
	headerMemory  reused // of request headers
	messageMemory reused // of messages from Redis
	lent          []byte // for the host call under way; none: Go allocates
)

// Bound: bytes of headers, or of a message, in memory that is used again. Beyond it, they get memory of
// their own. Protects memory.
const maxReused = 4096

// lend gives the memory to the next host call. Until it is taken back, as in a callback within this
// one, others get memory of their own.
func (m *reused) lend() []byte {
	memory := *m
	if *m = nil; memory == nil {
		memory = make([]byte, maxReused)
	}
	lent = memory
	return memory
}

func (m *reused) takeBack(memory []byte) { lent, *m = nil, memory }

// header is the first value of a header.
func (host) header(contextID, kind uint32, name string) (string, bool) {
	enter(contextID)
	p, n := pointer(name)
	b, ok := result(proxyGetHeaderMapValue(kind, p, n, &resultData, &resultLen))
	return unsafe.String(unsafe.SliceData(b), len(b)), ok
}

// setHeaders replaces all values of some headers.
func (host) setHeaders(contextID, kind uint32, headers [][2]string) {
	enter(contextID)
	for i := range headers {
		p, n := pointer(headers[i][0])
		v, m := pointer(headers[i][1])
		proxyReplaceHeaderMapValue(kind, p, n, v, m)
	}
}

// removeRequestHeader removes all values of a header.
func (host) removeRequestHeader(contextID uint32, name string) {
	enter(contextID)
	p, n := pointer(name)
	proxyRemoveHeaderMapValue(requestHeader, p, n)
}

// property is an attribute; the elements of its path are separated by NUL.
func (host) property(contextID uint32, path string) ([]byte, bool) {
	enter(contextID)
	p, n := pointer(path)
	return result(proxyGetProperty(p, n, &resultData, &resultLen))
}

// setProperty sets filter state: "wasm.<path>".
func (host) setProperty(contextID uint32, path, value string) {
	enter(contextID)
	p, n := pointer(path)
	v, m := pointer(value)
	proxySetProperty(p, n, v, m)
}

// foreign calls a function that Envoy has in addition to the ABI. It acts on a context.
func (host) foreign(contextID uint32, name string, arguments []byte) ([]byte, bool) {
	enter(contextID)
	p, n := pointer(name)
	resultLen = 0
	return result(proxyCallForeignFunction(p, n, unsafe.SliceData(arguments), uint32(len(arguments)),
		&resultData, &resultLen))
}

// acting is the context that host calls act on, if it is known.
var acting uint32 = unknown

const unknown = 1<<32 - 1 // no context has this id

// running tells which context a callback belongs to: each callback begins with it.
func (host) running(contextID uint32) { acting = contextID }

// enter makes a context the one that host calls act on, unless it is already.
func enter(contextID uint32) {
	if contextID != acting {
		proxySetEffectiveContext(contextID)
		acting = contextID
	}
}

// resumeRequest lets a paused request go on.
func (host) resumeRequest(contextID uint32) {
	enter(contextID)
	proxyContinueStream(0)
}

// sendResponse answers the request. headers are serialised as the ABI wants.
func (host) sendResponse(contextID, status uint32, details string, headers []byte, body string, grpcStatus int32) {
	enter(contextID)
	d, n := pointer(details)
	b, m := pointer(body)
	proxySendLocalResponse(status, d, n, b, m, unsafe.SliceData(headers), uint32(len(headers)), grpcStatus)
}

// unixMicros is the wall clock; it decides only where Redis does not.
func (host) unixMicros() int64 {
	proxyGetCurrentTimeNanoseconds(&resultNanos)
	return int64(resultNanos / 1000)
}

const clockMonotonic = 1

// steadyMicros is a clock that never goes back, for timeouts.
func (host) steadyMicros() int64 {
	clockTimeGet(clockMonotonic, 1000, &resultNanos)
	return int64(resultNanos / 1000)
}

// environment is an environment variable of the VM. It asks the host itself:
// os.LookupEnv would bring in libc's allocator, which takes the heap for its own
// (docs/decisions/0006-one-allocator.md).
func (host) environment(name string) (value string, ok bool) {
	if environSizesGet(&resultCount, &resultLen) != statusOK || resultCount == 0 {
		return "", false
	}
	variables := make([]byte, resultCount*pointerSize) // where in text each begins; unused
	text := make([]byte, resultLen)
	if environGet(unsafe.SliceData(variables), unsafe.SliceData(text)) != statusOK {
		return "", false
	}
	return lookup(text, name)
}

const pointerSize = 4

// defineMetric makes a metric, and returns its id, which is not 0; or 0.
func (host) defineMetric(kind uint32, name string) (id uint32) {
	p, n := pointer(name)
	if proxyDefineMetric(kind, p, n, &resultID) != statusOK {
		return 0
	}
	return resultID
}

// incrementMetric adds to a counter or a gauge.
func (host) incrementMetric(id uint32, delta int64) { proxyIncrementMetric(id, delta) }

// recordMetric sets a gauge, or gives a histogram a value.
func (host) recordMetric(id uint32, value uint64) { proxyRecordMetric(id, value) }

// grpcOpen opens a stream; a status other than 0 is a failure.
func (host) grpcOpen(pluginID uint32, service []byte) (token, status uint32) {
	enter(pluginID)
	name, nameLen := pointer("sluice.Redis")
	method, methodLen := pointer("Stream")
	status = proxyGrpcStream(unsafe.SliceData(service), uint32(len(service)), name, nameLen, method, methodLen,
		&noMetadata[0], uint32(len(noMetadata)), &resultToken)
	return resultToken, status
}

// noMetadata is a serialised header map without entries.
var noMetadata [4]byte

func (host) grpcSend(pluginID, token uint32, message []byte) (status uint32) {
	enter(pluginID)
	return proxyGrpcSend(token, unsafe.SliceData(message), uint32(len(message)), 0)
}

func (host) grpcCancel(pluginID, token uint32) {
	enter(pluginID)
	proxyGrpcCancel(token)
}

// random holds numbers that Envoy made and that were not handed out yet. One host call fills it.
var random struct {
	numbers [64]uint32
	left    int
}

// arc4random takes the place of libc's function of that name, by which TinyGo's runtime gets its
// random numbers. libc's has a cipher of its own and, for a message that no host ever makes it
// write, the whole of printf: 12 KB of code that Envoy would compile in each proxy.
//
//go:linkname arc4random arc4random
func arc4random() uint32 {
	if random.left == 0 {
		// It fails only for a buffer that is not within memory.
		wasiRandomGet(unsafe.Pointer(&random.numbers), uint32(unsafe.Sizeof(random.numbers)))
		random.left = len(random.numbers)
	}
	random.left--
	n := random.numbers[random.left]
	random.numbers[random.left] = 0
	return n
}

//go:wasmimport wasi_snapshot_preview1 random_get
func wasiRandomGet(buffer unsafe.Pointer, size uint32) (errno uint32)
