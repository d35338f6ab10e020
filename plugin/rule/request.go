package rule

import (
	"strings"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/pattern"
	"github.com/sluiceproxy/sluice/plugin/sha256"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// Request is the rules' view of a request, a thin layer over the host. Its results need be
// valid only until Apply returns.
type Request interface {
	// Header is the first value of a header, and whether there is one. Names are
	// in lower case; ":path", ":method" and ":authority" are headers too.
	Header(name string) (string, bool)
	// Fields calls m.Field with each header field, these three included, in order.
	Fields(m *Matcher)
	// Property is an Envoy attribute, and whether there is one.
	Property(path []string) ([]byte, bool)
	// Evaluate is the value of an expression, as Envoy passes properties, and whether
	// it has one. The token is that of Expressions.Create.
	Evaluate(token uint32) ([]byte, bool)
}

// Matcher holds what Apply has read of one request, and the memory that it
// reuses. The zero Matcher is ready; one is enough for a worker.
type Matcher struct {
	set          *Set
	req          Request
	units        int // of work that the request may still take
	patternUnits int // of work that patterns may still take

	headers    []reading // parallel to set.headers
	asked      int       // the column of the header that was asked for first; noHeader: none yet
	more       bool      // one pseudo header was not enough
	foresight  foresight // whether it will be, over all requests
	properties []reading // parallel to set.attributes
	values     []reading // parallel to set.expressions
	absences   []absence // parallel to set.attributes, over all requests
	missing    *Attribute
	path, host reading
	method     reading
	// plainPath and plainMethod: the path, the method is written as it is read.
	plainPath, plainMethod bool
	client                 client
	parts                  []part // parallel to set.components
	machine                pattern.Machine
	hash                   *sha256.Hash
	digested               []digested // over all requests

	cookieBuf, pathBuf, hostBuf, methodBuf []byte
	value                                  []byte // the component being read
	written                                []byte // the parts
	digest, tags                           []byte
	costs                                  []int64
	sizes                                  []algo.Size
	applied                                []Applied
	ahead                                  []reading
}

// reading is something of a request, which is read at most once.
type reading struct {
	value string
	state state
}

// state says how far a reading has come. Between absent and present a value is there, but
// unknown: upstreams may read different ones.
type state uint8

const (
	unread state = iota
	absent
	tooLong // longer than may be looked at
	many    // several different values; of a header the reading has the first
	odd     // a bearer without a token
	present
)

func (s state) isUnknown() bool { return absent < s && s < present }

func read(value string, ok bool) reading {
	if !ok {
		return reading{state: absent}
	}
	return reading{value: value, state: present}
}

// reset prepares for a request, forgetting the last one.
func (m *Matcher) reset(s *Set, req Request) {
	if m.set != s {
		m.set, m.asked, m.digested = s, noHeader, nil
		m.absences = make([]absence, len(s.attributes))
		m.foresight = foreseen - 1
		if len(s.headers) > methodColumn+1 { // as the configuration suggests
			m.foresight = certainly
		}
	}
	switch {
	case m.asked == noHeader: // there was no request before
	case m.more && m.foresight < certainly:
		m.foresight++
	case !m.more && m.foresight > 0:
		m.foresight--
	}
	m.req, m.missing, m.asked, m.more = req, nil, noHeader, false
	m.units, m.patternUnits = requestUnits, requestUnits
	m.headers = fresh(m.headers, len(s.headers))
	m.properties = fresh(m.properties, len(s.attributes))
	m.values = fresh(m.values, len(s.expressions))
	m.parts = fresh(m.parts, len(s.components))
	m.path, m.host, m.method, m.client = reading{}, reading{}, reading{}, client{}
	m.written, m.tags, m.applied = m.written[:0], m.tags[:0], m.applied[:0]
	m.costs, m.sizes, m.ahead = m.costs[:0], m.sizes[:0], m.ahead[:0]
}

// fresh is n zero elements, in the memory of list if it is enough.
//
//go:inline
func fresh[T any](list []T, n int) []T {
	switch {
	case n == 0:
		return nil
	case cap(list) < n:
		return make([]T, n)
	}
	list = list[:n]
	clear(list)
	return list
}

// headerOf is the value of the header in a column, without the white space around it (RFC 9110,
// section 5.5), or all cookies. A second header costs Envoy as much as all of them, and only all
// of them tell whether a name is repeated, as a pseudo header's cannot be.
func (m *Matcher) headerOf(column int) reading {
	if m.asked == noHeader {
		m.asked = column
	}
	alone := column == m.asked && column <= methodColumn
	m.more = m.more || !alone
	r := &m.headers[column]
	switch {
	case r.state != unread:
	case alone && m.foresight < foreseen:
		value, ok := m.req.Header(m.set.headers[column])
		*r = read(trim(value), ok)
	default:
		m.cookieBuf = m.cookieBuf[:0]
		m.req.Fields(m)
		for i := range m.headers {
			if m.headers[i].state == unread {
				m.headers[i].state = absent
			}
		}
	}
	return *r
}

// foresight is whether a request that reads a pseudo header will read another header, too: then all are
// read at once. It learns from the requests before as a branch predictor of two bits does, so that one
// that is unlike the others, such as a health check, changes nothing.
type foresight uint8

const (
	foreseen  foresight = 2 // from here on it will
	certainly foresight = 3
)

// Field reads a header field, if rules look at its name. All cookies are one, with "; " between
// them (RFC 9113, section 8.2.3).
func (m *Matcher) Field(name, value string) {
	headers, column := m.set.headers, 0
	for column < len(headers) && (len(headers[column]) != len(name) || headers[column] != name) {
		column++
	}
	if column == len(headers) {
		return
	}
	value = trim(value)
	switch r := &m.headers[column]; {
	case r.state == unread:
		*r = read(value, true)
	case column == m.set.cookieColumn:
		if len(m.cookieBuf) == 0 {
			m.cookieBuf = append(m.cookieBuf, r.value...)
		}
		m.cookieBuf = append(append(m.cookieBuf, "; "...), value...)
		r.value = text.View(m.cookieBuf)
	case r.value != value:
		r.state = many
	}
}

// pathOf is the path as upstreams read it.
func (m *Matcher) pathOf() reading {
	if m.path.state != unread {
		return m.path
	}
	target := m.headerOf(pathColumn)
	switch {
	case target.state == absent:
		m.path = target
	case !m.afford(len(target.value) * unitsToNormalise):
		m.path, m.plainPath = reading{state: tooLong}, false
	default:
		m.pathBuf = appendPath(m.pathBuf[:0], target.value)
		m.path = read(text.View(m.pathBuf), true)
		m.plainPath = isPlain(target.value, m.path.value)
	}
	return m.path
}

// hostOf is the host in lower case without its port.
func (m *Matcher) hostOf() reading {
	if m.host.state != unread {
		return m.host
	}
	authority := m.headerOf(authorityColumn)
	switch {
	case authority.state == absent:
		m.host = authority
	case !m.afford(len(authority.value) * unitsToNormalise):
		m.host = reading{state: tooLong}
	default:
		m.hostBuf = appendHost(m.hostBuf[:0], authority.value)
		m.host = read(text.View(m.hostBuf), true)
	}
	return m.host
}

// appendHost appends the host of an authority (RFC 3986, section 3.2) in lower
// case, without its port and the dots of a fully qualified name. An IPv6
// literal keeps its brackets.
func appendHost(dst []byte, authority string) []byte {
	end := strings.IndexByte(authority, ':')
	if strings.HasPrefix(authority, "[") {
		end = strings.IndexByte(authority, ']') + 1
		if end == 0 {
			end = len(authority)
		}
	}
	if end >= 0 {
		authority = authority[:end]
	}
	authority = strings.TrimRight(authority, ".")
	for i := range len(authority) {
		c := authority[i]
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		dst = append(dst, c)
	}
	return dst
}

// methodOf is the method in upper case.
func (m *Matcher) methodOf() reading {
	if m.method.state != unread {
		return m.method
	}
	m.method, m.plainMethod = m.headerOf(methodColumn), true
	if m.method.state == absent {
		return m.method
	}
	written := m.method.value
	if !m.afford(len(written) * unitsToWrite) {
		m.method, m.plainMethod = reading{state: tooLong}, false
		return m.method
	}
	for i := range len(written) {
		m.plainMethod = m.plainMethod && (written[i] < 'a' || written[i] > 'z')
	}
	if !m.plainMethod {
		m.methodBuf = append(m.methodBuf[:0], written...)
		for i, c := range m.methodBuf {
			if 'a' <= c && c <= 'z' {
				m.methodBuf[i] = c - ('a' - 'A')
			}
		}
		m.method.value = text.View(m.methodBuf)
	}
	return m.method
}

// trim removes optional white space (RFC 9110, section 5.6.3) from both ends.
//
//go:inline
func trim(s string) string {
	for s != "" && isBlank(s[0]) {
		s = s[1:]
	}
	for s != "" && isBlank(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }
