package e2e

import (
	"net/http"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoytest"
)

const oneLimit = `"limits": [{"algorithm": "gcra", "limit": 1, "window": "1h"}]`

// silent wants an outcome, and no header of Sluice's.
func silent(outcome string) want {
	return want{
		Outcome: outcome, Limit: missing, Remaining: missing, Reset: missing, RetryAfter: missing, Policy: missing,
		RateLimit: missing,
	}
}

func TestModes(t *testing.T) {
	t.Parallel()
	runScenarios(t, bothHeaders, envoytest.Options{}, []scenario{
		{
			name:  "shadow",
			rules: `{"name": "shadow", "match": {"path": {"prefix": "/shadow"}}, "mode": "shadow", ` + oneLimit + `}`,
			steps: []step{{want: silent("allowed")}, {want: silent("shadow:shadow")}, {want: silent("shadow:shadow")}},
			keys:  []string{"|}:gcra:1h"},
		},
		{
			name: "beside",
			rules: `{"name": "beside.dark", "match": {"path": {"prefix": "/beside"}}, "mode": "shadow", ` + oneLimit + `},
				{"name": "beside", "match": {"path": {"prefix": "/beside"}},
					"limits": [{"algorithm": "gcra", "limit": 2, "window": "1h"}]}`,
			steps: []step{
				{want: want{Outcome: "allowed", Remaining: "1", Policy: `"beside";q=2;w=3600`}},
				{want: want{Outcome: "shadow:beside.dark", Remaining: "0", Policy: `"beside";q=2;w=3600`}},
				{want: want{Status: http.StatusTooManyRequests, Outcome: "limited:beside", RetryAfter: "1800"}},
			},
		},
		{
			name:  "off",
			rules: `{"name": "off", "match": {"path": {"prefix": "/off"}}, "mode": "off", ` + oneLimit + `}`,
			steps: []step{{want: silent("none")}, {want: silent("none")}},
			keys:  []string{},
		},
		{
			name:  "enforce",
			rules: `{"name": "enforce", "match": {"path": {"prefix": "/enforce"}}, "mode": "enforce", ` + oneLimit + `}`,
			steps: []step{
				{want: want{Outcome: "allowed", Remaining: "0"}},
				{want: want{Status: http.StatusTooManyRequests, Outcome: "limited:enforce", RetryAfter: "3600"}},
			},
		},
	})
}

// TestExempt: what stands before an exempt rule applies, what follows does not.
func TestExempt(t *testing.T) {
	t.Parallel()
	free, other := request{path: "/free"}, request{path: "/x"}
	runScenarios(t, bothHeaders, envoytest.Options{}, []scenario{
		{
			name: "between",
			rules: `{"name": "between.before", "match": {"path": {"prefix": "/between"}},
				"limits": [{"algorithm": "gcra", "limit": 3, "window": "1h"}]},
				{"name": "between", "match": {"path": {"prefix": "/between/free"}}, "exempt": true},
				{"name": "between.after", "match": {"path": {"prefix": "/between"}}, ` + oneLimit + `}`,
			steps: []step{
				{request: free, want: want{Limit: "3", Remaining: "2"}},
				{request: other, want: want{Limit: "1", Remaining: "0"}},
				{request: free, want: want{Limit: "3", Remaining: "0"}},
				{request: free, want: want{Status: http.StatusTooManyRequests, Outcome: "limited:between.before"}},
			},
		},
		{
			name:  "alone",
			rules: `{"name": "alone", "match": {"path": {"prefix": "/alone"}}, "exempt": true}`,
			steps: []step{{want: silent("exempt:alone")}},
		},
	})
}

// TestSeveralReject: the longest wait counts, and what a rejected request charged to
// others is given back.
func TestSeveralReject(t *testing.T) {
	t.Parallel()
	runScenarios(t, bothHeaders, envoytest.Options{}, []scenario{{
		name: "longest",
		rules: `{"name": "longest", "match": {"path": {"prefix": "/longest"}}, "key": [{"header": "a"}], ` + oneLimit + `},
			{"name": "longest.long", "match": {"path": {"prefix": "/longest"}}, "key": [{"header": "b"}],
			"limits": [{"algorithm": "gcra", "limit": 1, "window": "2h"}]}`,
		steps: []step{
			{request: with("a: 1", "b: 1"), want: want{Outcome: "allowed"}},
			{request: with("a: 1", "b: 1"), want: want{Status: http.StatusTooManyRequests, RetryAfter: "7200"}},
			{request: with("a: 1"), want: want{
				Status: http.StatusTooManyRequests, Outcome: "limited:longest",
				RetryAfter: "3600",
			}},
			{request: with("a: 2"), want: want{Outcome: "allowed"}},
			{request: with("a: 1", "b: 2"), want: want{Status: http.StatusTooManyRequests, Outcome: "limited:longest"}},
			{request: with("b: 2"), want: want{Outcome: "allowed"}}, // not charged by the one before
		},
	}})
}
