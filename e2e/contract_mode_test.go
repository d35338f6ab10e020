package e2e

import (
	"net/http"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoytest"
)

const oneLimit = `"limits": [{"algorithm": "gcra", "limit": 1, "window": "1h"}]`

func TestModes(t *testing.T) {
	t.Parallel()
	noHeaders := []string{"x-ratelimit-limit", "", "ratelimit", "", "ratelimit-policy", "", "retry-after", ""}
	runScenarios(t, bothHeaders, envoytest.Options{}, []scenario{
		{
			name:  "shadow",
			rules: `{"name": "@", "match": {"path": {"prefix": "/@"}}, "mode": "shadow", ` + oneLimit + `}`,
			steps: []step{
				step{state: "allowed"}.with(noHeaders...),
				step{state: "shadow:@"}.with(noHeaders...),
				step{state: "shadow:@"}.with(noHeaders...),
			},
			keys: []string{"|}:gcra:1h"},
		},
		{
			name: "beside",
			rules: `{"name": "@.dark", "match": {"path": {"prefix": "/@"}}, "mode": "shadow", ` + oneLimit + `},
				{"name": "@", "match": {"path": {"prefix": "/@"}}, "limits": [{"algorithm": "gcra", "limit": 2, "window": "1h"}]}`,
			steps: []step{
				left(1, "").with("ratelimit-policy", `"@";q=2;w=3600`),
				step{state: "shadow:@.dark"}.with("x-ratelimit-remaining", "0", "ratelimit-policy", `"@";q=2;w=3600`),
				rejected("1800", ""),
			},
		},
		{
			name:  "off",
			rules: `{"name": "@", "match": {"path": {"prefix": "/@"}}, "mode": "off", ` + oneLimit + `}`,
			steps: []step{passes(""), passes("")}, keys: []string{},
		},
		{
			name:  "enforce",
			rules: `{"name": "@", "match": {"path": {"prefix": "/@"}}, "mode": "enforce", ` + oneLimit + `}`,
			steps: []step{left(0, ""), rejected("3600", "")},
		},
		{
			name: "exempting",
			rules: `{"name": "@.before", "match": {"path": {"prefix": "/@"}}, "limits": [{"algorithm": "gcra", "limit": 3, "window": "1h"}]},
				{"name": "@", "match": {"path": {"prefix": "/@/free"}}, "exempt": true},
				{"name": "@.after", "match": {"path": {"prefix": "/@"}}, ` + oneLimit + `}`,
			steps: []step{
				{path: "/free", want: map[string]string{"x-ratelimit-limit": "3", "x-ratelimit-remaining": "2"}},
				{path: "/x", want: map[string]string{"x-ratelimit-limit": "1", "x-ratelimit-remaining": "0"}},
				{path: "/free", want: map[string]string{"x-ratelimit-limit": "3", "x-ratelimit-remaining": "0"}},
				{path: "/free", status: http.StatusTooManyRequests, state: "limited:@.before"},
			},
		},
		{
			name:  "alone",
			rules: `{"name": "@", "match": {"path": {"prefix": "/@"}}, "exempt": true}`,
			steps: []step{step{state: "exempt:@"}.with(noHeaders...)},
		},
		{
			name: "lengthened",
			rules: `{"name": "@", "match": {"path": {"prefix": "/@"}}, "key": [{"header": "a"}], ` + oneLimit + `},
				{"name": "@.long", "match": {"path": {"prefix": "/@"}}, "key": [{"header": "b"}],
				"limits": [{"algorithm": "gcra", "limit": 1, "window": "2h"}]}`,
			steps: []step{
				{headers: []string{"a: 1", "b: 1"}, state: "allowed"},
				{headers: []string{"a: 1", "b: 1"}, status: http.StatusTooManyRequests, want: map[string]string{"retry-after": "7200"}},
				rejected("3600", "", "a: 1"),
				{headers: []string{"a: 2"}, state: "allowed"},
				{headers: []string{"a: 1", "b: 2"}, status: http.StatusTooManyRequests, state: "limited:@"},
				{headers: []string{"b: 2"}, state: "allowed"}, // what the rejected request charged was given back
			},
		},
	})
}
