package wasmhost

import "slices"

// buffer is the current content of a buffer type; nil if there is none.
func (c Caller) buffer(t BufferType) (content *[]byte, status Status) {
	switch t {
	case RequestBody, ResponseBody:
		if c.stream != nil {
			return c.stream.direction(t).body, StatusOK
		}
		return nil, StatusOK
	case GRPCMessage:
		return c.plugin.message, StatusOK
	case PluginConfiguration:
		if c.plugin.config != nil { // only while the plugin starts
			return c.plugin.config, StatusOK
		}
		return nil, StatusNotFound
	}
	return nil, StatusBadArgument
}

// GetBuffer is proxy_get_buffer_bytes. It gives what there is of it: where there is no body to see,
// the buffer is empty.
func (c Caller) GetBuffer(t BufferType, start, length uint32) ([]byte, Status) {
	b, status := c.buffer(t)
	if b == nil {
		return nil, status
	}
	from := min(uint64(start), uint64(len(*b)))
	to := min(from+uint64(length), uint64(len(*b)))
	return (*b)[from:to:to], StatusOK
}

// SetBuffer is proxy_set_buffer_bytes. It knows three places only, as Envoy's
// Buffer::copyFrom: from the beginning (the first length bytes go, the new ones
// come in their place), at the end or behind it (the new ones are appended,
// nothing goes), and anywhere else, where it fails.
func (c Caller) SetBuffer(t BufferType, start, length uint32, data []byte) Status {
	b, status := c.buffer(t)
	if status != StatusOK {
		return status
	}
	if b == nil || t == PluginConfiguration {
		return StatusBadArgument
	}
	size := uint64(len(*b))
	switch {
	case start == 0:
		*b = slices.Concat(data, (*b)[min(uint64(length), size):])
	case uint64(start) >= size:
		*b = slices.Concat(*b, data)
	default:
		return StatusBadArgument
	}
	return StatusOK
}
