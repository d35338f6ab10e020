package rule

import "strings"

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
