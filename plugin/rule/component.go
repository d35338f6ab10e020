package rule

import "github.com/sluiceproxy/sluice/plugin/config"

// component is a compiled part of a key.
type component struct {
	*config.Component
	slot int // of the header, or of the property
}

// metadataRoot is the attribute path of a request's dynamic metadata.
var metadataRoot = []string{"metadata", "filter_metadata"}

// component compiles c, which must outlive the Set.
func (s *Set) component(c *config.Component) component {
	slot := -1
	switch c.Source {
	case config.FromHeader:
		slot = s.headerSlot(c.Name)
	case config.FromCookie:
		slot = s.headerSlot("cookie")
	case config.FromQuery:
		slot = slotPath
	case config.FromMethod:
		slot = slotMethod
	case config.FromClientIP:
		slot = s.propertySlot([]string{"source", "address"})
	case config.FromMetadata:
		slot = s.propertySlot(append(metadataRoot[:len(metadataRoot):len(metadataRoot)], c.Path...))
	case config.FromProperty:
		slot = s.propertySlot(c.Path)
	}
	return component{Component: c, slot: slot}
}

// read is the value of a component, or its default, and whether there is one.
// It is valid until the next read.
func (m *Matcher) read(c *component) (string, bool) {
	value, ok := m.readSource(c)
	if !ok && c.HasDefault {
		return c.Default, true
	}
	return value, ok
}

func (m *Matcher) readSource(c *component) (value string, ok bool) {
	switch c.Source {
	case config.FromHeader, config.FromMethod:
		return m.header(c.slot)
	case config.FromPath:
		value, ok = m.normalPath()
		if c.Segments > 0 {
			value = leading(value, c.Segments)
		}
		return value, ok
	case config.FromHost:
		return m.normalHost()
	case config.FromMetadata, config.FromProperty:
		return m.property(c.slot)
	case config.FromConstant:
		return c.Value, true
	}
	ok = m.decode(c)
	return view(m.value), ok
}

// decode reads the sources that need memory for their value, which is m.value.
func (m *Matcher) decode(c *component) (ok bool) {
	m.value = m.value[:0]
	switch c.Source {
	case config.FromQuery:
		target, _ := m.header(c.slot)
		m.value, ok = queryValue(m.value, target, c.Name)
	case config.FromCookie:
		header, _ := m.header(c.slot)
		m.value, ok = cookieValue(m.value, header, c.Name)
	case config.FromClientIP:
		source, _ := m.property(c.slot)
		m.value, ok = clientAddr(m.value, source, c.V4Prefix, c.V6Prefix)
	}
	return ok
}
