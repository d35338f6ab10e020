package wasmhost

// headers is a map of the context, and nil where it has none at the moment.
func (c Caller) headers(t MapType) *Pairs {
	if c.stream == nil {
		return nil
	}
	return c.stream.visible[t]
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
	if c.stream != nil && c.stream.logging {
		return "", StatusNotFound
	}
	return "", StatusBadArgument
}

// GetHeaders is proxy_get_header_map_pairs. Where there is no such map it is
// empty.
func (c Caller) GetHeaders(t MapType) (Pairs, Status) {
	if headers := c.headers(t); headers != nil {
		return *headers, StatusOK
	}
	return nil, StatusOK
}

// change changes a map that the guest may change: none while the stream is logged.
func (c Caller) change(t MapType, change func(p *Pairs)) Status {
	headers := c.headers(t)
	if headers == nil || c.stream.logging {
		return StatusBadArgument
	}
	change(headers)
	return StatusOK
}

// ReplaceHeader is proxy_replace_header_map_value.
func (c Caller) ReplaceHeader(t MapType, name, value string) Status {
	return c.change(t, func(p *Pairs) { p.set(name, value) })
}

// RemoveHeader is proxy_remove_header_map_value.
func (c Caller) RemoveHeader(t MapType, name string) Status {
	return c.change(t, func(p *Pairs) { p.remove(name) })
}
