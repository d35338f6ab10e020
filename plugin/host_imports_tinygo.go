//go:build tinygo

package main

// What Envoy gives its guest: the host calls that the SDK lacks, and those of the
// request path, where the SDK's allocate. Their results are written to variables
// (https://github.com/proxy-wasm/spec/blob/main/abi-versions/v0.2.1/README.md).
// host_tinygo.go puts Go's types around them. The guest of wasmhost's tests is built with
// this file, too.

//go:wasmimport env proxy_grpc_stream
func proxyGrpcStream(
	service *byte, serviceLen uint32, name *byte, nameLen uint32, method *byte, methodLen uint32, metadata *byte,
	metadataLen uint32, token *uint32,
) uint32

//go:wasmimport env proxy_grpc_send
func proxyGrpcSend(token uint32, message *byte, messageLen, endStream uint32) uint32

//go:wasmimport env proxy_grpc_cancel
func proxyGrpcCancel(token uint32) uint32

//go:wasmimport env proxy_get_buffer_bytes
func proxyGetBufferBytes(kind, start, maxLen uint32, data **byte, dataLen *uint32) uint32

//go:wasmimport env proxy_get_header_map_value
func proxyGetHeaderMapValue(kind uint32, name *byte, nameLen uint32, value **byte, valueLen *uint32) uint32

//go:wasmimport env proxy_get_header_map_pairs
func proxyGetHeaderMapPairs(kind uint32, pairs **byte, pairsLen *uint32) uint32

//go:wasmimport env proxy_replace_header_map_value
func proxyReplaceHeaderMapValue(kind uint32, name *byte, nameLen uint32, value *byte, valueLen uint32) uint32

//go:wasmimport env proxy_remove_header_map_value
func proxyRemoveHeaderMapValue(kind uint32, name *byte, nameLen uint32) uint32

//go:wasmimport env proxy_get_property
func proxyGetProperty(path *byte, pathLen uint32, value **byte, valueLen *uint32) uint32

//go:wasmimport env proxy_set_property
func proxySetProperty(path *byte, pathLen uint32, value *byte, valueLen uint32) uint32

//go:wasmimport env proxy_continue_stream
func proxyContinueStream(kind uint32) uint32

//go:wasmimport env proxy_call_foreign_function
func proxyCallForeignFunction(
	name *byte, nameLen uint32, arguments *byte, argumentsLen uint32, results **byte, resultsLen *uint32,
) uint32

//go:wasmimport env proxy_set_effective_context
func proxySetEffectiveContext(id uint32) uint32

//go:wasmimport env proxy_send_local_response
func proxySendLocalResponse(
	status uint32, details *byte, detailsLen uint32, body *byte, bodyLen uint32, headers *byte, headersLen uint32,
	grpcStatus int32,
) uint32

//go:wasmimport env proxy_get_shared_data
func proxyGetSharedData(key *byte, keyLen uint32, value **byte, valueLen, cas *uint32) uint32

//go:wasmimport env proxy_set_shared_data
func proxySetSharedData(key *byte, keyLen uint32, value *byte, valueLen, cas uint32) uint32

//go:wasmimport env proxy_set_tick_period_milliseconds
func proxySetTickPeriodMilliseconds(period uint32) uint32

//go:wasmimport env proxy_done
func proxyDone() uint32

//go:wasmimport env proxy_log
func proxyLog(level logLevel, text *byte, textLen uint32) uint32

//go:wasmimport env proxy_get_current_time_nanoseconds
func proxyGetCurrentTimeNanoseconds(now *uint64) uint32

//go:wasmimport env proxy_define_metric
func proxyDefineMetric(kind uint32, name *byte, nameLen uint32, id *uint32) uint32

//go:wasmimport env proxy_increment_metric
func proxyIncrementMetric(id uint32, delta int64) uint32

//go:wasmimport env proxy_record_metric
func proxyRecordMetric(id uint32, value uint64) uint32

//go:wasmimport wasi_snapshot_preview1 clock_time_get
func clockTimeGet(clock uint32, precision uint64, now *uint64) uint32

//go:wasmimport wasi_snapshot_preview1 environ_sizes_get
func environSizesGet(count, size *uint32) uint32

//go:wasmimport wasi_snapshot_preview1 environ_get
func environGet(variables, text *byte) uint32
