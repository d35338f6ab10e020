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

// GetProperty is proxy_get_property; the elements of the path are separated by
// NUL. What the guest has set on the stream comes after Envoy's own.
func (c Caller) GetProperty(path string) ([]byte, Status) {
	if c.stream != nil {
		if value, ok := c.stream.Properties.get(path); ok {
			return value, StatusOK
		}
	}
	value, ok := c.h.options.Properties.get(path)
	if !ok && c.stream != nil {
		value, ok = c.stream.filterState(path)
	}
	if !ok {
		return nil, StatusNotFound
	}
	return value, StatusOK
}

// SetProperty is proxy_set_property: filter state, which only a stream has.
func (c Caller) SetProperty(path string, value []byte) Status {
	if c.stream == nil {
		return StatusNotFound
	}
	c.stream.FilterState[filterStatePrefix+path] = value
	return StatusOK
}

// GetSharedData is proxy_get_shared_data.
func (c Caller) GetSharedData(key string) (value []byte, cas uint32, status Status) {
	v, ok := c.h.envoy.shared[sharedKey{c.h.options.VMID, key}]
	if !ok {
		return nil, 0, StatusNotFound
	}
	return v.data, v.cas, StatusOK
}

// SetSharedData is proxy_set_shared_data.
func (c Caller) SetSharedData(key string, value []byte, cas uint32) Status {
	return c.h.envoy.setShared(sharedKey{c.h.options.VMID, key}, value, cas)
}
