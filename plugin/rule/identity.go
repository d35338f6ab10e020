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
		m.tags = appendComponent(m.tags, value, r.key[i].Hash)
	}
	if len(r.key) == 1 && len(m.tags) == identity {
		m.tags = append(m.tags, '%') // one empty component is not no component
	}
	if len(m.tags)-identity > maxIdentity {
		digest := sha256.Sum256(m.tags[identity:])
		m.tags = appendHex(m.tags[:identity], digest[:])
	}
	return m.tags[start:len(m.tags):len(m.tags)], true
}

// appendComponent appends one component so that no other value, nor the
// hash of any, is written the same.
func appendComponent(dst []byte, value string, hash bool) []byte {
	if hash {
		start := len(dst)
		dst = append(dst, value...)
		digest := sha256.Sum256(dst[start:])
		return appendHex(dst[:start], digest[:hashDigits/2])
	}
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

// isDigest says whether s could be taken for what appendHex writes here.
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

func appendHex(dst, src []byte) []byte {
	const digits = "0123456789abcdef"
	for _, c := range src {
		dst = append(dst, digits[c>>4], digits[c&15])
	}
	return dst
}
