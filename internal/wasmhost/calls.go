package wasmhost

import "time"

// hostCalls are the functions of ABI 0.2.1. Those that Sluice has no use for
// say StatusUnimplemented.
func hostCalls() map[string]hostCall {
	unimplemented := func(*arguments) Status { return StatusUnimplemented }
	return map[string]hostCall{
		"proxy_log":                          {"iii", logText},
		"proxy_get_log_level":                {"i", func(c *arguments) Status { return c.put(0, uint32(c.h.options.LogLevel)) }},
		"proxy_get_current_time_nanoseconds": {"i", func(c *arguments) Status { return c.put64(0, uint64(c.h.options.Now().UnixNano())) }},
		"proxy_set_tick_period_milliseconds": {"i", setTickPeriod},
		"proxy_set_effective_context":        {"i", setEffectiveContext},
		"proxy_done":                         {"", done},
		"proxy_get_status":                   {"iii", getStatus},
		"proxy_call_foreign_function":        {"iiiiii", callForeign},

		"proxy_get_header_map_value":     {"iiiii", getHeader},
		"proxy_add_header_map_value":     {"iiiii", addHeader},
		"proxy_replace_header_map_value": {"iiiii", replaceHeader},
		"proxy_remove_header_map_value":  {"iii", removeHeader},
		"proxy_get_header_map_pairs":     {"iii", getHeaders},
		"proxy_set_header_map_pairs":     {"iii", setHeaders},
		"proxy_get_header_map_size":      {"ii", getHeadersSize},

		"proxy_get_buffer_bytes":  {"iiiii", getBuffer},
		"proxy_set_buffer_bytes":  {"iiiii", setBuffer},
		"proxy_get_buffer_status": {"iii", getBufferStatus},

		"proxy_continue_stream":     {"i", continueStream},
		"proxy_close_stream":        {"i", closeStream},
		"proxy_send_local_response": {"iiiiiiii", sendLocalResponse},

		"proxy_get_property":    {"iiii", getProperty},
		"proxy_set_property":    {"iiii", setProperty},
		"proxy_get_shared_data": {"iiiii", getSharedData},
		"proxy_set_shared_data": {"iiiii", setSharedData},

		"proxy_define_metric":    {"iiii", defineMetric},
		"proxy_increment_metric": {"il", incrementMetric},
		"proxy_record_metric":    {"il", recordMetric},
		"proxy_get_metric":       {"ii", getMetric},

		"proxy_grpc_stream": {"iiiiiiiii", grpcOpen},
		"proxy_grpc_send":   {"iiii", grpcSend},
		"proxy_grpc_close":  {"i", grpcClose},
		"proxy_grpc_cancel": {"i", grpcCancel},

		"proxy_grpc_call":             {"iiiiiiiiiiii", unimplemented},
		"proxy_http_call":             {"iiiiiiiiii", unimplemented},
		"proxy_register_shared_queue": {"iii", unimplemented},
		"proxy_resolve_shared_queue":  {"iiiii", unimplemented},
		"proxy_enqueue_shared_queue":  {"iii", unimplemented},
		"proxy_dequeue_shared_queue":  {"iii", unimplemented},
	}
}

// proxy_log(level, text)
func logText(c *arguments) Status {
	level := LogLevel(c.u32(0))
	if level > LogCritical {
		return StatusBadArgument
	}
	text, ok := c.text(1)
	if ok {
		c.h.Logs = append(c.h.Logs, LogLine{level, text})
	}
	return memoryStatus(ok)
}

// proxy_set_tick_period_milliseconds(period) is for the plugin context, whatever
// context it is called in.
func setTickPeriod(c *arguments) Status {
	c.plugin.tickPeriod = time.Duration(c.u32(0)) * time.Millisecond
	return StatusOK
}

// proxy_set_effective_context(id) holds until the callback returns; 0 takes the
// choice back.
func setEffectiveContext(c *arguments) Status {
	id := c.u32(0)
	if id != 0 && c.h.contexts[id] == nil {
		return StatusBadArgument
	}
	c.h.effective = id
	return StatusOK
}

// proxy_done() ends a plugin context whose proxy_on_done had said to wait.
func done(c *arguments) Status {
	p := c.plugin
	if p.state != waitingForDone {
		return StatusNotFound
	}
	p.state = finished
	c.h.later(p.delete)
	return StatusOK
}

// proxy_get_status(code, text) is about the gRPC stream that closed last.
func getStatus(c *arguments) Status {
	if status := c.put(0, c.plugin.grpcStatus); status != StatusOK {
		return status
	}
	return c.give(1, nil)
}

// proxy_call_foreign_function(name, arguments, results)
func callForeign(c *arguments) Status {
	name, ok1 := c.text(0)
	args, ok2 := c.bytes(2)
	if !ok1 || !ok2 {
		return StatusInvalidMemoryAccess
	}
	f := c.h.options.Foreign[name]
	if f == nil {
		return StatusNotFound
	}
	results, status := f(args)
	if given := c.give(4, results); given != StatusOK {
		return given
	}
	return status
}
