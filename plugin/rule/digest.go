package rule

import "github.com/sluiceproxy/sluice/plugin/text"

const (
	// Bound: values whose digest is kept. Beyond it, a value is hashed anew. Protects memory.
	maxDigested = 64
	// Bound: bytes of a value whose digest is kept. Beyond it, it is hashed each time. Protects memory.
	maxDigestedBytes = 256
)

// digested is a value of a hashed component and the digits that stand for it. The same clients come again,
// and hashing takes longer than all else that is done with a key.
type digested struct {
	of     *component
	value  []byte
	digits []byte
}

// appendHashed appends the digits that stand for a value of a hashed component.
func (m *Matcher) appendHashed(dst []byte, c *component, value string) []byte {
	if len(value) > maxDigestedBytes {
		return m.hashed(dst, c, value)
	}
	if m.digested == nil {
		m.digested = make([]digested, maxDigested)
	}
	place := uint32(len(value))
	for i := range len(value) {
		place = (place ^ uint32(value[i])) * 0x01000193 // FNV-1a; who makes values collide has them hashed anew
	}
	d := &m.digested[place>>16%maxDigested]
	if d.of != c || text.View(d.value) != value {
		d.of, d.value = c, append(d.value[:0], value...)
		d.digits = m.hashed(d.digits[:0], c, value)
	}
	return append(dst, d.digits...)
}

// hashed appends these digits anew.
func (m *Matcher) hashed(dst []byte, c *component, value string) []byte {
	if !c.Keyed {
		return m.appendDigest(dst, text.Bytes(value), hashDigits)
	}
	m.digest = m.set.mac.AppendSum(m.digest[:0], text.Bytes(value))
	return appendHex(dst, m.digest[:hashDigits/2])
}
