package wasmhost

// headers is a map of the context, and nil where it has none at the moment. Those
// of gRPC belong to the plugin context.
func (c Caller) headers(t MapType) *Pairs {
	switch t {
	case RequestHeaders, RequestTrailers, ResponseHeaders, ResponseTrailers:
		if c.stream != nil {
			return c.stream.visible[t]
		}
	case GRPCInitialMetadata, GRPCTrailingMetadata:
		return c.plugin.metadata[t-GRPCInitialMetadata]
	}
	return nil
}

// mutable is headers for a call that changes them, which only a stream's are
// open to, and not while it is logged.
func (c Caller) mutable(t MapType) *Pairs {
	if t > ResponseTrailers || c.stream != nil && c.stream.logging {
		return nil
	}
	return c.headers(t)
}

// GetHeader is proxy_get_header_map_value: the first value.
func (c Caller) GetHeader(t MapType, name string) (string, Status) {
	headers := c.headers(t)
	if headers != nil {
		if value, ok := headers.Get(name); ok {
			return value, StatusOK
		}
		return "", StatusNotFound
	}
	if t < mapTypes && c.stream != nil && c.stream.logging {
		return "", StatusNotFound
	}
	return "", StatusBadArgument
}

// GetHeaders is proxy_get_header_map_pairs. Where there is no such map it is
// empty.
func (c Caller) GetHeaders(t MapType) (Pairs, Status) {
	if t >= mapTypes {
		return nil, StatusBadArgument
	}
	if headers := c.headers(t); headers != nil {
		return *headers, StatusOK
	}
	return nil, StatusOK
}

// HeadersSize is proxy_get_header_map_size, in bytes.
func (c Caller) HeadersSize(t MapType) (uint32, Status) {
	headers := c.mutable(t)
	if headers == nil {
		return 0, StatusBadArgument
	}
	return uint32(headers.byteSize()), StatusOK
}

// change changes a map that the guest may change.
func (c Caller) change(t MapType, change func(p *Pairs)) Status {
	headers := c.mutable(t)
	if headers == nil {
		return StatusBadArgument
	}
	change(headers)
	return StatusOK
}

// AddHeader is proxy_add_header_map_value.
func (c Caller) AddHeader(t MapType, name, value string) Status {
	return c.change(t, func(p *Pairs) { p.add(name, value) })
}

// ReplaceHeader is proxy_replace_header_map_value.
func (c Caller) ReplaceHeader(t MapType, name, value string) Status {
	return c.change(t, func(p *Pairs) { p.set(name, value) })
}

// RemoveHeader is proxy_remove_header_map_value.
func (c Caller) RemoveHeader(t MapType, name string) Status {
	return c.change(t, func(p *Pairs) { p.remove(name) })
}

// SetHeaders is proxy_set_header_map_pairs, with the map as the ABI has it.
func (c Caller) SetHeaders(t MapType, serialized []byte) Status {
	return c.change(t, func(p *Pairs) {
		*p = (*p)[:0]
		for _, pair := range unmarshal(serialized) {
			p.add(pair[0], pair[1])
		}
	})
}
