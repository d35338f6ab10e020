package wasmhost

// The numbers of the ABI: https://github.com/proxy-wasm/spec/blob/main/abi-versions/v0.2.1/README.md

// Status is what a host call returns.
type Status uint32

const (
	StatusOK                  Status = 0
	StatusNotFound            Status = 1
	StatusBadArgument         Status = 2
	StatusParseFailure        Status = 4
	StatusInvalidMemoryAccess Status = 6
	StatusCASMismatch         Status = 8
	StatusInternalFailure     Status = 10
	StatusUnimplemented       Status = 12
)

// Action is what a filter callback wants done with the stream.
type Action uint32

const (
	Continue Action = 0
	Pause    Action = 1
)

// LogLevel is the severity of a log line.
type LogLevel uint32

const (
	LogTrace LogLevel = iota
	LogDebug
	LogInfo
	LogWarn
	LogError
	LogCritical
)

// mapType names a header map.
type mapType uint32

const (
	requestHeaders mapType = iota
	requestTrailers
	responseHeaders
	responseTrailers
	grpcInitialMetadata
	grpcTrailingMetadata
	httpCallHeaders
	httpCallTrailers
	mapTypes // their number
)

// bufferType names a buffer.
type bufferType uint32

const (
	requestBody bufferType = iota
	responseBody
	downstreamData
	upstreamData
	httpCallBody
	grpcMessage
	vmConfiguration
	pluginConfiguration
	callData
	bufferTypes // their number
)

// streamType names a direction of a stream.
type streamType uint32

const (
	requestStream streamType = iota
	responseStream
	downstreamStream
	upstreamStream
	streamTypes // their number
)

// metricType is also what the two low bits of a metric's id hold.
type metricType uint32

const (
	counter metricType = iota
	gauge
	histogram
	metricTypes // their number
)
