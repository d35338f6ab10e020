package wasmhost

import "slices"

// A buffer is the current content of a buffer type. Without bytes it is
// empty, as Envoy's is when there is no body to see.
type buffer struct {
	bytes    *[]byte
	mutable  bool
	notThere bool // StatusNotFound
}

func (b buffer) content() []byte {
	if b.bytes == nil {
		return nil
	}
	return *b.bytes
}

func (c Caller) buffer(t BufferType) (buffer, Status) {
	b := buffer{}
	switch t {
	case RequestBody, ResponseBody:
		if c.stream != nil {
			b = buffer{bytes: c.stream.direction(t).body, mutable: true}
		}
	case GRPCMessage:
		b = buffer{bytes: c.plugin.message, mutable: true}
	case VMConfiguration:
		config := []byte(c.h.options.VMConfig)
		b = buffer{bytes: &config}
	case PluginConfiguration: // only while the plugin starts
		b = buffer{bytes: c.plugin.config, notThere: c.plugin.config == nil}
	case httpCallBody:
		b.notThere = true
	case downstreamData, upstreamData, callData:
	default:
		return b, StatusBadArgument
	}
	if b.notThere {
		return b, StatusNotFound
	}
	return b, StatusOK
}

// GetBuffer is proxy_get_buffer_bytes. It gives what there is of it.
func (c Caller) GetBuffer(t BufferType, start, length uint32) ([]byte, Status) {
	b, status := c.buffer(t)
	if status != StatusOK {
		return nil, status
	}
	content := b.content()
	from := min(uint64(start), uint64(len(content)))
	to := min(from+uint64(length), uint64(len(content)))
	return content[from:to:to], StatusOK
}

// bufferStatus is proxy_get_buffer_status. There are no flags.
func (c Caller) bufferStatus(t BufferType) (size, flags uint32, status Status) {
	b, status := c.buffer(t)
	return uint32(len(b.content())), 0, status
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
	if b.bytes == nil || !b.mutable {
		return StatusBadArgument
	}
	size := uint64(len(*b.bytes))
	switch {
	case start == 0:
		*b.bytes = slices.Concat(data, (*b.bytes)[min(uint64(length), size):])
	case uint64(start) >= size:
		*b.bytes = slices.Concat(*b.bytes, data)
	default:
		return StatusBadArgument
	}
	return StatusOK
}
