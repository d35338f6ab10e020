package wasmhost

// hostCalls are the functions of ABI 0.2.1. Those that Sluice has no use for
// say StatusUnimplemented.
func hostCalls() map[string]hostCall {
	unimplemented := func(*arguments) Status { return StatusUnimplemented }
	return map[string]hostCall{
		"proxy_log": {"iii", logText},
		"proxy_get_log_level": {"i", func(a *arguments) Status {
			return a.put(0, uint32(a.h.options.LogLevel), StatusOK)
		}},
		"proxy_get_current_time_nanoseconds": {"i", func(a *arguments) Status {
			return a.put64(0, uint64(a.h.Now().UnixNano()), StatusOK)
		}},
		"proxy_set_tick_period_milliseconds": {"i", func(a *arguments) Status { return a.SetTickPeriod(a.u32(0)) }},
		"proxy_set_effective_context":        {"i", func(a *arguments) Status { return a.SetEffectiveContext(a.u32(0)) }},
		"proxy_done":                         {"", func(a *arguments) Status { return a.Done() }},
		"proxy_get_status":                   {"iii", getStatus},
		"proxy_call_foreign_function":        {"iiiiii", callForeign},

		"proxy_get_header_map_value":     {"iiiii", getHeader},
		"proxy_add_header_map_value":     {"iiiii", func(a *arguments) Status { return changeHeader(a, a.AddHeader) }},
		"proxy_replace_header_map_value": {"iiiii", func(a *arguments) Status { return changeHeader(a, a.ReplaceHeader) }},
		"proxy_remove_header_map_value":  {"iii", removeHeader},
		"proxy_get_header_map_pairs":     {"iii", getHeaders},
		"proxy_set_header_map_pairs":     {"iii", setHeaders},
		"proxy_get_header_map_size":      {"ii", getHeadersSize},

		"proxy_get_buffer_bytes":  {"iiiii", getBuffer},
		"proxy_set_buffer_bytes":  {"iiiii", setBuffer},
		"proxy_get_buffer_status": {"iii", getBufferStatus},

		"proxy_continue_stream":     {"i", func(a *arguments) Status { return a.ContinueStream(StreamType(a.u32(0))) }},
		"proxy_close_stream":        {"i", func(a *arguments) Status { return a.CloseStream(StreamType(a.u32(0))) }},
		"proxy_send_local_response": {"iiiiiiii", sendLocalResponse},

		"proxy_get_property":    {"iiii", getProperty},
		"proxy_set_property":    {"iiii", setProperty},
		"proxy_get_shared_data": {"iiiii", getSharedData},
		"proxy_set_shared_data": {"iiiii", setSharedData},

		"proxy_define_metric":    {"iiii", defineMetric},
		"proxy_increment_metric": {"il", func(a *arguments) Status { return a.IncrementMetric(a.u32(0), int64(a.stack[1])) }},
		"proxy_record_metric":    {"il", func(a *arguments) Status { return a.RecordMetric(a.u32(0), a.stack[1]) }},
		"proxy_get_metric":       {"ii", getMetric},

		"proxy_grpc_stream": {"iiiiiiiii", openGRPC},
		"proxy_grpc_send":   {"iiii", sendGRPC},
		"proxy_grpc_close":  {"i", func(a *arguments) Status { return a.CloseGRPC(a.u32(0)) }},
		"proxy_grpc_cancel": {"i", func(a *arguments) Status { return a.CancelGRPC(a.u32(0)) }},

		"proxy_grpc_call":             {"iiiiiiiiiiii", unimplemented},
		"proxy_http_call":             {"iiiiiiiiii", unimplemented},
		"proxy_register_shared_queue": {"iii", unimplemented},
		"proxy_resolve_shared_queue":  {"iiiii", unimplemented},
		"proxy_enqueue_shared_queue":  {"iii", unimplemented},
		"proxy_dequeue_shared_queue":  {"iii", unimplemented},
	}
}

// proxy_log(level, text)
func logText(a *arguments) Status {
	text, ok := a.text(1)
	if !ok {
		return StatusInvalidMemoryAccess
	}
	return a.Log(LogLevel(a.u32(0)), text)
}

// proxy_get_status(code, text) is about the gRPC stream that closed last.
func getStatus(a *arguments) Status {
	return a.give(1, nil, a.put(0, a.plugin.grpcStatus, StatusOK))
}

// proxy_call_foreign_function(name, arguments, results)
func callForeign(a *arguments) Status {
	name, ok1 := a.text(0)
	args, ok2 := a.bytes(2)
	if !ok1 || !ok2 {
		return StatusInvalidMemoryAccess
	}
	results, status := a.CallForeign(name, args)
	if status == StatusNotFound {
		return status
	}
	if given := a.give(4, results, StatusOK); given != StatusOK {
		return given
	}
	return status
}

// proxy_get_header_map_value(map, name, value)
func getHeader(a *arguments) Status {
	name, ok := a.text(1)
	if !ok {
		return StatusInvalidMemoryAccess
	}
	value, status := a.GetHeader(MapType(a.u32(0)), name)
	return a.give(3, []byte(value), status)
}

