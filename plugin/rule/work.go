package rule

// What a client sends is bounded by Envoy only (60 KB of headers unless it is
// told otherwise), and each of many rules may look at all of it. So each request
// has units of work, which its rules share. A unit takes some 2 to 3 ns in the
// plugin, so that all are used up within half a millisecond: see
// docs/decisions/0012-bounded-matching.md.
const requestUnits = 150_000

// Units that a byte takes. A byte that a pattern looks at takes as many as package
// pattern says.
const (
	unitsToNormalise = 4 // a path or a host
	unitsToSearch    = 3 // a query or the cookies, for one name
	unitsToWrite     = 2 // a value, into a key
	unitsToHash      = 3
	unitsToCount     = 1 // a path's segments, a cost's digits
)

// afford takes units for work that is about to be done, and reports whether there
// are enough. If not, none is taken: what takes less may still be done.
func (m *Matcher) afford(units int) bool {
	if units > m.units {
		return false
	}
	m.units -= units
	return true
}
