//go:build !tinygo

package main

// The native twin of host_tinygo.go, for tests with ordinary Go: each host call
// goes to what the test has put in Envoy's place.

// envoy is the host calls, see host_tinygo.go.
type envoy interface {
	requestBody(start, size int) []byte
	dropRequestBody(n int)
	replaceRequestBody(b []byte)
	responseBody(start, size int) []byte
	replaceResponseBody(b []byte)
	prependResponseBody(b []byte)
	pluginConfiguration() []byte
	logLine(level logLevel, text string)
	setTickPeriod(millis uint32)
	getSharedData(key string) (value []byte, cas, status uint32)
	setSharedData(key string, value []byte, cas uint32) (status uint32)
	requestHeader(name string) (string, bool)
	requestHeaders() []byte
	setResponseHeader(name, value string)
	property(path string) ([]byte, bool)
	setProperty(path, value string)
	enter(contextID uint32)
	resumeRequest()
	sendResponse(status uint32, details string, headers []byte, body string, grpcStatus int32)
	unixMicros() int64
	steadyMicros() int64
	grpcOpen(service []byte) (token, status uint32)
	grpcSend(token uint32, message []byte) (status uint32)
	grpcCancel(token uint32)
	defineMetric(kind uint32, name string) (id uint32)
	incrementMetric(id uint32, delta int64)
	recordMetric(id uint32, value uint64)
}

// native is the test's Envoy.
var native envoy

func requestBody(start, size int) []byte             { return native.requestBody(start, size) }
func dropRequestBody(n int)                          { native.dropRequestBody(n) }
func replaceRequestBody(b []byte)                    { native.replaceRequestBody(b) }
func responseBody(start, size int) []byte            { return native.responseBody(start, size) }
func replaceResponseBody(b []byte)                   { native.replaceResponseBody(b) }
func prependResponseBody(b []byte)                   { native.prependResponseBody(b) }
func pluginConfiguration() []byte                    { return native.pluginConfiguration() }
func logLine(level logLevel, text string)            { native.logLine(level, text) }
func setTickPeriod(millis uint32)                    { native.setTickPeriod(millis) }
func requestHeader(name string) (string, bool)       { return native.requestHeader(name) }
func requestHeaders() []byte                         { return native.requestHeaders() }
func setResponseHeader(name, value string)           { native.setResponseHeader(name, value) }
func property(path string) ([]byte, bool)            { return native.property(path) }
func setProperty(path, value string)                 { native.setProperty(path, value) }
func enter(contextID uint32)                         { native.enter(contextID) }
func resumeRequest()                                 { native.resumeRequest() }
func unixMicros() int64                              { return native.unixMicros() }
func steadyMicros() int64                            { return native.steadyMicros() }
func grpcOpen(service []byte) (token, status uint32) { return native.grpcOpen(service) }
func grpcCancel(token uint32)                        { native.grpcCancel(token) }
func defineMetric(kind uint32, name string) uint32   { return native.defineMetric(kind, name) }
func incrementMetric(id uint32, delta int64)         { native.incrementMetric(id, delta) }
func recordMetric(id uint32, value uint64)           { native.recordMetric(id, value) }

func getSharedData(key string) (value []byte, cas, status uint32) {
	return native.getSharedData(key)
}

func setSharedData(key string, value []byte, cas uint32) (status uint32) {
	return native.setSharedData(key, value, cas)
}

func sendResponse(status uint32, details string, headers []byte, body string, grpcStatus int32) {
	native.sendResponse(status, details, headers, body, grpcStatus)
}

func grpcSend(token uint32, message []byte) (status uint32) {
	return native.grpcSend(token, message)
}
