package config

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// Bound: bytes of a rule's or limit's name, and of `key_prefix`. Beyond it, the configuration is
// refused. Protects keys in Redis and names of metrics.
const maxNameBytes = 128

// isPrintable reports whether s is printable ASCII, space included.
func isPrintable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// readName reads the name of a rule or a limit. Names stand in Redis keys, in
// metrics and in structured header fields, which hold printable ASCII only
// (RFC 9651 section 3.3.3).
func (v value) readName() (string, bool) {
	name, ok := v.readNonEmpty(`a name such as "per-user"`)
	if ok && (len(name) > maxNameBytes || !isPrintable(name)) {
		v.mistake("%s is not a name (want at most %d printable ASCII characters)", v.shown(), maxNameBytes)
		return "", false
	}
	return name, ok
}

// isToken reports whether s is a token (RFC 9110 section 5.6.2), as methods,
// header names and cookie names are.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r > '~' || !text.IsToken(byte(r)) })
}

// isWord reports whether s is ASCII letters, digits and some other bytes alone.
func isWord(s, others string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		c := byte(min(r, '~'+1))
		return !text.IsAlpha(c) && !text.IsDigit(c) && strings.IndexByte(others, c) < 0
	})
}

// instead says how to get at the value of a pseudo header.
var instead = map[string]string{
	":path":      `use "path" or "query"`,
	":authority": `use "host"`,
	":method":    `use "method" in a key, "methods" in a match`,
	":scheme":    `use the property ["request", "scheme"] in a key`,
}

// checkHeaderName reports a name that no header can have.
func (v value) checkHeaderName(name string) bool {
	if strings.HasPrefix(name, ":") {
		remedy := cmp.Or(instead[strings.ToLower(name)], "want the name of an ordinary header")
		v.mistake("%s is a pseudo header (%s)", quoted(name), remedy)
		return false
	}
	if isToken(name) && len(name) <= maxNameBytes {
		return true
	}
	v.mistake(`%s is not a header name (want one such as "x-api-key")`, quoted(name))
	return false
}

// checkCookieName reports a name that no cookie can have.
func (v value) checkCookieName(name string) bool {
	if isToken(name) {
		return true
	}
	v.mistake(`%s is not a cookie name (want one such as "session")`, quoted(name))
	return false
}

// readHeaderName reads the name of a header and returns it in lower case.
func (v value) readHeaderName() (string, bool) {
	name, ok := v.readText()
	if !ok || !v.checkHeaderName(name) {
		return "", false
	}
	return strings.ToLower(name), true
}

// PathText writes a path as a configuration does.
func PathText(path []string) string {
	quoted := make([]string, len(path))
	for i := range path {
		quoted[i] = strconv.Quote(path[i])
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// nameOwner is the limit that has a name. Names are unique in a configuration,
// except that tiers of one rule may share them, as a request meets one tier only.
type nameOwner struct {
	scope
	path string // of the limit
}

// nameLimits names the limits of one list and compares them with each other.
// Limits that lack too much to be compared are left out.
func (s scope) nameLimits(drafts []*draftLimit, several bool) []Limit {
	unnamed := map[string]int{} // how many limits without a name have a window
	for _, d := range drafts {
		if !d.has("name") {
			unnamed[d.Window]++
		}
	}
	limits := make([]Limit, 0, len(drafts))
	twins := map[string]string{} // the paths of the limits so far, by the suffixes of their keys
	for _, d := range drafts {
		if !d.has("name") {
			d.Name = s.rule.Name
			if d.Name != "" && s.tier == overScope {
				d.Name += "-over"
			}
			// The window stands there as it is spelled, or the algorithm if there is no window.
			if d.Name != "" && several {
				d.Name += "-" + d.spelled
				if unnamed[d.Window] > 1 && d.Algorithm.HasWindow() {
					d.Name += "-" + d.Algorithm.String()
				}
			}
		}
		if !d.isWhole() {
			continue
		}
		limits = append(limits, d.Limit)

		suffix := d.KeySuffix()
		twin, isTwin := twins[suffix]
		switch {
		case isTwin && d.Algorithm.HasWindow():
			d.mistake("same algorithm and window as %s (want one of the two to differ)", twin)
			continue
		case isTwin:
			d.mistake("same algorithm as %s (want one of the two)", twin)
			continue
		}
		twins[suffix] = d.path

		first, taken := d.r.limitNames[d.Name]
		switch {
		case d.Name == "", taken && first.rule != s.rule && first.rule.Name == s.rule.Name:
			// Their rules' names are a mistake already.
		case taken && (first.rule != s.rule || first.tier == s.tier || s.tier == overScope):
			d.mistake(`its policy is named %s, as that of %s (want another "name" for one of the two)`,
				quoted(d.Name), first.path)
		default:
			d.r.limitNames[d.Name] = nameOwner{scope: s, path: d.path}
		}

		// A limit must have the "ttl" of another one with which it counts together. A bucket drains what is
		// lent if the tier that asks knows nothing of leases, and the slots of a request are renewed together.
		state, micros, slots := suffix, int64(0), !d.Algorithm.HasWindow()
		if slots {
			state, micros = "", d.TTLMicros
		} else if d.Lease != nil {
			micros = d.Lease.TTLMicros
		}
		other, known := d.r.ttls[s.rulePath+state]
		switch {
		case micros == 0 && (slots || d.Lease != nil): // it is a mistake already
		case !known:
			d.r.ttls[s.rulePath+state] = ttlOwner{micros, d.path}
		case other.micros == micros:
		case slots:
			d.mistake(`"ttl" %q is not that of %s, %q (want one "ttl" for all slots of a rule)`,
				algo.FormatDuration(micros), other.path, algo.FormatDuration(other.micros))
		default:
			d.mistake(`"lease" is not that of %s, which counts in the same key (want a "lease" with one "ttl" in both, or none)`,
				other.path)
		}
	}
	return limits
}

// ttlOwner is a limit whose "ttl" others must have, too.
type ttlOwner struct {
	micros int64 // 0: there is none
	path   string
}

// Bound: bytes of an unknown name. Beyond it, the mistake suggests no name. Protects the load of a
// configuration: the comparison takes quadratic time.
const maxComparedBytes = 48

// nearest finds the known name that was probably meant by an unknown one: a name
// that begins with it, or one a few edits away.
func nearest(unknown string, known []string) (string, bool) {
	if len(unknown) > maxComparedBytes {
		return "", false
	}
	unknown = strings.ReplaceAll(strings.ToLower(unknown), "-", "_")
	best, fewest := "", 1+max(1, len(unknown)/3)
	for _, name := range known {
		edits := editDistance(unknown, name)
		if len(unknown) >= 3 && strings.HasPrefix(name, unknown) {
			edits = 1
		}
		if edits < fewest {
			best, fewest = name, edits
		}
	}
	return best, best != ""
}

// editDistance is the least number of edits that turn a into b. An edit inserts,
// deletes or replaces a byte, or swaps two neighbours (optimal string alignment).
func editDistance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := last[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(replace, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
