package sha256

// MAC makes the HMAC-SHA-256 of messages under one key (RFC 2104,
// https://www.rfc-editor.org/rfc/rfc2104). Its methods allocate nothing.
type MAC struct {
	inner, outer Hash // of the padded key alone
	hash         Hash
	digest       [Size]byte
}

// NewMAC returns the MAC of a key of any length.
func NewMAC(key []byte) *MAC {
	m := &MAC{inner: Hash{state: initial}, outer: Hash{state: initial}}
	if len(key) > blockSize {
		m.inner.Write(key)
		key = m.inner.AppendSum(nil)
		m.inner.Reset()
	}
	var inner, outer [blockSize]byte
	for i := range inner {
		inner[i], outer[i] = 0x36, 0x5c // ipad, opad
	}
	for i, b := range key {
		inner[i] ^= b
		outer[i] ^= b
	}
	m.inner.Write(inner[:])
	m.outer.Write(outer[:])
	return m
}

// AppendSum appends the code of a message, Size bytes.
func (m *MAC) AppendSum(dst, message []byte) []byte {
	m.hash = m.inner
	m.hash.Write(message)
	digest := m.hash.AppendSum(m.digest[:0])
	m.hash = m.outer
	m.hash.Write(digest)
	return m.hash.AppendSum(dst)
}
