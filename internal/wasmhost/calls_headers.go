package wasmhost

// headers is the map that argument 0 names, and nil where the context has none
// at the moment. Those of gRPC belong to the plugin context.
func (c *arguments) headers() *Pairs {
	switch t := mapType(c.u32(0)); t {
	case requestHeaders, requestTrailers, responseHeaders, responseTrailers:
		if c.stream != nil {
			return c.stream.visible[t]
		}
	case grpcInitialMetadata, grpcTrailingMetadata:
		return c.plugin.metadata[t-grpcInitialMetadata]
	}
	return nil
}

// mutable is headers for a call that changes them, which only a stream's are
// open to, and not while it is logged.
func (c *arguments) mutable() *Pairs {
	if mapType(c.u32(0)) > responseTrailers || c.stream != nil && c.stream.logging {
		return nil
	}
	return c.headers()
}

// proxy_get_header_map_value(map, name, value) is the first value.
func getHeader(c *arguments) Status {
	name, ok := c.name(1)
	switch headers := c.headers(); {
	case mapType(c.u32(0)) >= mapTypes:
		return StatusBadArgument
	case !ok:
		return StatusInvalidMemoryAccess
	case headers != nil:
		if value, ok := headers.Get(name); ok {
			return c.give(3, []byte(value))
		}
		return StatusNotFound
	case c.stream != nil && c.stream.logging:
		return StatusNotFound
	}
	return StatusBadArgument
}

// proxy_get_header_map_pairs(map, pairs) is empty where there is no such map.
func getHeaders(c *arguments) Status {
	if mapType(c.u32(0)) >= mapTypes {
		return StatusBadArgument
	}
	headers := c.headers()
	if headers == nil || len(*headers) == 0 {
		return c.give(1, nil)
	}
	return c.give(1, headers.marshal())
}

// proxy_get_header_map_size(map, bytes)
func getHeadersSize(c *arguments) Status {
	headers := c.mutable()
	if headers == nil {
		return StatusBadArgument
	}
	return c.put(1, uint32(headers.byteSize()))
}

// proxy_add_header_map_value(map, name, value)
func addHeader(c *arguments) Status { return changeHeader(c, (*Pairs).add) }

// proxy_replace_header_map_value(map, name, value)
func replaceHeader(c *arguments) Status { return changeHeader(c, (*Pairs).set) }

func changeHeader(c *arguments, change func(p *Pairs, name, value string)) Status {
	name, ok1 := c.name(1)
	value, ok2 := c.text(3)
	if !ok1 || !ok2 {
		return StatusInvalidMemoryAccess
	}
	headers := c.mutable()
	if headers == nil {
		return StatusBadArgument
	}
	change(headers, name, value)
	return StatusOK
}

// proxy_remove_header_map_value(map, name)
func removeHeader(c *arguments) Status {
	name, ok := c.name(1)
	if !ok {
		return StatusInvalidMemoryAccess
	}
	headers := c.mutable()
	if headers == nil {
		return StatusBadArgument
	}
	headers.remove(name)
	return StatusOK
}

// proxy_set_header_map_pairs(map, pairs)
func setHeaders(c *arguments) Status {
	b, ok := c.bytes(1)
	if !ok {
		return StatusInvalidMemoryAccess
	}
	headers := c.mutable()
	if headers == nil {
		return StatusBadArgument
	}
	*headers = (*headers)[:0]
	for _, pair := range unmarshal(b) {
		headers.add(pair[0], pair[1])
	}
	return StatusOK
}
