package rule

import (
	"slices"

	"github.com/sluiceproxy/sluice/plugin/sha256"
	"github.com/sluiceproxy/sluice/plugin/text"
)

const (
	// Bound: bytes of an identity in a key. Beyond it, its SHA-256 stands for it. Protects Redis'
	// memory.
	maxIdentityBytes = 200 // bytes of an identity; a longer one is replaced by its digest
	digestDigits     = 2 * sha256.Size
	hashDigits       = 40 // of the digest of a hashed component
)

// marks stand for values that are unknown. No value is written like this, because % begins an
// escape.
var marks = [...]string{tooLong: "%long", many: "%many", odd: "%odd"}

// part is a component as keys hold it, which is written at most once a request.
type part struct {
	state      state // absent or present once it has been read
	begin, end int   // in Matcher.written
}

// partOf is the part in a column.
func (m *Matcher) partOf(column int) (written []byte, ok bool) {
	p := &m.parts[column]
	if p.state == unread {
		*p = m.write(&m.set.components[column])
	}
	return m.written[p.begin:p.end], p.state == present
}

// write appends a component to m.written.
func (m *Matcher) write(c *component) part {
	r := m.valueOf(c)
	if r.state == absent {
		return part{state: absent}
	}
	units := unitsToWrite
	if c.Hash {
		units = unitsToHash
	}
	p := part{state: present, begin: len(m.written)}
	switch {
	case r.state.isUnknown():
		m.written = append(m.written, marks[r.state]...)
	case !m.afford(len(r.value) * units):
		m.written = append(m.written, marks[tooLong]...)
	case c.Hash:
		m.written = m.appendHashed(m.written, c, r.value)
	default:
		m.written = appendComponent(m.written, r.value)
	}
	p.end = len(m.written)
	return p
}

// tagOf appends to m.tags the rule's name and the identity that its key builds, if
// it can be built.
func (m *Matcher) tagOf(c *compiled) ([]byte, bool) {
	start := len(m.tags)
	m.tags = append(m.tags, c.tagPrefix...)
	if !m.appendIdentity(c.key) {
		m.tags = m.tags[:start]
		return nil, false
	}
	return m.tags[start:len(m.tags):len(m.tags)], true
}

// appendIdentity appends to m.tags the identity that the components in these columns build, or
// nothing if one is absent.
//
//go:inline
func (m *Matcher) appendIdentity(columns []int) bool {
	identity := len(m.tags)
	for i, column := range columns {
		written, ok := m.partOf(column)
		if !ok {
			m.tags = m.tags[:identity]
			return false
		}
		if i > 0 {
			m.tags = append(m.tags, '|')
		}
		m.tags = append(m.tags, written...)
	}
	if len(columns) == 1 && len(m.tags) == identity {
		m.tags = append(m.tags, '%') // one empty component is not the same as none
	}
	if n := len(m.tags) - identity; n > maxIdentityBytes {
		m.shorten(identity, n)
	}
	return true
}

// shorten replaces the last n bytes of m.tags, an identity, by its digest.
func (m *Matcher) shorten(identity, n int) {
	if n > shortIdentityBytes && !m.afford(n*unitsToHash) {
		m.tags = append(m.tags[:identity], marks[tooLong]...)
		return
	}
	m.tags = m.appendDigest(m.tags[:identity], m.tags[identity:], digestDigits)
}

// appendComponent appends one component so that no other value, nor the
// digest of any, is written the same.
func appendComponent(dst []byte, value string) []byte {
	if isDigest(value) {
		dst = text.AppendEscape(dst, value[0])
		value = value[1:]
	}
	return text.AppendEscaped(dst, value)
}

// isDigest reports whether s could be taken for what appendDigest writes.
func isDigest(s string) bool {
	if len(s) != hashDigits && len(s) != digestDigits {
		return false
	}
	for i := range len(s) {
		if text.HexValue(s[i]) > 15 || 'A' <= s[i] && s[i] <= 'F' {
			return false
		}
	}
	return true
}

// appendDigest appends the first digits of the SHA-256 of data. dst may end
// where data begins.
func (m *Matcher) appendDigest(dst, data []byte, digits int) []byte {
	if m.hash == nil {
		m.hash = sha256.New()
	}
	m.hash.Reset()
	m.hash.Write(data)
	m.digest = m.hash.AppendSum(m.digest[:0])
	return appendHex(dst, m.digest[:digits/2])
}

// appendHex appends bytes as digits.
func appendHex(dst, data []byte) []byte {
	begin := len(dst)
	dst = slices.Grow(dst, 2*len(data))[:begin+2*len(data)]
	out := dst[begin:]
	for i, c := range data {
		out[2*i], out[2*i+1] = text.LowerHex[c>>4], text.LowerHex[c&15]
	}
	return dst
}
