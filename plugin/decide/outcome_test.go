package decide

import (
	"testing"

	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// What becomes of a check that nothing has decided is its rule's failure mode, whatever
// becomes of the request: such outcomes, and no others, have a counter of the rule.
func TestOutcomeOfFailedChecks(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		check Check
		want  answer.Outcome
	}{
		{"allow", undecided, answer.FailedAllow},
		{"deny", undecidedDeny, answer.FailedDeny},
		{"local, and the embedded store failed, too", undecidedLocal, answer.FailedAllow},
		{"a shadow rule", shadowFailed, answer.FailedAllow},
		{"a shadow rule that would deny", failing("s", config.Shadow, config.FailDeny), answer.FailedAllow},
		{"local", fallback, answer.LocalAllowed},
	} {
		if got := tc.check.Outcome(); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got.Metric(), tc.want.Metric())
		}
	}
}
