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

	// Bound: values whose digest is kept. Beyond it, a value is hashed anew. Protects memory.
	maxDigested = 64
	// Bound: bytes of a value whose digest is kept. Beyond it, it is hashed each time. Protects memory.
	maxDigestedBytes = 256
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
	if p.state != unread {
		return m.written[p.begin:p.end], p.state == present
	}
	c := &m.set.components[column]
	r := m.valueOf(c)
	if r.state == absent {
		*p = part{state: absent}
		return nil, false
	}
	units := unitsToWrite
	if c.Hash {
		units = unitsToHash
	}
	begin := len(m.written)
	switch {
	case r.state.isUnknown():
		m.written = append(m.written, marks[r.state]...)
	case !m.afford(len(r.value) * units):
		m.written = append(m.written, marks[tooLong]...)
	case c.Hash && len(r.value) > maxDigestedBytes:
		m.written = m.hashed(m.written, c, r.value)
	case c.Hash:
		if m.digested == nil {
			m.digested = make([]digested, maxDigested)
		}
		place := uint32(len(r.value))
		for i := range len(r.value) {
			place = (place ^ uint32(r.value[i])) * 0x01000193 // FNV-1a; who makes values collide has them hashed anew
		}
		d := &m.digested[place>>16%maxDigested]
		if d.of != c || text.View(d.value) != r.value {
			d.of, d.value = c, append(d.value[:0], r.value...)
			d.digits = m.hashed(d.digits[:0], c, r.value)
		}
		m.written = append(m.written, d.digits...)
	default: // so that no other value, nor the digest of any, is written the same
		value := r.value
		digest := len(value) == hashDigits || len(value) == digestDigits
		for i := 0; digest && i < len(value); i++ {
			digest = text.HexValue(value[i]) <= 15 && (value[i] < 'A' || value[i] > 'F')
		}
		if digest {
			m.written = text.AppendEscape(m.written, value[0])
			value = value[1:]
		}
		m.written = text.AppendEscaped(m.written, value)
	}
	*p = part{state: present, begin: begin, end: len(m.written)}
	return m.written[begin:], true
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

// digested is a value of a hashed component and the digits that stand for it. The same clients come again,
// and hashing takes longer than all else that is done with a key.
type digested struct {
	of     *component
	value  []byte
	digits []byte
}

// hashed appends the digits that stand for a value of a hashed component.
func (m *Matcher) hashed(dst []byte, c *component, value string) []byte {
	if !c.Keyed {
		return m.appendDigest(dst, text.Bytes(value), hashDigits)
	}
	m.digest = m.set.mac.AppendSum(m.digest[:0], text.Bytes(value))
	return appendHex(dst, m.digest[:hashDigits/2])
}
