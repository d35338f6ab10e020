package wasmhost

// hostCalls are the functions of ABI 0.2.1: methods of Caller, or what has its arguments
// as they have. A number is that of the parameters of one that Sluice has no use for. It
// says StatusUnimplemented.
var hostCalls = map[string]any{
	"proxy_log":           Caller.Log,
	"proxy_get_log_level": func(c Caller) (LogLevel, Status) { return c.h.options.LogLevel, StatusOK },
	"proxy_get_current_time_nanoseconds": func(c Caller) (uint64, Status) {
		return uint64(c.h.Now().UnixNano()), StatusOK
	},
	"proxy_set_tick_period_milliseconds": Caller.SetTickPeriod,
	"proxy_set_effective_context":        Caller.SetEffectiveContext,
	"proxy_done":                         Caller.Done,
	"proxy_get_status":                   Caller.grpcStatus,
	callForeign:                          Caller.CallForeign,

	"proxy_get_header_map_value":     Caller.GetHeader,
	"proxy_add_header_map_value":     Caller.AddHeader,
	"proxy_replace_header_map_value": Caller.ReplaceHeader,
	"proxy_remove_header_map_value":  Caller.RemoveHeader,
	"proxy_get_header_map_pairs":     Caller.GetHeaders,
	"proxy_set_header_map_pairs":     Caller.SetHeaders,
	"proxy_get_header_map_size":      Caller.HeadersSize,

	"proxy_get_buffer_bytes":  Caller.GetBuffer,
	"proxy_set_buffer_bytes":  Caller.SetBuffer,
	"proxy_get_buffer_status": Caller.bufferStatus,

	"proxy_continue_stream":     Caller.ContinueStream,
	"proxy_close_stream":        Caller.CloseStream,
	"proxy_send_local_response": Caller.SendLocalResponse,

	"proxy_get_property":    Caller.GetProperty,
	"proxy_set_property":    Caller.SetProperty,
	"proxy_get_shared_data": Caller.GetSharedData,
	"proxy_set_shared_data": Caller.SetSharedData,

	"proxy_define_metric":    Caller.DefineMetric,
	"proxy_increment_metric": Caller.IncrementMetric,
	"proxy_record_metric":    Caller.RecordMetric,
	"proxy_get_metric":       Caller.GetMetric,

	"proxy_grpc_stream": func(c Caller, cluster, _, _ string, _ []byte) (token uint32, status Status) {
		return c.OpenGRPC(cluster) // whatever the service, the method and the metadata
	},
	"proxy_grpc_send":   Caller.SendGRPC,
	"proxy_grpc_close":  Caller.CloseGRPC,
	"proxy_grpc_cancel": Caller.CancelGRPC,

	"proxy_grpc_call":             12,
	"proxy_http_call":             10,
	"proxy_register_shared_queue": 3,
	"proxy_resolve_shared_queue":  5,
	"proxy_enqueue_shared_queue":  3,
	"proxy_dequeue_shared_queue":  3,
}

// callForeign is the one call whose results the guest gets whatever the function says.
const callForeign = "proxy_call_foreign_function"
