package metric

import "github.com/sluiceproxy/sluice/plugin/text"

// Escape makes a name safe as one element of a metric's. It percent-encodes
// everything except letters, digits, "-", "_" and "~" (RFC 3986, section 2.1), and so
// the dot, which separates elements. No two names become the same.
func Escape(name string) string {
	out := make([]byte, 0, len(name))
	for i := range len(name) {
		if c := name[i]; c != '.' && text.IsUnreserved(c) {
			out = append(out, c)
		} else {
			out = text.AppendEscape(out, c)
		}
	}
	return string(out)
}
