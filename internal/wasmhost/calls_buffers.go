package wasmhost

import "slices"

// A buffer is what a buffer type stands for at the moment. Without bytes it is
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

func (c *arguments) buffer() (buffer, Status) {
	b := buffer{}
	switch t := bufferType(c.u32(0)); t {
	case requestBody, responseBody:
		if c.stream != nil {
			b = buffer{bytes: c.stream.direction(t).body, mutable: true}
		}
	case grpcMessage:
		b = buffer{bytes: c.plugin.message, mutable: true}
	case vmConfiguration:
		config := []byte(c.h.options.VMConfig)
		b = buffer{bytes: &config}
	case pluginConfiguration: // only while the plugin starts
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

// proxy_get_buffer_bytes(buffer, start, length, bytes) gives what there is of it.
func getBuffer(c *arguments) Status {
	b, status := c.buffer()
	if status != StatusOK {
		return status
	}
	content := b.content()
	start := min(uint64(c.u32(1)), uint64(len(content)))
	end := min(start+uint64(c.u32(2)), uint64(len(content)))
	return c.give(3, content[start:end])
}

// proxy_get_buffer_status(buffer, length, flags)
func getBufferStatus(c *arguments) Status {
	b, status := c.buffer()
	if status != StatusOK {
		return status
	}
	if status := c.put(1, uint32(len(b.content()))); status != StatusOK {
		return status
	}
	return c.put(2, 0)
}

// proxy_set_buffer_bytes(buffer, start, length, bytes) knows three places only,
// as Envoy's Buffer::copyFrom: from the beginning (the first length bytes go,
// the new ones come in their place), at the end or behind it (the new ones are
// appended, nothing goes), and anywhere else, where it fails.
func setBuffer(c *arguments) Status {
	b, status := c.buffer()
	if status != StatusOK {
		return status
	}
	data, ok := c.bytes(3)
	if !ok {
		return StatusInvalidMemoryAccess
	}
	if b.bytes == nil || !b.mutable {
		return StatusBadArgument
	}
	start, length := uint64(c.u32(1)), uint64(c.u32(2))
	switch size := uint64(len(*b.bytes)); {
	case start == 0:
		*b.bytes = append(data, (*b.bytes)[min(length, size):]...)
	case start >= size:
		*b.bytes = slices.Concat(*b.bytes, data)
	default:
		return StatusBadArgument
	}
	return StatusOK
}
