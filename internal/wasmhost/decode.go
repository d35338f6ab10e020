package wasmhost

// hostCalls are the functions of ABI 0.2.1 that Sluice uses: methods of Caller, or what has its
// arguments as they have. A guest that imports another one cannot be started.
var hostCalls = map[string]any{
	"proxy_log": Caller.Log,
	"proxy_get_current_time_nanoseconds": func(c Caller) (uint64, Status) {
		return uint64(c.h.Now().UnixNano()), StatusOK
	},
	"proxy_set_tick_period_milliseconds": Caller.SetTickPeriod,
	"proxy_set_effective_context":        Caller.SetEffectiveContext,
	"proxy_done":                         Caller.Done,
	"proxy_call_foreign_function":        Caller.CallForeign,

	"proxy_get_header_map_value":     Caller.GetHeader,
	"proxy_replace_header_map_value": Caller.ReplaceHeader,
	"proxy_remove_header_map_value":  Caller.RemoveHeader,
	"proxy_get_header_map_pairs":     Caller.GetHeaders,

	"proxy_get_buffer_bytes": Caller.GetBuffer,
	"proxy_set_buffer_bytes": Caller.SetBuffer,

	"proxy_continue_stream": func(c Caller, stream uint32) Status {
		if stream != 0 { // no request: Sluice pauses nothing else
			return StatusUnimplemented
		}
		return c.ContinueRequest()
	},
	"proxy_send_local_response": Caller.SendLocalResponse,

	"proxy_get_property":    Caller.GetProperty,
	"proxy_set_property":    Caller.SetProperty,
	"proxy_get_shared_data": Caller.GetSharedData,
	"proxy_set_shared_data": Caller.SetSharedData,

	"proxy_define_metric":    Caller.DefineMetric,
	"proxy_increment_metric": Caller.IncrementMetric,
	"proxy_record_metric":    Caller.RecordMetric,

	"proxy_grpc_stream": func(c Caller, cluster, _, _ string, _ []byte) (token uint32, status Status) {
		return c.OpenGRPC(cluster) // whatever the service, the method and the metadata
	},
	"proxy_grpc_send": func(c Caller, token uint32, message []byte, endOfStream bool) Status {
		if endOfStream { // Sluice ends no stream so
			return StatusUnimplemented
		}
		return c.SendGRPC(token, message)
	},
	"proxy_grpc_cancel": Caller.CancelGRPC,
}
