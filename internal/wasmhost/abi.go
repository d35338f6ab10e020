package wasmhost

// The numbers of the ABI: https://github.com/proxy-wasm/spec/blob/main/abi-versions/v0.2.1/README.md

// Status is the result of a host call.
type Status uint32

const (
	StatusOK                   Status = 0
	StatusNotFound             Status = 1
	StatusBadArgument          Status = 2
	StatusSerializationFailure Status = 3
	StatusParseFailure         Status = 4
	StatusInvalidMemoryAccess  Status = 6
	StatusCASMismatch          Status = 8
	StatusInternalFailure      Status = 10
	StatusUnimplemented        Status = 12
)

// Action is a filter callback's wish for the stream.
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

// MapType names a header map.
type MapType uint32

const (
	RequestHeaders  MapType = 0
	ResponseHeaders MapType = 2
)

// BufferType names a buffer.
type BufferType uint32

const (
	RequestBody         BufferType = 0
	ResponseBody        BufferType = 1
	GRPCMessage         BufferType = 5
	PluginConfiguration BufferType = 7
)

// MetricType is also what the two low bits of a metric's id hold.
type MetricType uint32

const (
	Counter MetricType = iota
	Gauge
	Histogram
	metricTypes // their number
)
