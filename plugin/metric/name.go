package metric

// Escape makes a name safe as one element of a metric's: what is not a letter, a
// digit, "-", "_" or "~" is percent-encoded (RFC 3986, section 2.1). A dot is,
// too, as dots separate elements. No two names become the same.
func Escape(name string) string {
	const hex = "0123456789ABCDEF"
	out := make([]byte, 0, len(name))
	for i := range len(name) {
		c := name[i]
		if isUnreserved(c) {
			out = append(out, c)
		} else {
			out = append(out, '%', hex[c>>4], hex[c&15])
		}
	}
	return string(out)
}

func isUnreserved(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return c == '-' || c == '_' || c == '~'
}
