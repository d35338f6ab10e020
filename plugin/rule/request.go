package rule

import (
	"hash"
	"strings"
	"unsafe"
)

// Request is what rules read of a request: a thin view over the host. What it
// returns need be valid only until Apply returns.
type Request interface {
	// Header is the first value of a header, and whether there is one. Names are
	// in lower case; ":path", ":method" and ":authority" are headers too.
	Header(name string) (string, bool)
	// Property is an Envoy attribute, and whether there is one.
	Property(path []string) ([]byte, bool)
}

// Matcher holds what Apply has read of one request, and the memory that it
// reuses. The zero Matcher is ready; one is enough for a worker.
type Matcher struct {
	set *Set
	req Request

	headers    []cell // parallel to set.headers
	properties []cell // parallel to set.properties
	path, host cell
	pathBuf    []byte
	hostBuf    []byte
	value      []byte // the component being read
	hash       hash.Hash
	digest     []byte
	tags       []byte
	applied    []Applied
}

// cell is a value that is read at most once.
type cell struct {
	value string
	state cellState
}

type cellState uint8

const (
	unread cellState = iota
	absent
	present
)

func (c *cell) get() (string, bool) { return c.value, c.state == present }

func (c *cell) put(value string, ok bool) (string, bool) {
	c.value, c.state = value, absent
	if ok {
		c.state = present
	}
	return value, ok
}

// reset prepares for a request, forgetting the last one.
func (m *Matcher) reset(s *Set, req Request) {
	m.set, m.req = s, req
	m.headers = fresh(m.headers, len(s.headers))
	m.properties = fresh(m.properties, len(s.properties))
	m.path, m.host = cell{}, cell{}
	m.tags, m.applied = m.tags[:0], m.applied[:0]
}

// fresh is n unread cells, in the memory of cells if it is enough.
func fresh(cells []cell, n int) []cell {
	if cap(cells) < n {
		return make([]cell, n)
	}
	cells = cells[:n]
	clear(cells)
	return cells
}

// header is the first value of the header in slot i, without the white space
// around it (RFC 9110, section 5.5).
func (m *Matcher) header(i int) (string, bool) {
	c := &m.headers[i]
	if c.state != unread {
		return c.get()
	}
	value, ok := m.req.Header(m.set.headers[i])
	return c.put(trim(value), ok)
}

// property is the attribute in slot i.
func (m *Matcher) property(i int) (string, bool) {
	c := &m.properties[i]
	if c.state != unread {
		return c.get()
	}
	value, ok := m.req.Property(m.set.properties[i])
	return c.put(view(value), ok)
}

// normalPath is the path as upstreams read it.
func (m *Matcher) normalPath() (string, bool) {
	if m.path.state != unread {
		return m.path.get()
	}
	target, ok := m.header(slotPath)
	if ok {
		m.pathBuf = appendPath(m.pathBuf[:0], target)
	}
	return m.path.put(view(m.pathBuf), ok)
}

// normalHost is the host in lower case without its port.
func (m *Matcher) normalHost() (string, bool) {
	if m.host.state != unread {
		return m.host.get()
	}
	authority, ok := m.header(slotAuthority)
	if ok {
		m.hostBuf = appendHost(m.hostBuf[:0], authority)
	}
	return m.host.put(view(m.hostBuf), ok)
}

// trim removes optional white space (RFC 9110, section 5.6.3) from both ends.
func trim(s string) string { return strings.Trim(s, " \t") }

// view is b as a string without a copy: it changes when b does.
func view(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b))
}