// changeHeader is a call with (map, name, value).
func changeHeader(a *arguments, change func(t MapType, name, value string) Status) Status {
	name, ok1 := a.text(1)
	value, ok2 := a.text(3)
	if !ok1 || !ok2 {
		return StatusInvalidMemoryAccess
	}
	return change(MapType(a.u32(0)), name, value)
}

// proxy_remove_header_map_value(map, name)
func removeHeader(a *arguments) Status {
	name, ok := a.text(1)
	if !ok {
		return StatusInvalidMemoryAccess
	}
	return a.RemoveHeader(MapType(a.u32(0)), name)
}

// proxy_get_header_map_pairs(map, pairs)
func getHeaders(a *arguments) Status {
	headers, status := a.GetHeaders(MapType(a.u32(0)))
	if len(headers) == 0 {
		return a.give(1, nil, status)
	}
	return a.give(1, headers.marshal(), status)
}

// proxy_set_header_map_pairs(map, pairs)
func setHeaders(a *arguments) Status {
	b, ok := a.bytes(1)
	if !ok {
		return StatusInvalidMemoryAccess
	}
	return a.SetHeaders(MapType(a.u32(0)), b)
}

// proxy_get_header_map_size(map, bytes)
func getHeadersSize(a *arguments) Status {
	size, status := a.HeadersSize(MapType(a.u32(0)))
	return a.put(1, size, status)
}

// proxy_get_buffer_bytes(buffer, start, length, bytes)
func getBuffer(a *arguments) Status {
	b, status := a.GetBuffer(BufferType(a.u32(0)), a.u32(1), a.u32(2))
	return a.give(3, b, status)
}

// proxy_set_buffer_bytes(buffer, start, length, bytes)
func setBuffer(a *arguments) Status {
	data, ok := a.bytes(3)
	if !ok {
		return StatusInvalidMemoryAccess
	}
	return a.SetBuffer(BufferType(a.u32(0)), a.u32(1), a.u32(2), data)
}

// proxy_get_buffer_status(buffer, length, flags)
func getBufferStatus(a *arguments) Status {
	size, status := a.BufferSize(BufferType(a.u32(0)))
	return a.put(2, 0, a.put(1, size, status))
}

// proxy_send_local_response(status, details, body, headers, grpc status)
func sendLocalResponse(a *arguments) Status {
	details, ok1 := a.text(1)
	body, ok2 := a.text(3)
	headers, ok3 := a.bytes(5)
	if !ok1 || !ok2 || !ok3 {
		return StatusInvalidMemoryAccess
	}
	return a.SendLocalResponse(a.u32(0), details, body, headers, int32(a.u32(7)))
}

// proxy_get_property(path, value)
func getProperty(a *arguments) Status {
	path, ok := a.text(0)
	if !ok {
		return StatusInvalidMemoryAccess
	}
	value, status := a.GetProperty(path)
	return a.give(2, value, status)
}

// proxy_set_property(path, value)
func setProperty(a *arguments) Status {
	path, ok1 := a.text(0)
	value, ok2 := a.bytes(2)
	if !ok1 || !ok2 {
		return StatusInvalidMemoryAccess
	}
	return a.SetProperty(path, value)
}

// proxy_get_shared_data(key, value, cas)
func getSharedData(a *arguments) Status {
	key, ok := a.text(0)
	if !ok {
		return StatusInvalidMemoryAccess
	}
	value, cas, status := a.GetSharedData(key)
	return a.put(4, cas, a.give(2, value, status))
}

// proxy_set_shared_data(key, value, cas)
func setSharedData(a *arguments) Status {
	key, ok1 := a.text(0)
	value, ok2 := a.bytes(2)
	if !ok1 || !ok2 {
		return StatusInvalidMemoryAccess
	}
	return a.SetSharedData(key, value, a.u32(4))
}

// proxy_define_metric(type, name, id)
func defineMetric(a *arguments) Status {
	name, ok := a.text(1)
	if !ok {
		return StatusInvalidMemoryAccess
	}
	id, status := a.DefineMetric(MetricType(a.u32(0)), name)
	return a.put(3, id, status)
}

// proxy_get_metric(id, value)
func getMetric(a *arguments) Status {
	value, status := a.GetMetric(a.u32(0))
	return a.put64(1, value, status)
}

// proxy_grpc_stream(cluster, service, method, metadata, token)
func openGRPC(a *arguments) Status {
	cluster, ok1 := a.text(0)
	_, ok2 := a.text(2)
	_, ok3 := a.text(4)
	_, ok4 := a.bytes(6)
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return StatusInvalidMemoryAccess
	}
	token, status := a.OpenGRPC(cluster)
	return a.put(8, token, status)
}

// proxy_grpc_send(token, message, end of stream)
func sendGRPC(a *arguments) Status {
	message, ok := a.bytes(1)
	if !ok {
		return StatusInvalidMemoryAccess
	}
	return a.SendGRPC(a.u32(0), message, a.u32(3) != 0)
}
