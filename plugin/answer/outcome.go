package answer

// What became of a request, for access logs: the filter state wasm.sluice and
// the response code details.
const (
	Allowed      = "allowed"
	FailedAllow  = "failed:allow"
	FailedDeny   = "failed:deny"
	LocalAllowed = "local:allowed"
	None         = "none" // no rule applied
)

// Outcomes are the outcomes that name one rule.
type Outcomes struct {
	Limited      string // rejected by the rule
	Shadow       string // would have been rejected by the rule, which is in shadow
	LocalLimited string // rejected by the rule, decided without Redis
	Exempt       string
}

// NewOutcomes prepares the outcomes of a rule.
func NewOutcomes(rule string) Outcomes {
	return Outcomes{
		Limited:      "limited:" + rule,
		Shadow:       "shadow:" + rule,
		LocalLimited: "local:limited:" + rule,
		Exempt:       "exempt:" + rule,
	}
}
