package answer

// Outcome is the result for a request, or for one rule's part in it.
type Outcome uint8

// The outcomes.
const (
	Allowed       Outcome = iota
	Limited               // rejected
	ShadowLimited         // would have been rejected by a rule in shadow
	Exempt                // an exempt rule ended the list of rules
	None                  // no rule applied
	FailedAllow           // Redis did not decide, and the request went on
	FailedDeny            // Redis did not decide, and the request was answered with 503
	LocalAllowed          // admitted by the embedded store in place of Redis
	LocalLimited          // rejected by the embedded store in place of Redis
	Blocked               // rejected by a block: an operator's, or a penalty
	Over                  // over the limit of a rule that lets the request go on all the same
	Quota                 // answered with what the caller has left

	// Outcomes is how many outcomes there are.
	Outcomes
)

// outcomeNames are an outcome's two names: in metrics, and in access logs (filter
// state wasm.sluice and the response code details), where a rule's name may follow.
var outcomeNames = [Outcomes]struct {
	metric, text string
	namesRule    bool
}{
	Allowed:       {metric: "allowed", text: "allowed"},
	Limited:       {metric: "limited", text: "limited:", namesRule: true},
	ShadowLimited: {metric: "shadow_limited", text: "shadow:", namesRule: true},
	Exempt:        {metric: "exempt", text: "exempt:", namesRule: true},
	None:          {metric: "none", text: "none"},
	FailedAllow:   {metric: "failed_allow", text: "failed:allow"},
	FailedDeny:    {metric: "failed_deny", text: "failed:deny"},
	LocalAllowed:  {metric: "local_allowed", text: "local:allowed"},
	LocalLimited:  {metric: "local_limited", text: "local:limited:", namesRule: true},
	Blocked:       {metric: "blocked", text: "blocked:", namesRule: true},
	Over:          {metric: "over", text: "over:", namesRule: true},
	Quota:         {metric: "quota", text: "quota"},
}

// Metric is the outcome's name in metrics.
func (o Outcome) Metric() string { return outcomeNames[o].metric }

// Texts are the words for access logs: one for each outcome that is due to a rule.
type Texts [Outcomes]string

// NewTexts prepares the texts of a rule. Without a rule's name they are those of
// outcomes that name none.
func NewTexts(rule string) (texts Texts) {
	for o := range texts {
		texts[o] = outcomeNames[o].text
		if outcomeNames[o].namesRule {
			texts[o] += rule
		}
	}
	return texts
}
