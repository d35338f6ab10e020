package wasmhost

import "strings"

// Properties are Envoy attributes by path, such as "source.address". An element
// that has a dot itself is written with "\x00" between the elements instead.
type Properties map[string][]byte

func (p Properties) get(path string) ([]byte, bool) {
	if value, ok := p[path]; ok {
		return value, true
	}
	value, ok := p[strings.ReplaceAll(path, "\x00", ".")]
	return value, ok
}

// proxy_get_property(path, value); the elements of the path are separated by
// NUL. What the guest has set on the stream comes after Envoy's own.
func getProperty(c *arguments) Status {
	path, ok := c.text(0)
	if !ok {
		return StatusInvalidMemoryAccess
	}
	if c.stream != nil {
		if value, ok := c.stream.Properties.get(path); ok {
			return c.give(2, value)
		}
	}
	value, ok := c.h.options.Properties.get(path)
	if !ok && c.stream != nil {
		value, ok = c.stream.FilterState[filterStatePrefix+path]
	}
	if !ok {
		return StatusNotFound
	}
	return c.give(2, value)
}

const filterStatePrefix = "wasm."

// proxy_set_property(path, value) sets filter state, which only a stream has.
func setProperty(c *arguments) Status {
	path, ok1 := c.text(0)
	value, ok2 := c.bytes(2)
	if !ok1 || !ok2 {
		return StatusInvalidMemoryAccess
	}
	if c.stream == nil {
		return StatusNotFound
	}
	c.stream.FilterState[filterStatePrefix+path] = value
	return StatusOK
}

// proxy_get_shared_data(key, value, cas)
func getSharedData(c *arguments) Status {
	key, ok := c.text(0)
	if !ok {
		return StatusInvalidMemoryAccess
	}
	value, ok := c.h.envoy.getShared(sharedKey{c.h.options.VMID, key})
	if !ok {
		return StatusNotFound
	}
	if status := c.give(2, value.data); status != StatusOK {
		return status
	}
	return c.put(4, value.cas)
}

// proxy_set_shared_data(key, value, cas)
func setSharedData(c *arguments) Status {
	key, ok1 := c.text(0)
	value, ok2 := c.bytes(2)
	if !ok1 || !ok2 {
		return StatusInvalidMemoryAccess
	}
	return c.h.envoy.setShared(sharedKey{c.h.options.VMID, key}, value, c.u32(4))
}
