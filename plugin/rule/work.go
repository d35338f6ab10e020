package rule

// What a client sends is bounded by Envoy only (60 KB of headers unless it is
// told otherwise), and each of many rules may read all of that. So each request
// has units of work, which its rules share: some for patterns, and as many for all
// else, so that no value that a pattern reads keeps a key from being read. A unit
// takes some 2 to 3 ns in the plugin, so that all are used up within a millisecond: see
// docs/decisions/0012-bounded-matching.md.
//
// Bound: units of work of one request, for patterns, and as many for all else. Beyond it, what is
// not read yet counts as too long. Protects the worker: 2 ms a request.
const requestUnits = 150_000

// shortUnits are always affordable: enough for a value of some 256 bytes, about as much work as
// an ordinary request. Otherwise a client could use up the units with one long value, and
// so escape an identity such as its address.
//
// Bound: units of work that are always there. Beyond it, the request's units must do. Protects
// clients from losing a limit to a long value.
const shortUnits = 1024

// Bound: bytes of an identity that is always hashed. Beyond it, the request's units must do.
// Protects clients from losing a limit to a long value.
const shortIdentityBytes = 1024

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
// are enough, or it is little. If not, none is taken: what takes less may still be
// done.
func (m *Matcher) afford(units int) bool {
	if units > m.units && units > shortUnits {
		return false
	}
	m.units = max(m.units-units, 0)
	return true
}
