package main

import "unsafe"

//go:wasmimport env proxy_log
func proxyLog(level uint32, text *byte, size uint32) uint32

//go:wasmimport env proxy_get_header_map_value
func proxyGetHeader(kind uint32, name *byte, nameSize uint32, value **byte, valueSize *uint32) uint32

//go:wasmimport env proxy_get_header_map_pairs
func proxyGetHeaders(kind uint32, pairs **byte, size *uint32) uint32

//go:wasmimport env proxy_replace_header_map_value
func proxyReplaceHeader(kind uint32, name *byte, nameSize uint32, value *byte, valueSize uint32) uint32

//go:wasmimport env proxy_remove_header_map_value
func proxyRemoveHeader(kind uint32, name *byte, nameSize uint32) uint32

//go:wasmimport env proxy_get_buffer_bytes
func proxyGetBuffer(kind, start, length uint32, data **byte, size *uint32) uint32

//go:wasmimport env proxy_set_buffer_bytes
func proxySetBuffer(kind, start, length uint32, data *byte, size uint32) uint32

//go:wasmimport env proxy_continue_stream
func proxyContinue(kind uint32) uint32

//go:wasmimport env proxy_send_local_response
func proxyRespond(
	status uint32, details *byte, detailsSize uint32, body *byte, bodySize uint32, headers *byte, headersSize uint32,
	grpcStatus int32,
) uint32

//go:wasmimport env proxy_get_property
func proxyGetProperty(path *byte, pathSize uint32, value **byte, size *uint32) uint32

//go:wasmimport env proxy_set_property
func proxySetProperty(path *byte, pathSize uint32, value *byte, size uint32) uint32

//go:wasmimport env proxy_get_shared_data
func proxyGetShared(key *byte, keySize uint32, value **byte, size, cas *uint32) uint32

//go:wasmimport env proxy_set_shared_data
func proxySetShared(key *byte, keySize uint32, value *byte, size, cas uint32) uint32

//go:wasmimport env proxy_define_metric
func proxyDefineMetric(kind uint32, name *byte, nameSize uint32, id *uint32) uint32

//go:wasmimport env proxy_increment_metric
func proxyIncrementMetric(id uint32, offset int64) uint32

//go:wasmimport env proxy_record_metric
func proxyRecordMetric(id uint32, value uint64) uint32

//go:wasmimport env proxy_grpc_stream
func proxyGRPCStream(
	cluster *byte, clusterSize uint32, service *byte, serviceSize uint32, method *byte, methodSize uint32, metadata *byte,
	metadataSize uint32, token *uint32,
) uint32

//go:wasmimport env proxy_grpc_send
func proxyGRPCSend(token uint32, message *byte, size, end uint32) uint32

//go:wasmimport env proxy_grpc_cancel
func proxyGRPCCancel(token uint32) uint32

//go:wasmimport env proxy_set_effective_context
func proxySetEffectiveContext(id uint32) uint32

//go:wasmimport env proxy_set_tick_period_milliseconds
func proxySetTickPeriod(period uint32) uint32

//go:wasmimport env proxy_get_current_time_nanoseconds
func proxyGetTime(now *uint64) uint32

//go:wasmimport env proxy_done
func proxyDone() uint32

//go:wasmimport env proxy_call_foreign_function
func proxyCallForeign(name *byte, nameSize uint32, args *byte, argsSize uint32, results **byte, size *uint32) uint32

const pluginConfiguration = 7

func ptr(s string) (*byte, uint32) { return unsafe.StringData(s), uint32(len(s)) }

func str(p *byte, n uint32) string { return unsafe.String(p, n) }

func log(text string) {
	p, n := ptr(text)
	proxyLog(2, p, n)
}

// read makes a host call that returns bytes.
func read(call func(p **byte, n *uint32) (status uint32)) (status uint32, value string) {
	var p *byte
	var n uint32
	status = call(&p, &n)
	return status, str(p, n)
}

func getHeader(kind uint32, name string) (status uint32, value string) {
	q, m := ptr(name)
	return read(func(p **byte, n *uint32) uint32 { return proxyGetHeader(kind, q, m, p, n) })
}

func getBuffer(kind, start, length uint32) (status uint32, data string) {
	return read(func(p **byte, n *uint32) uint32 { return proxyGetBuffer(kind, start, length, p, n) })
}
