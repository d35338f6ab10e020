package rule

import "crypto/sha256"

const (
	maxIdentity  = 200 // bytes of an identity; a longer one is replaced by its digest
	digestDigits = 2 * sha256.Size
	hashDigits   = 40 // of the digest of a hashed component
)

// AppendKey appends the Redis key of one limit for one identity: Tag and
// KeySuffix are an Applied's and one of its Limits'.
func AppendKey(dst []byte, prefix string, tag []byte, suffix string) []byte {
	dst = append(dst, prefix...)
	dst = append(dst, ":{"...)
	dst = append(dst, tag...)
	dst = append(dst, '}')
	return append(dst, suffix...)
}

// tag appends to m.tags the rule's name and the identity that its key builds, if
// it can be built.
func (m *Matcher) tag(r *compiled) ([]byte, bool) {
	start := len(m.tags)
	m.tags = append(m.tags, r.tagPrefix...)
	identity := len(m.tags)
	for i := range r.key {
		value, ok := m.read(&r.key[i])
		if !ok {
			m.tags = m.tags[:start]
			return nil, false
		}
		if i > 0 {
			m.tags = append(m.tags, '|')
		}
		if r.key[i].Hash {
			m.value = append(m.value[:0], value...)
			m.tags = m.appendDigest(m.tags, m.value, hashDigits)
		} else {
			m.tags = appendComponent(m.tags, value)
		}
	}
	if len(r.key) == 1 && len(m.tags) == identity {
		m.tags = append(m.tags, '%') // one empty component is not no component
	}
	if len(m.tags)-identity > maxIdentity {
		m.tags = m.appendDigest(m.tags[:identity], m.tags[identity:], digestDigits)
	}
	return m.tags[start:len(m.tags):len(m.tags)], true
}

// appendComponent appends one component so that no other value, nor the
// digest of any, is written the same.
func appendComponent(dst []byte, value string) []byte {
	if isDigest(value) {
		dst = appendEscape(dst, value[0])
		value = value[1:]
	}
	return appendEscaped(dst, value)
}

// appendEscaped appends s with the bytes encoded that would be ambiguous in a
// key, or could not be read in a log.
func appendEscaped(dst []byte, s string) []byte {
	for i := range len(s) {
		switch c := s[i]; {
		case c <= ' ', c == 0x7f, c == '%', c == '|', c == '{', c == '}':
			dst = appendEscape(dst, c)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// isDigest says whether s could be taken for what appendDigest writes.
func isDigest(s string) bool {
	if len(s) != hashDigits && len(s) != digestDigits {
		return false
	}
	for i := range len(s) {
		if fromHex(s[i]) > 15 || 'A' <= s[i] && s[i] <= 'F' {
			return false
		}
	}
	return true
}

// appendDigest appends the first digits of the SHA-256 of data. dst may end
// where data begins.
func (m *Matcher) appendDigest(dst, data []byte, digits int) []byte {
	if m.hash == nil {
		m.hash = sha256.New() // kept, as Sum256 allocates under TinyGo
	}
	m.hash.Reset()
	m.hash.Write(data)
	m.digest = m.hash.Sum(m.digest[:0])
	const hexDigits = "0123456789abcdef"
	for _, c := range m.digest[:digits/2] {
		dst = append(dst, hexDigits[c>>4], hexDigits[c&15])
	}
	return dst
}
