//go:build !tinygo

package main

// envoy is the host calls, see host_tinygo.go.
type envoy interface {
	buffer(kind, start, size uint32) []byte
	environment(name string) (value string, ok bool)
	logLine(level logLevel, text string)
	unixMicros() int64
	steadyMicros() int64
	// Uint64 is a random number. With it the host is a rand.Source: all that is drawn by
	// chance comes from there.
	Uint64() uint64

	header(contextID, kind uint32, name string) (string, bool)
	requestHeaders(contextID uint32) []byte
	setHeaders(contextID, kind uint32, headers [][2]string)
	removeRequestHeader(contextID uint32, name string)
	property(contextID uint32, path string) ([]byte, bool)
	setProperty(contextID uint32, path, value string)
	resumeRequest(contextID uint32)
	sendResponse(contextID, status uint32, details string, headers []byte, body string, grpcStatus int32)

	foreign(contextID uint32, name string, arguments []byte) ([]byte, bool)

	setTickPeriod(pluginID, millis uint32)
	pluginDone(pluginID uint32)
	grpcOpen(pluginID uint32, service []byte) (token, status uint32)
	grpcSend(pluginID, token uint32, message []byte) (status uint32)
	grpcCancel(pluginID, token uint32)

	getSharedData(key string) (value []byte, cas, status uint32)
	setSharedData(key string, value []byte, cas uint32) (status uint32)
	defineMetric(kind uint32, name string) (id uint32)
	incrementMetric(id uint32, delta int64)
	recordMetric(id uint32, value uint64)
}

// host is the Envoy that a test provides: host_tinygo.go's twin for ordinary Go.
type host struct{ envoy }

// running is for host_tinygo.go alone: here each call names its context.
func (host) running(uint32) {}
